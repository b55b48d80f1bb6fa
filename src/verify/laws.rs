//! The session laws of `windows.jsonl` held against those of `plan.json`: what was recorded of a load is what was planned. All
//! figures of sessions follow the recorded one.

use serde_json::{Value, json};

use super::Difference;
use super::raw::number;

/// Holds each window of `windows`, in the order of the file, against its load point. A plan without load points tells nothing.
pub(super) fn hold(plan: &Value, windows: &[Value]) -> Result<(), Difference> {
    let Some(cells) = plan["cells"].as_array() else { return Ok(()) };
    for (line, window) in (1..).zip(windows) {
        let differs = |field: &str, stored: &Value, planned: &Value| Difference::Value {
            file: "windows.jsonl".into(),
            line,
            field: field.into(),
            stored: stored.to_string(),
            recomputed: planned.to_string(),
        };
        let load = &window["load"];
        let cell = cells.get(number(window, "cell") as usize).filter(|cell| cell["model"] == "sessions");
        let Some(cell) = cell else {
            match load["sessions"].is_null() {
                true => continue,
                false => return Err(differs("load.sessions", &load["sessions"], &Value::Null)),
            }
        };
        let asked = planned(cell);
        let of_load =
            ["model", "concurrency", "rate", "arrivals"].map(|name| (format!("load.{name}"), &load[name], name));
        let of_sessions = ["kind", "turns", "pause", "paced", "planned", "drop"];
        let of_sessions = of_sessions.map(|name| (format!("load.sessions.{name}"), &load["sessions"][name], name));
        let of_load = of_load.into_iter().map(|(field, stored, name)| (field, stored, &asked[name]));
        let of_sessions =
            of_sessions.into_iter().map(|(field, stored, name)| (field, stored, &asked["sessions"][name]));
        // of turns, those of the planned and of the dropped sessions
        let turns = [("planned", &window["planned"], &cell["requests"]), ("drop", &window["drop"], &plan["drop"])];
        let turns = turns.into_iter().map(|(field, stored, planned)| (field.to_owned(), stored, planned));
        if let Some((field, stored, planned)) =
            of_load.chain(of_sessions).chain(turns).find(|(_, stored, planned)| stored != planned)
        {
            return Err(differs(&field, stored, planned));
        }
    }
    Ok(())
}

/// The load of a window as a planned load point of sessions has it.
fn planned(cell: &Value) -> Value {
    let (users, arrivals) = (&cell["start"]["users"], &cell["start"]["arrivals"]);
    let law = &cell["law"];
    let (model, start) = if users.is_object() { ("closed", users) } else { ("open", arrivals) };
    json!({
        "model": model,
        "concurrency": start["concurrency"],
        "rate": arrivals["rate"],
        "arrivals": arrivals["course"],
        "sessions": {
            "kind": law["kind"],
            "turns": law["turns"],
            "pause": pause(law),
            "paced": law["pause"]["every"].is_object(),
            "planned": cell["planned"],
            "drop": cell["drop"],
        },
    })
}

/// The pause of a law in words; null where there is none.
fn pause(law: &Value) -> Value {
    let seconds = |of: &Value, name: &str| number(of, name) as f64 / 1e9;
    let (pause, turn) = if law["kind"] == "chain" { ("tool time", "call") } else { ("think time", "turn") };
    let (every, after) = (&law["pause"]["every"], &law["pause"]["after"]);
    if every.is_object() {
        return json!(format!("a {turn} every {} s", seconds(every, "ns")));
    }
    let drawn = match after["law"].as_str() {
        Some("constant") => format!("{} s", seconds(after, "ns")),
        Some("exponential") => format!("exponential, mean {} s", seconds(after, "mean_ns")),
        Some("uniform") => format!("uniform, {} to {} s", seconds(after, "from_ns"), seconds(after, "to_ns")),
        Some("log_normal") => format!(
            "log-normal, mean {} s, standard deviation {} s",
            seconds(after, "mean_ns"),
            seconds(after, "sd_ns")
        ),
        _ => return Value::Null,
    };
    json!(format!("{pause} {drawn}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_point::{Cell, Extent};
    use crate::rundir::window::SessionKind;
    use crate::session_load::{SessionLoad, Start};
    use crate::workload::sessions::{Pause, SessionLaw, Span};
    use bench_engine::schedule::ArrivalLaw;
    use bench_engine::units::Nanos;

    fn load(start: Start, kind: SessionKind, pause: Pause) -> SessionLoad {
        let law = SessionLaw { kind, turns: [2, 4], pause };
        SessionLoad { start, law, planned: 30, kept: 28, drop: 2, requests: 90, slots: 3, opened_ahead: 3 }
    }

    fn arrivals() -> Start {
        let law = ArrivalLaw::new(25.0, 1.0).expect("a law");
        let extent = Extent { seed: 7, at_least: 30, until: Nanos::ZERO, mean_output_tokens: 10.0, shard: None };
        match Cell::open(law, None, extent) {
            Ok(Cell::Open(open)) => Start::Arrivals(open),
            _ => panic!("an open loop"),
        }
    }

    /// `plan.json` and the line of a window, as they are written.
    fn written(load: SessionLoad) -> (Value, Value) {
        let line = json!({"cell": 0, "load": load.recorded(), "planned": load.requests, "drop": 7});
        (json!({"cells": [Cell::Sessions(load)], "drop": 7}), line)
    }

    #[test]
    fn what_is_written_of_any_law_agrees() {
        let second = 1_000_000_000;
        let pauses = [
            Pause::None,
            Pause::Every { ns: 6 * second },
            Pause::After(Span::Constant { ns: 200_000 }),
            Pause::After(Span::Exponential { mean_ns: 2 * second }),
            Pause::After(Span::Uniform { from_ns: 0, to_ns: 3 * second }),
            Pause::After(Span::LogNormal { mean_ns: 2_500_000_000, sd_ns: second }),
        ];
        for pause in pauses {
            for kind in [SessionKind::Chat, SessionKind::Chain] {
                for start in [Start::Users { concurrency: 3 }, arrivals()] {
                    let (plan, line) = written(load(start, kind, pause));
                    assert_eq!(hold(&plan, std::slice::from_ref(&line)), Ok(()), "{plan} {line}");
                }
            }
        }
        let (plan, mut line) = written(load(arrivals(), SessionKind::Chat, Pause::None));
        line["load"] = json!({"model": "closed", "concurrency": 3, "rate": null, "arrivals": null});
        assert!(hold(&plan, std::slice::from_ref(&line)).is_err(), "a load without its sessions");
        line["cell"] = 1.into();
        assert_eq!(hold(&json!({"cells": [{}, {"model": "closed"}]}), std::slice::from_ref(&line)), Ok(()));
        assert_eq!(hold(&json!({}), &[line]), Ok(()), "no load points are planned");
    }

    #[test]
    fn each_changed_field_is_named() {
        let users = load(Start::Users { concurrency: 3 }, SessionKind::Chat, Pause::After(Span::Constant { ns: 9 }));
        let paced = load(arrivals(), SessionKind::Chain, Pause::Every { ns: 9 });
        for (load, field, changed) in [
            (&users, "load.model", json!("open")),
            (&users, "load.concurrency", json!(4)),
            (&users, "load.rate", json!(1.0)),
            (&paced, "load.rate", json!(24.0)),
            (&paced, "load.arrivals", json!("a ramp")),
            (&users, "load.sessions.kind", json!("chain")),
            (&users, "load.sessions.turns", json!([2, 5])),
            (&users, "load.sessions.pause", json!(null)),
            (&users, "load.sessions.paced", json!(true)),
            (&paced, "load.sessions.paced", json!(false)),
            (&users, "load.sessions.planned", json!(31)),
            (&users, "load.sessions.drop", json!(0)),
            (&users, "planned", json!(91)),
            (&users, "drop", json!(0)),
        ] {
            let (plan, mut line) = written(load.clone());
            let place = line.pointer_mut(&format!("/{}", field.replace('.', "/"))).expect("a field");
            *place = changed.clone();
            let found = hold(&plan, &[line]).expect_err("a difference").to_string();
            let told = format!("windows.jsonl:1: {field}: stored {changed}, recomputed ");
            assert!(found.starts_with(&told), "{told}: {found}");
        }
    }
}
