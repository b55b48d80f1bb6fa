//! Writes the JSON Schemas into `schemas/`: `cargo run --example schemas`.
#![forbid(unsafe_code)]

use std::path::Path;

fn main() -> std::io::Result<()> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    std::fs::create_dir_all(&dir)?;
    for schema in tarebench::schemas::all() {
        std::fs::write(dir.join(schema.file), schema.text())?;
        println!("schemas/{}: {}", schema.file, schema.of);
    }
    Ok(())
}
