//! In what two plans differ, and whether their numbers may still be compared.
//!
//! A comparison is about one change. What differs beside it must be harmless, or named.

use super::arm::{Arm, RunDocuments};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use thiserror::Error;

/// Whether a difference stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// What the comparison is about.
    UnderTest,
    /// It can move no number.
    Harmless,
    /// It may move numbers, and was accepted by name (or comes with another server).
    Accepted,
    /// The numbers cannot be compared unless somebody says that this is meant.
    Refused,
}

/// One way in which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// The name by which it is accepted.
    pub name: &'static str,
    /// What stands there for A.
    pub a: String,
    /// What stands there for B.
    pub b: String,
    /// Whether it stands in the way.
    pub standing: Standing,
}

/// What is said of a difference before anybody names it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Cannot move a number.
    Harmless,
    /// The usual question: another server, or another state of it.
    Server,
    /// In the way.
    Refused,
}

/// Names of everything that is looked at, in the order in which it is printed.
const RULES: [(&str, Rule); 29] = [
    ("base_url", Rule::Server),
    ("server", Rule::Server),
    ("declared", Rule::Server),
    // how the server counts tokens, and so of how many words a prompt is made
    ("gauge", Rule::Server),
    ("model", Rule::Refused),
    ("endpoint", Rule::Refused),
    ("workload", Rule::Refused),
    ("sampling", Rule::Refused),
    ("stream", Rule::Refused),
    ("loads", Rule::Refused),
    // what they are like; how many users or how many a second is a load
    ("sessions", Rule::Refused),
    ("schedule", Rule::Refused),
    ("protocol", Rule::Refused),
    ("injections", Rule::Refused),
    ("connection", Rule::Refused),
    // how connections are secured; which CA vouched moves no number
    ("tls", Rule::Refused),
    ("headers", Rule::Refused),
    ("token_proof", Rule::Refused),
    ("host", Rule::Refused),
    ("location", Rule::Refused),
    ("arm", Rule::Refused),
    ("stamps", Rule::Refused),
    ("cores", Rule::Refused),
    ("canary", Rule::Refused),
    ("spin", Rule::Refused),
    ("version", Rule::Refused),
    ("name", Rule::Harmless),
    ("windows", Rule::Harmless),
    ("calibration", Rule::Harmless),
];

/// What may be named on the command line.
pub fn names() -> impl Iterator<Item = &'static str> {
    RULES.iter().filter(|(_, rule)| *rule != Rule::Harmless).map(|(name, _)| *name)
}

/// Names that people gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// What the comparison is about.
    pub varies: Vec<String>,
    /// What else may differ.
    pub accepted: Vec<String>,
}

impl Named {
    /// Whether each name is one that can differ.
    ///
    /// # Errors
    /// The first that is not, with those there are.
    pub fn check(&self) -> Result<(), String> {
        let unknown =
            self.varies.iter().chain(&self.accepted).find(|name| !names().any(|known| known == name.as_str()));
        match unknown {
            Some(name) => Err(format!(
                "{name:?} is nothing that can differ: choose from {}",
                names().collect::<Vec<_>>().join(", ")
            )),
            None => Ok(()),
        }
    }
}

/// Runs that cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct NotComparable {
    /// What was held against each other.
    pub what: String,
    /// All differences.
    pub differences: Vec<Difference>,
    /// Whether naming them helps with `--varies`.
    pub between_arms: bool,
}

impl std::fmt::Display for NotComparable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let refused: Vec<&str> =
            self.differences.iter().filter(|d| d.standing == Standing::Refused).map(|d| d.name).collect();
        writeln!(f, "{} were not measured by one plan; they differ in", self.what)?;
        for d in &self.differences {
            let mark = if d.standing == Standing::Refused { "x" } else { " " };
            writeln!(f, "  {mark} {:<12} {}  |  {}", d.name, d.a, d.b)?;
        }
        let list = refused.join(",");
        match self.between_arms {
            true => write!(
                f,
                "An effect could be that of any of them. If one marked x is what the comparison is about, say so \
                 (--varies {}); what does not matter can be accepted by name (--allow-differences {list})",
                refused.first().copied().unwrap_or_default(),
            ),
            false => write!(
                f,
                "Runs are put together only when they are of one plan and one server; accept by name with --allow-differences {list}"
            ),
        }
    }
}

/// All differences between two arms.
///
/// # Errors
/// [`NotComparable`] when one stands in the way: between the arms, or between the runs of one.
pub fn between(a: &Arm, b: &Arm, named: &Named) -> Result<Vec<Difference>, NotComparable> {
    for arm in [a, b] {
        within(arm, named)?;
    }
    let (Some(first_a), Some(first_b)) = (a.runs.first(), b.runs.first()) else { return Ok(Vec::new()) };
    let mut differences = found(first_a, first_b, (a, b));
    let nothing_named = named.varies.is_empty();
    for d in &mut differences {
        let is_in = |names: &[String]| names.iter().any(|name| name == d.name);
        d.standing = match rule(d.name) {
            Rule::Harmless => Standing::Harmless,
            _ if is_in(&named.varies) => Standing::UnderTest,
            _ if is_in(&named.accepted) => Standing::Accepted,
            Rule::Server if nothing_named => Standing::UnderTest,
            Rule::Server => Standing::Accepted,
            Rule::Refused => Standing::Refused,
        };
    }
    refuse_if_any(format!("{} and {}", first_a.dir, first_b.dir), differences, true)
}

/// In what two plans differ that may move a number, in the order of [`names`]; `standing` is none that anybody named.
pub fn of_plans(a: &RunDocuments, b: &RunDocuments) -> Vec<Difference> {
    let no_arm = Arm { runs: Vec::new(), cells: Vec::new(), left_out: Vec::new() };
    let mut differences = found(a, b, (&no_arm, &no_arm));
    differences.retain(|d| rule(d.name) != Rule::Harmless);
    differences.iter_mut().for_each(|d| d.standing = Standing::Refused);
    differences
}

/// The runs of one arm must be one thing; only how often it was measured may differ.
fn within(arm: &Arm, named: &Named) -> Result<(), NotComparable> {
    let Some((first, others)) = arm.runs.split_first() else { return Ok(()) };
    for other in others {
        let mut differences = found(first, other, (arm, arm));
        for d in &mut differences {
            d.standing = match rule(d.name) {
                Rule::Harmless => Standing::Harmless,
                _ if named.accepted.iter().any(|name| name == d.name) => Standing::Accepted,
                _ => Standing::Refused,
            };
        }
        refuse_if_any(format!("{} and {}", first.dir, other.dir), differences, false)?;
    }
    Ok(())
}

fn refuse_if_any(
    what: String,
    differences: Vec<Difference>,
    between_arms: bool,
) -> Result<Vec<Difference>, NotComparable> {
    match differences.iter().any(|d| d.standing == Standing::Refused) {
        true => Err(NotComparable { what, differences, between_arms }),
        false => Ok(differences),
    }
}

fn rule(name: &str) -> Rule {
    RULES.iter().find(|(known, _)| *known == name).map_or(Rule::Refused, |(_, rule)| *rule)
}

fn found(a: &RunDocuments, b: &RunDocuments, arms: (&Arm, &Arm)) -> Vec<Difference> {
    let (facts_a, facts_b) = (facts(a), facts(b));
    let mut differences = Vec::new();
    for (name, _) in RULES {
        let (mut of_a, mut of_b) = (facts_a[name].clone(), facts_b[name].clone());
        if name == "loads" && !std::ptr::eq(arms.0, arms.1) {
            (of_a, of_b) = (loads(arms.0), loads(arms.1));
        }
        if name == "schedule" {
            keep_common(&mut of_a, &mut of_b);
        }
        if of_a != of_b {
            let [a, b] = words(&of_a, &of_b);
            differences.push(Difference { name, a, b, standing: Standing::Harmless });
        }
    }
    differences
}

/// What is known of a run under each name. Unknown is null.
fn facts(run: &RunDocuments) -> Value {
    let plan = &run.plan;
    let env = &plan["environment"];
    let some = |keys: &[&str], of: &Value| {
        keys.iter().map(|key| ((*key).to_owned(), of[*key].clone())).collect::<Map<String, Value>>()
    };
    json!({
        "base_url": plan["base_url"],
        "server": server(&env["server"]),
        "declared": plan["declared"],
        "gauge": gauge(&plan["gauge"]),
        "model": plan["model"],
        "endpoint": some(&["endpoint", "api"], plan),
        "workload": json!({
            "trace_hash": plan["trace_hash"],
            "workload": work(&plan["workload"]),
            "length_probe": plan["length_probe"],
            "tokenizer": plan["tokenizer"],
        }),
        "sampling": some(&["temperature", "top_p", "ignore_eos", "extra_body"], plan),
        "stream": plan["stream"],
        "loads": plan_loads(plan),
        "sessions": sessions(plan),
        "schedule": schedules(plan),
        "protocol": some(
            &["num_prompts", "drop", "min_duration_s", "duration_s", "gap_between_windows_s", "gap_between_cells_s", "timeouts_s", "max_failed", "stop_at_failed"],
            plan
        ),
        "injections": plan["injections"],
        "connection": plan["connection"],
        "tls": tls(plan),
        "headers": match plan["removed_headers"].is_null() {
            true => plan["header_names"].clone(),
            false => Value::Object(some(&["header_names", "removed_headers"], plan)),
        },
        "token_proof": plan["token_proof"],
        "host": some(&["host", "kernel", "machine", "cpu_model", "cpus_online", "clocksource", "governor"], env),
        "location": some(&["loopback"], env),
        "arm": some(&["used"], &env["arm"]),
        "stamps": env["stamps"],
        "cores": some(&["workers", "control_core"], env),
        "canary": plan["canary"],
        "spin": plan["spin"],
        "version": plan["tarebench"],
        "name": plan["name"],
        "windows": plan["windows"],
        "calibration": plan["calibration"]["id"],
    })
}

/// How connections were secured, as far as it moves a number: which CA vouched does not.
fn tls(plan: &Value) -> Value {
    let (planned, agreed) = (&plan["tls"], &plan["environment"]["tls"]);
    match planned.is_null() {
        true => Value::Null,
        false => json!({
            "version": agreed["version"], "cipher": agreed["cipher"],
            "client_certificate": planned["client_certificate"], "resume": planned["resume"],
        }),
    }
}

/// Where a file lies decides nothing: its digest stands beside it. What plans did not say before there was a choice is
/// what they still mean.
fn work(workload: &Value) -> Value {
    let mut workload = workload.clone();
    if let Value::Object(fields) = &mut workload {
        fields.shift_remove("path");
        for (name, only) in [("cache", "unique"), ("prompt_form", "text")] {
            if fields.get(name).is_some_and(|value| value == only) {
                fields.shift_remove(name);
            }
        }
    }
    workload
}

/// What prompts were made by, as precisely as a probe repeats it. Before there was one a word was a token.
fn gauge(gauge: &Value) -> Value {
    let of = |key: &str, unknown: f64, steps: f64| (gauge[key].as_f64().unwrap_or(unknown) * steps).round() / steps;
    // no negative zero: it is printed
    json!({"per_word": of("per_word", 1.0, 100.0), "overhead": of("overhead", 0.0, 1.0) + 0.0})
}

/// What a server says it is, without what changes with every start.
fn server(identity: &Value) -> Value {
    let models = identity["models_document"]["data"].as_array().into_iter().flatten();
    let kept = ["id", "root", "parent", "max_model_len", "owned_by"];
    let models: Vec<Value> =
        models.map(|m| Value::Object(kept.iter().map(|key| ((*key).to_owned(), m[*key].clone())).collect())).collect();
    json!({"version": identity["version"], "server": identity["server"], "models": models})
}

fn load_words(model: &Value, concurrency: &Value, rate: &Value, course: &Value) -> String {
    let word = |name: &str, value: &Value| if value.is_null() { String::new() } else { format!(" {name} {value}") };
    let course = course.as_str().map_or_else(String::new, |words| format!(" ({words})"));
    format!("{}{}{}{course}", model.as_str().unwrap_or("?"), word("c", concurrency), word("rate", rate))
}

fn plan_loads(plan: &Value) -> Vec<String> {
    let cells = plan["cells"].as_array().into_iter().flatten();
    cells.map(words_of_cell).collect()
}

/// A load point of a plan in the words of [`load_words`]: of sessions what begins them, as windows record it.
fn words_of_cell(cell: &Value) -> String {
    let (users, open) = (&cell["start"]["users"]["concurrency"], scheduled(cell));
    match users.is_null() {
        false => load_words(&json!("closed"), users, &Value::Null, &Value::Null),
        true => {
            let model = if cell["model"] == "sessions" { &json!("open") } else { &cell["model"] };
            load_words(model, &open["concurrency"], &open["rate"], &open["course"])
        }
    }
}

/// The part of a load point that says when something begins: the load point itself, or of sessions their arrivals.
fn scheduled(cell: &Value) -> &Value {
    if cell["model"] == "sessions" { &cell["start"]["arrivals"] } else { cell }
}

/// What the sessions of a plan are like, and how many there are; null where requests stand for themselves.
fn sessions(plan: &Value) -> Value {
    let of_sessions = plan["cells"].as_array().and_then(|cells| cells.iter().find(|c| c["model"] == "sessions"));
    let Some(cell) = of_sessions else { return Value::Null };
    let law = &cell["law"];
    let mut fields = plan["sessions"].as_object().cloned().unwrap_or_default();
    ["kind", "turns"].into_iter().for_each(|key| _ = fields.insert(key.to_owned(), law[key].clone()));
    fields.insert("pause".to_owned(), json!(pause(&law["pause"])));
    Value::Object(fields)
}

/// A pause as plans write it, on one line: `after exponential mean_ns 2000000000`.
fn pause(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let parts = fields.iter().map(|(key, value)| match (key.as_str(), value) {
                ("law", Value::String(law)) => law.clone(),
                _ => format!("{key} {}", pause(value)),
            });
            parts.collect::<Vec<_>>().join(" ")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The loads at which an arm was really measured.
fn loads(arm: &Arm) -> Value {
    let of = |c: &super::arm::ArmCell| {
        let load = json!(c.load);
        load_words(&load["model"], &load["concurrency"], &load["rate"], &load["arrivals"])
    };
    let mut loads: Vec<String> = arm.cells.iter().map(of).collect();
    loads.sort();
    json!(loads)
}

/// Arrival laws and hashes of the schedules of open loops, by load.
fn schedules(plan: &Value) -> Map<String, Value> {
    let cells = plan["cells"].as_array().into_iter().flatten();
    cells
        .map(|cell| (cell, scheduled(cell)))
        .filter(|(_, c)| !c["schedule_hash"].is_null())
        .map(|(cell, c)| {
            let law = json!({"arrivals": c["arrivals"], "burstiness": c["burstiness"], "hash": c["schedule_hash"]});
            (words_of_cell(cell), law)
        })
        .collect()
}

/// A load that only one side has is named as such already.
fn keep_common(a: &mut Value, b: &mut Value) {
    let keys = |of: &Value| of.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let (of_a, of_b) = (keys(a), keys(b));
    let drop_others = |from: &mut Value, others: &[String]| {
        if let Value::Object(fields) = from {
            fields.retain(|key, _| others.contains(key));
        }
    };
    drop_others(a, &of_b);
    drop_others(b, &of_a);
}

const LONGEST: usize = 60;

/// Both values as people read them: only what differs of objects.
fn words(a: &Value, b: &Value) -> [String; 2] {
    let (Value::Object(of_a), Value::Object(of_b)) = (a, b) else { return [a, b].map(|v| short(&plain(v))) };
    let mut keys: Vec<&String> = of_a.keys().chain(of_b.keys().filter(|key| !of_a.contains_key(*key))).collect();
    keys.retain(|key| of_a.get(*key) != of_b.get(*key));
    [of_a, of_b].map(|of| {
        let parts = keys.iter().map(|key| format!("{key} {}", plain(of.get(*key).unwrap_or(&Value::Null))));
        short(&parts.collect::<Vec<_>>().join(", "))
    })
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "unknown".to_owned(),
        Value::String(text) if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) => text[..12].to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn short(text: &str) -> String {
    let clean = crate::lettering::legible(&text.replace(char::is_control, " ")).into_owned();
    match clean.chars().count() > LONGEST {
        true => clean.chars().take(LONGEST - 2).collect::<String>() + "..",
        false => clean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_another_kind_are_another_plan() {
        let start = |users: u32| json!({"users": {"concurrency": users}});
        let cell = |start: Value, pause: &str| {
            let law = json!({"kind": "chat", "turns": [2, 6], "pause": pause});
            json!({"model": "sessions", "start": start, "law": law})
        };
        let plan = |cells: Value| RunDocuments {
            dir: "d".into(),
            plan: json!({"cells": cells, "sessions": {"num_sessions": 30, "drop_sessions": 2}}),
            run: Value::Null,
        };
        let names = |a: Value, b: Value| of_plans(&plan(a), &plan(b)).iter().map(|d| d.name).collect::<Vec<_>>();
        let base = || json!([cell(start(4), "none")]);
        assert_eq!(names(base(), base()), [""; 0]);
        assert_eq!(names(base(), json!([cell(start(4), "x")])), ["sessions"]);
        assert_eq!(names(base(), json!([cell(start(5), "none")])), ["loads"]);
        assert_eq!(plan_loads(&plan(base()).plan), ["closed c 4"]);
        assert_eq!(pause(&json!({"after": {"law": "exponential", "mean_ns": 5}})), "after exponential mean_ns 5");
        let arriving = |hash: &str| {
            let open =
                json!({"rate": 0.5, "concurrency": null, "course": null, "schedule_hash": hash, "arrivals": "poisson"});
            json!([cell(json!({"arrivals": open}), "none")])
        };
        assert_eq!(plan_loads(&plan(arriving("a")).plan), ["open rate 0.5"]);
        assert_eq!(names(arriving("a"), arriving("b")), ["schedule"]);
        assert_eq!(names(base(), json!([{"model": "closed", "concurrency": 4}])), ["sessions"]);
    }

    #[test]
    fn gauges_are_alike_when_a_probe_would_not_tell_them_apart() {
        let of = |per_word: f64, overhead: f64| gauge(&json!({"per_word": per_word, "overhead": overhead}));
        assert_eq!(of(1.0044, 27.9), of(1.0041, 28.2));
        assert_ne!(of(1.13, 28.0), of(1.0, 28.0));
        assert_eq!(gauge(&Value::Null), of(1.0, 0.2), "before there was one a word was a token");
    }
}
