//! JSON Schemas of the documents that programs read, made of the very types that are written, so that neither can change
//! alone. They are kept under `schemas/`; `cargo run --example schemas` writes them anew.
//!
//! A schema is of what this version writes: every key is there, also those that older files lack, and there are no others.

use crate::analysis::comparison::{self, Comparison};
use crate::calibrations::document::{self, Calibration};
use crate::disclosure::boxes::{self, Boxes};
use crate::rundir::health::HealthRow;
use crate::rundir::row::Row;
use crate::rundir::run_json::{self, RunJson};
use crate::rundir::scrape::ScrapeRow;
use crate::rundir::window::WindowRow;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// Version of a line of `requests.jsonl`, by which its schema is called.
pub const REQUESTS: &str = "tarebench.requests/1";
/// Version of a line of `windows.jsonl`.
pub const WINDOWS: &str = "tarebench.windows/1";
/// Version of a line of `health.jsonl`.
pub const HEALTH: &str = "tarebench.health/1";
/// Version of a line of `server-metrics.jsonl`.
pub const SERVER_METRICS: &str = "tarebench.server-metrics/1";

/// A schema and where it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// Name of its file in `schemas/`.
    pub file: &'static str,
    /// The document, or the line of a file, that it describes.
    pub of: &'static str,
    /// Draft 2020-12. `title` is the version, as the document's own `schema` has it where there is one.
    pub document: Value,
}

impl Schema {
    /// As the file holds it.
    pub fn text(&self) -> String {
        format!("{:#}\n", self.document)
    }
}

/// Every one of them.
pub fn all() -> Vec<Schema> {
    let line = [
        (WINDOWS, "windows.schema.json", "a line of windows.jsonl", made_of::<WindowRow>(WINDOWS)),
        (HEALTH, "health.schema.json", "a line of health.jsonl", made_of::<HealthRow>(HEALTH)),
        (
            SERVER_METRICS,
            "server-metrics.schema.json",
            "a line of server-metrics.jsonl",
            made_of::<ScrapeRow>(SERVER_METRICS),
        ),
    ];
    let document = [
        (run_json::SCHEMA, "run.schema.json", "run.json", made_of::<RunJson>(run_json::SCHEMA)),
        (boxes::SCHEMA, "boxes.schema.json", "boxes.json", made_of::<Boxes>(boxes::SCHEMA)),
        (document::SCHEMA, "calibration.schema.json", "calibration.json", made_of::<Calibration>(document::SCHEMA)),
        (
            comparison::SCHEMA,
            "comparison.schema.json",
            "what compare --json prints",
            made_of::<Comparison>(comparison::SCHEMA),
        ),
    ];
    let documents = document.into_iter().map(|(version, file, of, mut document)| {
        document["properties"]["schema"] = json!({"const": version});
        Schema { file, of, document }
    });
    let lines = line.into_iter().map(|(_, file, of, document)| Schema { file, of, document });
    documents.chain([requests()]).chain(lines).collect()
}

/// A row as its line holds it, with the link of the chain at its end.
fn requests() -> Schema {
    let mut document = made_of::<Row>(REQUESTS);
    document["properties"]["h"] = json!({
        "description": "SHA-256 over the h of the line before and this line without its own.",
        "type": "string",
        "pattern": "^[0-9a-f]{64}$",
    });
    if let Some(required) = document["required"].as_array_mut() {
        required.push("h".into());
    }
    Schema { file: "requests.schema.json", of: "a line of requests.jsonl", document }
}

fn made_of<T: JsonSchema>(version: &str) -> Value {
    let schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    let mut document = schema.to_value();
    plain(&mut document);
    document["title"] = version.into();
    document["$id"] = format!("urn:{}", version.replacen('.', ":", 1)).into();
    document
}

/// Descriptions without the links of the documentation; objects without keys that nobody writes.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace("[`", "`").replace("`]", "`").replace('\n', " ");
            }
            let is_map = fields.contains_key("additionalProperties") || !fields.contains_key("properties");
            if fields.get("type").is_some_and(|kind| kind == "object") && !is_map {
                fields.insert("additionalProperties".to_owned(), false.into());
            }
            fields.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}
