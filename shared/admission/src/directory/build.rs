//! From configuration to directory: every reference has to resolve, every proof has to belong to one principal, and
//! all problems are found in one go, each with its place.

mod checks;

use std::collections::{BTreeMap, HashMap, HashSet};

use sha2::{Digest, Sha256};

use aip_names::limits::{
    ACTION_ASYNC_TIMEOUT_MAX_MS, APPROVAL_STEPS_MAX, JWKS_REFRESH_MIN_MS, JWKS_STALE_MAX_MS,
    TOKEN_LEEWAY_MAX_MS,
};
use aip_names::{Service, TrustDomain, Version};
use aip_wire::{Principal, PrincipalId, RiskLevel};

use super::config::{
    ApproversConfig, Config, CredentialConfig, EscalationConfig, GrantConfig, IssuerConfig, PrincipalConfig,
    TenantConfig, WorkerConfig,
};
use super::{
    ApiKey, Credential, Directory, DirectoryError, Grant, Issuer, KeySource, Party, Problem, Tenant, Worker,
};
use checks::{Builder, is_safe_url};

impl Directory {
    /// What is wrong with this configuration; nothing when a directory can be built from it.
    pub fn check(config: &Config) -> Vec<Problem> {
        match Directory::build(config) {
            Err(DirectoryError::Invalid(problems)) => problems,
            Ok(_) | Err(_) => Vec::new(),
        }
    }

    /// # Errors
    /// [`DirectoryError::Invalid`] with everything that is wrong, each with its place.
    pub fn build(config: &Config) -> Result<Directory, DirectoryError> {
        let mut builder = Builder::default();
        builder.general(config);
        let mut tenants = builder.tenants(config);
        let issuers = builder.issuers(config);
        let parties = builder.parties(config, &tenants, &issuers);
        let workers = builder.workers(&config.workers, &parties);
        builder.credentials(&config.credentials, &mut tenants);
        let grants = builder.grants(&config.grants, &parties);
        if !builder.problems.is_empty() {
            return Err(DirectoryError::Invalid(builder.problems));
        }
        let text = toml::to_string(config).map_err(|error| DirectoryError::Syntax(error.to_string()))?;
        Ok(Directory {
            version: hex::encode(Sha256::digest(text.as_bytes())),
            trust_domain: config.trust_domain.clone(),
            limits: config.limits,
            tenants,
            parties,
            dids: builder.dids,
            subjects: builder.subjects,
            api_keys: builder.api_keys,
            issuers,
            workers,
            grants,
        })
    }
}

// === impl Builder ===

impl Builder {
    fn general(&mut self, config: &Config) {
        if let Err(error) = TrustDomain::new(&config.trust_domain) {
            self.problem("trust_domain", error);
        }
        self.timeouts(config);
        let limits = config.limits;
        if limits.replay_window_ms < limits.skew_past_ms.saturating_add(limits.skew_future_ms) {
            self.problem(
                "limits.replay_window_ms",
                "is shorter than skew_past_ms and skew_future_ms together",
            );
        }
    }

    fn timeouts(&mut self, config: &Config) {
        if !(1..=ACTION_ASYNC_TIMEOUT_MAX_MS).contains(&config.limits.async_timeout_ms) {
            let most = format!("is not from 1 to {ACTION_ASYNC_TIMEOUT_MAX_MS}");
            self.problem("limits.async_timeout_ms", most);
        }
    }

    fn tenants(&mut self, config: &Config) -> BTreeMap<String, Tenant> {
        let mut tenants = BTreeMap::new();
        for (index, tenant) in config.tenants.iter().enumerate() {
            let place = format!("tenant[{index}]");
            self.nonblank(&format!("{place}.id"), &tenant.id);
            let accounts = tenant.external_accounts.clone();
            self.accounts(&place, &accounts);
            let (approvers, escalations) = self.approvals(&place, tenant);
            let built = Tenant { accounts, approvers, escalations, ..Tenant::default() };
            if tenants.insert(tenant.id.clone(), built).is_some() {
                self.problem(place, format!("tenant {:?} is there twice", tenant.id));
            }
        }
        tenants
    }

    /// A tenant's named approvers, and its ladder in the order of time.
    fn approvals(
        &mut self,
        place: &str,
        tenant: &TenantConfig,
    ) -> (HashMap<String, ApproversConfig>, Vec<EscalationConfig>) {
        let mut approvers = HashMap::new();
        for (index, named) in tenant.approval_policies.iter().enumerate() {
            let place = format!("{place}.approval_policy[{index}]");
            self.nonblank(&format!("{place}.id"), &named.id);
            if approvers.insert(named.id.clone(), named.clone()).is_some() {
                self.problem(place, format!("approval policy {:?} is there twice", named.id));
            }
        }
        if tenant.escalations.len() > APPROVAL_STEPS_MAX {
            self.problem(format!("{place}.escalation"), format!("has more than {APPROVAL_STEPS_MAX} steps"));
        }
        let mut escalations = tenant.escalations.clone();
        escalations.sort_by_key(|step| step.after_ms);
        (approvers, escalations)
    }

    fn parties(
        &mut self,
        config: &Config,
        tenants: &BTreeMap<String, Tenant>,
        issuers: &BTreeMap<String, Issuer>,
    ) -> BTreeMap<PrincipalId, Party> {
        let mut parties = BTreeMap::new();
        for (index, principal) in config.principals.iter().enumerate() {
            let place = format!("principal[{index}]");
            let party = self.party(&place, principal, &config.trust_domain, tenants);
            self.proofs(&place, principal, issuers);
            if parties.insert(principal.id.clone(), party).is_some() {
                self.problem(place, format!("principal {:?} is there twice", principal.id.as_str()));
            }
        }
        parties
    }

    fn party(
        &mut self,
        place: &str,
        config: &PrincipalConfig,
        trust_domain: &str,
        tenants: &BTreeMap<String, Tenant>,
    ) -> Party {
        self.nonblank(&format!("{place}.id"), config.id.as_str());
        let mut seen = HashSet::new();
        for (index, tenant) in config.tenants.iter().enumerate() {
            let place = format!("{place}.tenants[{index}]");
            if !tenants.contains_key(tenant) {
                self.problem(&place, format!("tenant {tenant:?} is not configured"));
            }
            if !seen.insert(tenant) {
                self.problem(place, format!("tenant {tenant:?} is there twice"));
            }
        }
        Party {
            principal: Principal {
                id: config.id.clone(),
                kind: config.kind,
                display_name: config.display_name.clone(),
                trust_domain: Some(trust_domain.to_owned()),
                did: None,
                external_refs: Vec::new(),
                delegated_authority: Vec::new(),
                auth_context: None,
            },
            tenants: config.tenants.clone(),
            scopes: self.scopes(&format!("{place}.scopes"), &config.scopes),
            capabilities: self.patterns(&format!("{place}.capabilities"), &config.capabilities),
            risk_max: config.risk_max.unwrap_or(RiskLevel::Critical),
            roles: config.roles.clone(),
            groups: config.groups.clone(),
            external_systems: config.external_systems.clone(),
        }
    }

    /// A DID, subject or key that two principals share would prove neither.
    fn proofs(&mut self, place: &str, config: &PrincipalConfig, issuers: &BTreeMap<String, Issuer>) {
        for (index, did) in config.dids.iter().enumerate() {
            let place = format!("{place}.dids[{index}]");
            if let Err(error) = did.parse::<aip_crypto::Did>() {
                self.problem(&place, format!("{did:?} is not an Ed25519 did:key: {error}"));
            }
            if self.dids.insert(did.clone(), config.id.clone()).is_some() {
                self.problem(place, format!("{did:?} is bound twice"));
            }
        }
        for (index, subject) in config.subjects.iter().enumerate() {
            let place = format!("{place}.subjects[{index}]");
            if !issuers.contains_key(&subject.iss) {
                self.problem(&place, format!("issuer {:?} is not configured", subject.iss));
            }
            let key = (subject.iss.clone(), subject.subject.clone());
            if self.subjects.insert(key, config.id.clone()).is_some() {
                self.problem(place, format!("subject {:?} is bound twice", subject.subject));
            }
        }
        for (index, key) in config.api_keys.iter().enumerate() {
            let place = format!("{place}.api_keys[{index}]");
            let mut digest = [0; 32];
            if hex::decode_to_slice(&key.sha256.0, &mut digest).is_err() {
                self.problem(format!("{place}.sha256"), "is not 64 hexadecimal digits");
            } else if self.api_keys.iter().any(|other| other.digest == digest) {
                self.problem(format!("{place}.sha256"), "is the digest of another key as well");
            }
            self.nonblank(&format!("{place}.id"), &key.id);
            if self.api_keys.iter().any(|other| other.id == key.id) {
                self.problem(&place, format!("api key id {:?} is there twice", key.id));
            }
            let expires_at_ms = self.instant(&format!("{place}.expires_at"), key.expires_at.as_ref());
            self.api_keys.push(ApiKey {
                id: key.id.clone(),
                principal: config.id.clone(),
                digest,
                expires_at_ms,
            });
        }
    }

    fn issuers(&mut self, config: &Config) -> BTreeMap<String, Issuer> {
        let mut issuers = BTreeMap::new();
        for (index, issuer) in config.issuers.iter().enumerate() {
            let place = format!("issuer[{index}]");
            self.nonblank(&format!("{place}.iss"), &issuer.iss);
            self.nonblank(&format!("{place}.audience"), &issuer.audience);
            self.nonblank(&format!("{place}.principal_claim"), &issuer.principal_claim);
            if issuer.algorithms.is_empty() {
                self.problem(format!("{place}.algorithms"), "names no algorithm");
            }
            let refresh_ms = JWKS_REFRESH_MIN_MS..=JWKS_STALE_MAX_MS;
            self.within(format!("{place}.refresh_ms"), issuer.refresh_ms, refresh_ms);
            self.within(format!("{place}.leeway_ms"), issuer.leeway_ms, 0..=TOKEN_LEEWAY_MAX_MS);
            let Some(keys) = self.key_source(&place, issuer) else { continue };
            let built = Issuer {
                iss: issuer.iss.clone(),
                audience: issuer.audience.clone(),
                keys,
                algorithms: issuer.algorithms.clone(),
                principal_claim: issuer.principal_claim.clone(),
                scopes_claim: issuer.scopes_claim.clone(),
                leeway_ms: issuer.leeway_ms,
                refresh_ms: issuer.refresh_ms,
            };
            if issuers.insert(issuer.iss.clone(), built).is_some() {
                self.problem(place, format!("issuer {:?} is there twice", issuer.iss));
            }
        }
        issuers
    }

    fn key_source(&mut self, place: &str, issuer: &IssuerConfig) -> Option<KeySource> {
        match (&issuer.jwks_file, &issuer.jwks_url) {
            (Some(file), None) => Some(KeySource::File(file.clone())),
            (None, Some(url)) => {
                if !is_safe_url(url) {
                    self.problem(
                        format!("{place}.jwks_url"),
                        "is neither https nor http on the loopback address",
                    );
                }
                Some(KeySource::Url(url.clone()))
            }
            _ => {
                self.problem(place, "needs exactly one of jwks_file and jwks_url");
                None
            }
        }
    }

    fn workers(&mut self, workers: &[WorkerConfig], parties: &BTreeMap<PrincipalId, Party>) -> Vec<Worker> {
        let mut built: Vec<Worker> = Vec::new();
        for (index, worker) in workers.iter().enumerate() {
            let place = format!("worker[{index}]");
            self.known(&format!("{place}.principal"), &worker.principal, parties);
            if let Err(error) = Service::new(&worker.service) {
                self.problem(format!("{place}.service"), error);
            }
            if let Err(error) = Version::new(&worker.version) {
                self.problem(format!("{place}.version"), error);
            }
            if built.iter().any(|w| w.service == worker.service && w.principal != worker.principal) {
                self.problem(&place, format!("service {:?} belongs to another principal", worker.service));
            }
            built.push(Worker {
                principal: worker.principal.clone(),
                service: worker.service.clone(),
                version: worker.version.clone(),
                capabilities: self.patterns(&format!("{place}.capabilities"), &worker.capabilities),
            });
        }
        built
    }

    fn credentials(&mut self, credentials: &[CredentialConfig], tenants: &mut BTreeMap<String, Tenant>) {
        for (index, credential) in credentials.iter().enumerate() {
            let place = format!("credential[{index}]");
            self.nonblank(&format!("{place}.id"), &credential.id);
            self.nonblank(&format!("{place}.issuer"), &credential.issuer);
            let built = Credential {
                id: credential.id.clone(),
                issuer: credential.issuer.clone(),
                scopes: self.scopes(&format!("{place}.scopes"), &credential.scopes),
                expires_at_ms: self.instant(&format!("{place}.expires_at"), credential.expires_at.as_ref()),
                refreshable: credential.refreshable,
                external_account: credential.external_account.clone(),
            };
            let Some(tenant) = tenants.get_mut(&credential.tenant) else {
                let message = format!("tenant {:?} is not configured", credential.tenant);
                self.problem(format!("{place}.tenant"), message);
                continue;
            };
            if let Some(account) = &built.external_account {
                self.accounts(&place, std::slice::from_ref(account));
                if !tenant.accounts.contains(account) {
                    tenant.accounts.push(account.clone());
                }
            }
            if tenant.credentials.insert(credential.id.clone(), built).is_some() {
                self.problem(place, format!("credential {:?} is there twice", credential.id));
            }
        }
    }

    fn grants(&mut self, grants: &[GrantConfig], parties: &BTreeMap<PrincipalId, Party>) -> Vec<Grant> {
        let mut built = Vec::new();
        for (index, grant) in grants.iter().enumerate() {
            let place = format!("grant[{index}]");
            self.known(&format!("{place}.delegate"), &grant.delegate, parties);
            self.known(&format!("{place}.principal"), &grant.principal, parties);
            // nobody can give away a tenant that they are not in
            let given = parties.get(&grant.principal);
            if given.is_some_and(|party| !party.tenants.contains(&grant.tenant)) {
                self.problem(
                    format!("{place}.tenant"),
                    format!("the principal is not in {:?}", grant.tenant),
                );
            }
            built.push(Grant {
                delegate: grant.delegate.clone(),
                principal: grant.principal.clone(),
                scopes: self.scopes(&format!("{place}.scopes"), &grant.scopes),
                capabilities: self.patterns(&format!("{place}.capabilities"), &grant.capabilities),
                tenant: grant.tenant.clone(),
                risk_max: grant.risk_max.unwrap_or(RiskLevel::Critical),
                expires_at_ms: self
                    .instant(&format!("{place}.expires_at"), Some(&grant.expires_at))
                    .unwrap_or_default(),
            });
        }
        built
    }
}
