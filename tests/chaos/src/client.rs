//! The two tenants as clients: over HTTP to each gateway, signed or with an API key, and over NATS.

use std::sync::Arc;
use std::time::Duration;

use aip_crypto::SigningKey;
use aip_names::{Identity, Service, TrustDomain};
use aip_sdk::{Client, HttpConfig, NatsConfig, Proof};
use aip_wire::{Principal, PrincipalId, PrincipalKind};
use secrecy::SecretString;

use crate::fleet::Fleet;
use crate::site;

/// A tenant's ways to the gateways.
pub struct Tenant {
    /// Its place in [`site::TENANTS`].
    pub number: usize,
    pub name: &'static str,
    /// One a gateway; answers are signed.
    pub http: Vec<Client>,
    pub nats: Client,
    /// One a gateway, with the API key: reads through it leave no record.
    pub reader: Vec<Client>,
}

// === impl Tenant ===

impl Tenant {
    /// # Panics
    /// The clients can't be set up.
    pub async fn new(fleet: &Fleet, number: usize) -> Tenant {
        let name = site::TENANTS[number];
        let key = Arc::clone(&fleet.site.clients[number]);
        let urls: Vec<String> = (0..fleet.gateways.len()).map(|i| fleet.url(i)).collect();
        let client =
            |url: &String, proof| Client::http(HttpConfig { url: url.clone(), proof }).expect("HTTP");
        let bearer = || Proof::Bearer(SecretString::from(site::api_key(name)));
        let did = || fleet.site.gateway_did.parse().expect("a did");
        let signed =
            || Proof::Signed { principal: principal(name), key: Arc::clone(&key), gateway: Some(did()) };
        let nats = nats(fleet, name, Arc::clone(&key)).await;
        Tenant {
            number,
            name,
            http: urls.iter().map(|url| client(url, signed())).collect(),
            nats,
            reader: urls.iter().map(|url| client(url, bearer())).collect(),
        }
    }

    /// Both.
    pub async fn all(fleet: &Fleet) -> Vec<Arc<Tenant>> {
        vec![Arc::new(Tenant::new(fleet, 0).await), Arc::new(Tenant::new(fleet, 1).await)]
    }
}

fn principal(tenant: &str) -> Principal {
    let id = PrincipalId::parse(site::principal(tenant)).expect("a principal's id");
    let mut principal = Principal::new(id, PrincipalKind::Service);
    principal.trust_domain = Some(site::TRUST_DOMAIN.to_owned());
    principal
}

async fn nats(fleet: &Fleet, tenant: &str, key: Arc<SigningKey>) -> Client {
    let identity = Identity::Client(Service::new(tenant).expect("a name"));
    let client = Client::nats(NatsConfig {
        trust_domain: TrustDomain::new(site::TRUST_DOMAIN).expect("a trust domain"),
        url: fleet.server.url(),
        seed_file: fleet.server.seed_file(&identity),
        identity,
        principal: principal(tenant),
        key,
        gateway: Some(fleet.site.gateway_did.parse().expect("a did")),
    })
    .await
    .expect("a client over NATS");
    client.ready(Duration::from_secs(10)).await.expect("a connection");
    client
}
