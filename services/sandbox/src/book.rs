//! One provider's store: rows of JSON by tenant, and every effect written once, together with what it changed.
//!
//! A second attempt at the same action, or another action with the same idempotency key, gets the first answer and
//! changes nothing. All access is off the async threads; no transaction is held over an await.
//!
//! | table | key | value |
//! |---|---|---|
//! | `sandbox_rows_v1` | tenant, kind, id | the row, as JSON |
//! | `sandbox_effects_v1` | tenant, name of the effect | its answer, as JSON |
//! | `sandbox_counts_v1` | tenant, capability | how many effects there were |

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use aip_sdk::{ActionError, Context};
use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable, Table, TableDefinition};
use serde::Serialize;
use serde::de::DeserializeOwned;

type Key = (&'static str, &'static str, &'static str);

const ROWS: TableDefinition<Key, &[u8]> = TableDefinition::new("sandbox_rows_v1");
const EFFECTS: TableDefinition<(&str, &str), &[u8]> = TableDefinition::new("sandbox_effects_v1");
const COUNTS: TableDefinition<(&str, &str), u64> = TableDefinition::new("sandbox_counts_v1");

/// The kind of row that says that a tenant has its samples.
const SEEDED: &str = "seeded";

/// Writes a tenant's samples.
pub type Seed = fn(&mut Draft<'_>) -> Result<(), ActionError>;

/// A provider's store.
#[derive(Clone)]
pub struct Book {
    inner: Arc<Inner>,
}

struct Inner {
    database: Database,
    seed: Seed,
    /// Tenants that are known to have their samples; a directory lists all that can come.
    seeded: Mutex<HashSet<String>>,
}

/// A tenant's rows, to look at.
pub struct Rows<'t, T> {
    tenant: &'t str,
    table: &'t T,
}

/// A tenant's rows, to change.
pub struct Draft<'t> {
    tenant: &'t str,
    table: Table<'t, Key, &'static [u8]>,
}

// === impl Book ===

impl Book {
    /// Opens or creates the file.
    pub fn open(path: &Path, seed: Seed) -> Result<Book, redb::Error> {
        let database = Database::create(path)?;
        let creating = database.begin_write()?;
        creating.open_table(ROWS)?;
        creating.open_table(EFFECTS)?;
        creating.open_table(COUNTS)?;
        creating.commit()?;
        Ok(Book { inner: Arc::new(Inner { database, seed, seeded: Mutex::default() }) })
    }

    /// Looks at the tenant's rows.
    pub async fn look<T, F>(&self, context: &Context, look: F) -> Result<T, ActionError>
    where
        T: Send + 'static,
        F: FnOnce(&Rows<'_, ReadOnlyTable<Key, &'static [u8]>>) -> Result<T, ActionError> + Send + 'static,
    {
        let tenant = tenant(context)?;
        self.off_thread(move |inner| {
            inner.ensure_seeded(&tenant)?;
            let reading = inner.database.begin_read().map_err(|error| fault(&error))?;
            let table = reading.open_table(ROWS).map_err(|error| fault(&error))?;
            look(&Rows { tenant: &tenant, table: &table })
        })
        .await
    }

    /// Does something once: a repetition gets the first answer.
    pub async fn once<T, F>(&self, context: &Context, change: F) -> Result<T, ActionError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnOnce(&mut Draft<'_>) -> Result<T, ActionError> + Send + 'static,
    {
        let tenant = tenant(context)?;
        let names = names(context);
        let capability = context.trusted().capability_id.to_string();
        self.off_thread(move |inner| {
            inner.ensure_seeded(&tenant)?;
            inner.perform(&tenant, &names, &capability, change)
        })
        .await
    }

    /// How many effects of a capability the tenant has had.
    pub async fn effects(&self, context: &Context, capability: String) -> Result<u64, ActionError> {
        let tenant = tenant(context)?;
        self.off_thread(move |inner| {
            let reading = inner.database.begin_read().map_err(|error| fault(&error))?;
            let counts = reading.open_table(COUNTS).map_err(|error| fault(&error))?;
            let count = counts.get((tenant.as_str(), capability.as_str())).map_err(|error| fault(&error))?;
            Ok(count.map_or(0, |count| count.value()))
        })
        .await
    }

    async fn off_thread<T, F>(&self, work: F) -> Result<T, ActionError>
    where
        T: Send + 'static,
        F: FnOnce(&Inner) -> Result<T, ActionError> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        let worked = tokio::task::spawn_blocking(move || work(&inner)).await;
        // a transaction that broke off has changed nothing
        worked.unwrap_or_else(|error| Err(fault(&error)))
    }
}

// === impl Inner ===

impl Inner {
    fn ensure_seeded(&self, tenant: &str) -> Result<(), ActionError> {
        let seeded = || self.seeded.lock().unwrap_or_else(PoisonError::into_inner);
        if seeded().contains(tenant) {
            return Ok(());
        }
        let mut writing = self.database.begin_write().map_err(|error| fault(&error))?;
        writing.set_quick_repair(true);
        {
            let table = writing.open_table(ROWS).map_err(|error| fault(&error))?;
            let mut draft = Draft { tenant, table };
            if draft.get::<bool>(SEEDED, "")?.is_none() {
                (self.seed)(&mut draft)?;
                draft.put(SEEDED, "", &true)?;
            }
        }
        writing.commit().map_err(|error| fault(&error))?;
        seeded().insert(tenant.to_owned());
        Ok(())
    }

    fn perform<T, F>(
        &self,
        tenant: &str,
        names: &[String],
        capability: &str,
        change: F,
    ) -> Result<T, ActionError>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(&mut Draft<'_>) -> Result<T, ActionError>,
    {
        let mut writing = self.database.begin_write().map_err(|error| fault(&error))?;
        writing.set_quick_repair(true);
        let answer = {
            let mut effects = writing.open_table(EFFECTS).map_err(|error| fault(&error))?;
            for name in names {
                if let Some(first) = effects.get((tenant, name.as_str())).map_err(|error| fault(&error))? {
                    return serde_json::from_slice(first.value()).map_err(|error| fault(&error));
                }
            }
            let table = writing.open_table(ROWS).map_err(|error| fault(&error))?;
            let answer = change(&mut Draft { tenant, table })?;
            let bytes = serde_json::to_vec(&answer).map_err(|error| fault(&error))?;
            for name in names {
                effects.insert((tenant, name.as_str()), bytes.as_slice()).map_err(|error| fault(&error))?;
            }
            let mut counts = writing.open_table(COUNTS).map_err(|error| fault(&error))?;
            let place = (tenant, capability);
            let before = counts.get(place).map_err(|error| fault(&error))?.map_or(0, |count| count.value());
            counts.insert(place, before + 1).map_err(|error| fault(&error))?;
            answer
        };
        // from here on it may stand although we are told otherwise
        writing.commit().map_err(|error| fault(&error).uncertain_outcome())?;
        Ok(answer)
    }
}

/// The names under which an effect is known: its action's, and its intent's.
fn names(context: &Context) -> Vec<String> {
    let trusted = context.trusted();
    let mut names = vec![format!("action {}", context.effect_id())];
    names.extend(
        context
            .idempotency_key()
            .map(|key| format!("key {} {} {key}", trusted.capability_id, trusted.principal.id)),
    );
    names
}

fn tenant(context: &Context) -> Result<String, ActionError> {
    let refused =
        || ActionError::permanent("sandbox.tenant_required", "the sandbox keeps its data by tenant");
    context.tenant().map(str::to_owned).ok_or_else(refused)
}

fn fault(error: &dyn std::fmt::Display) -> ActionError {
    tracing::error!(%error, "a provider's store failed");
    ActionError::temporary("sandbox.store_failed", "the provider's store failed; nothing was changed")
}

// === impl Rows ===

impl<T: ReadableTable<Key, &'static [u8]>> Rows<'_, T> {
    pub fn get<R: DeserializeOwned>(&self, kind: &str, id: &str) -> Result<Option<R>, ActionError> {
        get(self.table, self.tenant, kind, id)
    }

    pub fn list<R: DeserializeOwned>(&self, kind: &str) -> Result<Vec<R>, ActionError> {
        let mut rows = Vec::new();
        for entry in self.table.range((self.tenant, kind, "")..).map_err(|error| fault(&error))? {
            let (key, bytes) = entry.map_err(|error| fault(&error))?;
            if (key.value().0, key.value().1) != (self.tenant, kind) {
                break;
            }
            rows.push(serde_json::from_slice(bytes.value()).map_err(|error| fault(&error))?);
        }
        Ok(rows)
    }
}

// === impl Draft ===

impl Draft<'_> {
    pub fn get<R: DeserializeOwned>(&self, kind: &str, id: &str) -> Result<Option<R>, ActionError> {
        get(&self.table, self.tenant, kind, id)
    }

    pub fn put<R: Serialize>(&mut self, kind: &str, id: &str, row: &R) -> Result<(), ActionError> {
        let bytes = serde_json::to_vec(row).map_err(|error| fault(&error))?;
        self.table.insert((self.tenant, kind, id), bytes.as_slice()).map_err(|error| fault(&error))?;
        Ok(())
    }

    pub fn remove(&mut self, kind: &str, id: &str) -> Result<(), ActionError> {
        self.table.remove((self.tenant, kind, id)).map_err(|error| fault(&error))?;
        Ok(())
    }
}

fn get<R: DeserializeOwned>(
    table: &impl ReadableTable<Key, &'static [u8]>,
    tenant: &str,
    kind: &str,
    id: &str,
) -> Result<Option<R>, ActionError> {
    let found = table.get((tenant, kind, id)).map_err(|error| fault(&error))?;
    found.map(|bytes| serde_json::from_slice(bytes.value()).map_err(|error| fault(&error))).transpose()
}
