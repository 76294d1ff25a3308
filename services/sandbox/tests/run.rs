//! The whole sandbox on a real nats-server: what it registers, and how it ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aip_bus::{Answer, Bus, Handler, Incoming, Parcel, Registration, Serving, Settings, serve};
use aip_crypto::{SigningKey, verify_envelope};
use aip_names::{Identity, Service, Subject, User, Version};
use aip_sandbox::{Config, REGISTRATIONS, SERVICES, SandboxError, run};
use aip_testkit::{Scratch, TestNats, wait_for};
use aip_wire::codes::{self, Code};
use aip_wire::read::Bounds;
use aip_wire::{
    Envelope, ErrorBody, Manifest, MessageBody, ProtocolError, Timestamp, TransportMessage,
    capability_schema, validate,
};
use tokio::sync::oneshot;

const SOON: Duration = Duration::from_secs(30);

/// Takes every manifest, or refuses those of one service.
struct Gateway {
    refuses: Option<(&'static str, &'static Code)>,
    taken: Mutex<Vec<(String, Manifest)>>,
}

impl Handler for Gateway {
    async fn handle(&self, request: Incoming) -> Option<Answer> {
        let (checked, _) = validate::frame(&request.payload, &Bounds::FRAME).unwrap();
        verify_envelope(checked.value()).unwrap();
        let envelope = checked.into_parts().1;
        let MessageBody::Manifest(manifest) = envelope.body.clone() else { panic!("{envelope:?}") };
        let service =
            manifest.extensions.as_ref().unwrap()["aip.worker"]["service"].as_str().unwrap().to_owned();
        let body: MessageBody = match self.refuses {
            Some((refused, code)) if refused == service => {
                ErrorBody { error: ProtocolError::of(code, "no") }.into()
            }
            _ => {
                self.taken.lock().unwrap().push((service, (*manifest).clone()));
                MessageBody::Manifest(manifest)
            }
        };
        let reply = Envelope::reply_to(&envelope, body, Timestamp::now());
        let envelope = serde_json::to_value(reply).unwrap();
        Some(Answer {
            parcel: Parcel::new(&TransportMessage { envelope, metadata: None }).unwrap(),
            error: None,
        })
    }

    fn busy(&self, _: &Incoming) -> Option<Answer> {
        None
    }
}

struct Stage {
    nats: TestNats,
    gateway: Arc<Gateway>,
    scratch: Scratch,
    _serving: Serving,
}

async fn stage(refuses: Option<(&'static str, &'static Code)>) -> Stage {
    let nats = TestNats::start_with(&[User::worker("sandbox", &SERVICES).unwrap()]).await;
    let settings = Settings {
        url: nats.url(),
        seed_file: nats.seed_file(&Identity::Gateway),
        identity: Identity::Gateway,
        name: "gateway".to_owned(),
    };
    let bus = Bus::connect(settings).await.unwrap();
    bus.ready(SOON).await.unwrap();
    let gateway = Arc::new(Gateway { refuses, taken: Mutex::default() });
    let pattern = Subject::all_messages(&TestNats::trust_domain(), &Service::gateway(), Version::V1);
    let registration = Registration {
        service: Service::gateway(),
        version: "0.0.1".to_owned(),
        description: String::new(),
        endpoints: vec![("messages".to_owned(), pattern)],
        running_max: 8,
    };
    let serving = serve(&bus, registration, Arc::clone(&gateway)).await.unwrap();
    Stage { nats, gateway, scratch: Scratch::new(), _serving: serving }
}

impl Stage {
    fn config(&self) -> Config {
        let key = self.scratch.join("sandbox.key");
        if !key.exists() {
            SigningKey::generate().unwrap().save(&key).unwrap();
        }
        let path = self.scratch.join("sandbox.toml");
        let seed = self.nats.seed_file(&TestNats::worker("sandbox"));
        let text = format!(
            "trust_domain = \"aip.local\"\nprincipal = \"service:sandbox\"\nsigning_key = \"sandbox.key\"\n\
             data_dir = \"data\"\n[nats]\nurl = \"{}\"\nidentity = \"worker-sandbox\"\nseed = {seed:?}\n",
            self.nats.url()
        );
        std::fs::write(&path, text).unwrap();
        Config::load(&path).unwrap()
    }

    fn taken(&self) -> Vec<(String, Manifest)> {
        self.gateway.taken.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn all_providers_register_and_a_second_process_is_refused_the_data() {
    let stage = stage(None).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(run(stage.config(), async { stopped.await.unwrap_or_default() }));
    wait_for("all registrations", SOON, || async { stage.taken().len() >= SERVICES.len() }).await;
    let mut taken = stage.taken();
    taken.sort_by_key(|(service, _)| SERVICES.iter().position(|known| known == service));
    let services: Vec<&str> = taken.iter().map(|(service, _)| service.as_str()).collect();
    assert_eq!(services, SERVICES);
    for ((_, manifest), (_, pattern)) in taken.iter().zip(REGISTRATIONS) {
        for capability in &manifest.capabilities {
            assert!(capability.id.as_str().starts_with(pattern.trim_end_matches('*')), "{}", capability.id);
            capability_schema::compile(&capability.input_schema).unwrap();
            capability_schema::compile_output(capability.output_schema.as_ref().unwrap()).unwrap();
            assert!(capability.contract.is_some() && capability.risk.is_some());
        }
    }

    let second = run(stage.config(), std::future::pending()).await.unwrap_err();
    assert!(matches!(second, SandboxError::Store { .. }), "{second}");
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    // and what it held is free again
    let again = run(stage.config(), async {}).await;
    assert!(again.is_ok(), "{again:?}");
}

#[tokio::test]
async fn a_refused_provider_ends_the_sandbox() {
    let stage = stage(Some(("sandbox-accounts", codes::MANIFEST_NOT_ALLOWED))).await;
    let ended = run(stage.config(), std::future::pending()).await.unwrap_err();
    assert!(matches!(ended, SandboxError::Worker { service: "sandbox-accounts", .. }), "{ended}");
}

#[tokio::test]
async fn a_provider_that_the_gateway_does_not_take_yet_keeps_no_other_from_its_work() {
    let stage = stage(Some(("sandbox-restaurant", codes::SERVICE_NOT_READY))).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(run(stage.config(), async { stopped.await.unwrap_or_default() }));
    wait_for("the others' registrations", SOON, || async {
        let taken = stage.taken();
        SERVICES[1..].iter().all(|service| taken.iter().any(|(own, _)| own == service))
    })
    .await;
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
}
