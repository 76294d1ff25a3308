//! What the sandbox's providers keep in their own stores, read after their end: what was really done, and how often.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

const EFFECTS: TableDefinition<(&str, &str), &[u8]> = TableDefinition::new("sandbox_effects_v1");
const COUNTS: TableDefinition<(&str, &str), u64> = TableDefinition::new("sandbox_counts_v1");

/// The effects of one provider.
#[derive(Debug, Default)]
pub struct Effects {
    /// (tenant, action)
    pub actions: BTreeSet<(String, String)>,
    /// (tenant, capability) → how many there were.
    pub counts: BTreeMap<(String, String), u64>,
}

/// # Errors
/// The store can't be read.
pub fn effects(path: &Path) -> Result<Effects, redb::Error> {
    let database = Database::open(path)?;
    let reading = database.begin_read()?;
    let mut effects = Effects::default();
    for row in reading.open_table(EFFECTS)?.iter()? {
        let (key, _) = row?;
        let (tenant, name) = key.value();
        if let Some(action) = name.strip_prefix("action ") {
            effects.actions.insert((tenant.to_owned(), action.to_owned()));
        }
    }
    for row in reading.open_table(COUNTS)?.iter()? {
        let (key, count) = row?;
        let (tenant, capability) = key.value();
        effects.counts.insert((tenant.to_owned(), capability.to_owned()), count.value());
    }
    Ok(effects)
}
