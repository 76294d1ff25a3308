//! Writes everything that is generated from the types and registries: `schemas/aip`, the registry that embeds it, and
//! the reference page. The folder is cleared first, so that no stale file can stay.

use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = crate_dir.join("../../schemas/aip");
    let generated = aip_wire::schemas::generate()?;
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    for (name, text) in &generated.schemas {
        fs::write(folder.join(name), text)?;
    }
    fs::write(crate_dir.join("src/schemas/files.rs"), &generated.registry)?;
    fs::write(crate_dir.join("../../schemas/REFERENCE.md"), aip_wire::reference::page())?;
    Ok(())
}
