//! The way of one checked message (11.3): who sent it, then what it asks. Whatever a signed message leads to, its id is
//! claimed in the ledger before it is answered.

use bytes::Bytes;
use secrecy::SecretString;
use serde_json::json;

use aip_admission::{Authentic, Valid};
use aip_kernel::Millis;
use aip_names::limits::ID_BYTES_MAX;
use aip_wire::validate::Checked;
use aip_wire::{ErrorCategory, Manifest, MessageBody, MessageType, Refusal, codes};

use crate::admit::Told;
use crate::attempt;
use crate::errors;
use crate::front::Outbound;
use crate::gateway::Gateway;
use crate::machine::{Answer, Command, Note, Refused, ReplayClaim};
use crate::register::Registration;
use crate::reply::{APPROVAL_EXTENSION, Asked};
use crate::served;
use aip_service::clock;

/// Why a message came to no answer.
pub(crate) struct Stop {
    refusal: Refusal,
    /// The ledger knows already, or can't be told.
    noted: bool,
}

// === impl Stop ===

impl Stop {
    pub fn noted(refusal: Refusal) -> Stop {
        Stop { refusal, noted: true }
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop { refusal, noted: false }
    }
}

// === impl Gateway ===

impl Gateway {
    /// Answers a message that obeys the wire's rules. `received` is what the reply may copy from when nobody is known.
    pub(crate) async fn checked(
        &self,
        checked: Checked,
        bearer: Option<SecretString>,
        received: &Bytes,
    ) -> Outbound {
        let now = clock::now_ms();
        let valid = Valid::from(checked);
        let authentic = match self.authenticator().authenticate(valid, bearer.as_ref(), now).await {
            Ok(authentic) => authentic,
            Err(refusal) => {
                if let Some(suppressed) = self.quiet().admit(refusal.code.name) {
                    let code = refusal.code.name;
                    tracing::info!(code, suppressed, "a request was not authenticated");
                }
                return self.voice().refuse_stranger(received, refusal);
            }
        };
        let asked = Asked::of(&authentic);
        let about = About::of(&authentic);
        match self.respond(&asked, authentic, now).await {
            Ok(outbound) => outbound,
            Err(stop) => {
                let refusal = self.note_refusal(&asked, about, stop).await;
                if let Some(suppressed) = self.quiet().admit(refusal.code.name) {
                    let code = refusal.code.name;
                    tracing::info!(code, sender = %asked.sender.id, suppressed, "a message was refused");
                }
                self.voice().refuse(&asked, refusal)
            }
        }
    }

    async fn respond(&self, asked: &Asked, authentic: Authentic, now: Millis) -> Result<Outbound, Stop> {
        let envelope = authentic.envelope();
        if let Some(report) = attempt::of(envelope)? {
            let (body, extensions) = self.report(&authentic, report).await?;
            return Ok(self.voice().answer_with(asked, body, extensions));
        }
        if let Some(code) = served::refused_with(envelope.message_type) {
            return Err(Refusal::new(code, "/message_type", code.meaning).into());
        }
        let is_action = envelope.message_type == MessageType::Action;
        if envelope.session_id.is_some() && !is_action {
            let code = codes::UNSUPPORTED_SESSION;
            return Err(Refusal::new(code, "/session_id", code.meaning).into());
        }
        if is_action {
            let id = match &envelope.body {
                MessageBody::Action(action) => action.id.clone(),
                _ => return Err(Refusal::of(codes::ENVELOPE_TYPE_MISMATCH).into()),
            };
            return Ok(match self.act(authentic, now).await? {
                Told::Ended { result, cached: true } => {
                    self.voice().answer_cached(asked, &id, MessageBody::from(*result))
                }
                Told::Ended { result, cached: false } => self.voice().answer(asked, (*result).into()),
                Told::Acknowledged(ack) => self.voice().answer(asked, ack.into()),
                Told::Pending { body, approval } => {
                    let extensions = json!({APPROVAL_EXTENSION: {"approval_id": approval}});
                    self.voice().answer_with(asked, body, Some(extensions))
                }
            });
        }
        if let MessageBody::Manifest(manifest) = &envelope.body {
            let registration = self.register(&authentic, manifest).await?;
            return Ok(self.voice().answer(asked, self.registered(manifest, &registration)));
        }
        if let MessageBody::Cancel(wish) = &envelope.body {
            let ack = self.cancel(&authentic, wish).await?;
            return Ok(self.voice().answer(asked, ack.into()));
        }
        // a read leaves no record of its own, and what another service owns is recorded there
        self.note(asked, None).await.map_err(Stop::noted)?;
        if let MessageBody::ApprovalRecordView(told) = &envelope.body {
            let ack = self.resume(&authentic, told).await.map_err(Stop::noted)?;
            return Ok(self.voice().answer(asked, ack.into()));
        }
        let body = self.read(authentic.caller(), &envelope.body, now).await.map_err(Stop::noted)?;
        Ok(self.voice().answer(asked, body))
    }

    /// The worker's own manifest back, with what became of it.
    fn registered(&self, manifest: &Manifest, registration: &Registration) -> MessageBody {
        let mut answer = manifest.clone();
        answer.extensions = Some(json!({
            "aip.registration": {"added": registration.added, "withdrawn": registration.withdrawn},
        }));
        answer.into()
    }

    /// Notes a refusal where it has to be: of a signed message always, of any other when it is a denial.
    async fn note_refusal(&self, asked: &Asked, about: About, stop: Stop) -> Refusal {
        let Stop { refusal, noted } = stop;
        let denial = matches!(refusal.code.category, ErrorCategory::Policy);
        if noted || !(asked.is_signed() || denial) {
            return refusal;
        }
        let refused = Refused {
            code: refusal.code.name.to_owned(),
            action_id: about.action_id,
            capability_id: about.capability_id,
        };
        match self.note(asked, Some(refused)).await {
            Ok(()) => refusal,
            Err(instead) => instead,
        }
    }

    /// Notes a message that leads to no other record. One that a token authenticated is noted only when it was refused.
    async fn note(&self, asked: &Asked, refused: Option<Refused>) -> Result<(), Refusal> {
        if !asked.is_signed() && refused.is_none() {
            return Ok(());
        }
        let claim = asked.replay.as_ref();
        let note = Note {
            actor: asked.sender.clone(),
            message_id: asked.message_id.clone(),
            claim: claim.map(|claim| ReplayClaim { name: claim.name.clone(), until: claim.expires_at_ms }),
            refused,
        };
        match self.decide(Command::Note(Box::new(note))).await? {
            Answer::Refused(refusal) => Err(Refusal::of(errors::of_refusal(refusal))),
            _ => Ok(()),
        }
    }
}

/// What a refused message was about, by ids.
#[derive(Default)]
struct About {
    action_id: Option<String>,
    capability_id: Option<String>,
}

// === impl About ===

impl About {
    fn of(authentic: &Authentic) -> About {
        // an id is noted only at a length that an id has
        let short = |id: &str| (id.len() <= ID_BYTES_MAX).then(|| id.to_owned());
        match &authentic.envelope().body {
            MessageBody::Action(action) => About {
                action_id: short(action.id.as_str()),
                capability_id: short(action.capability_id.as_str()),
            },
            _ => About::default(),
        }
    }
}
