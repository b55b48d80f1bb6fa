//! The lines of `windows.jsonl` held against `plan.json`: windows come in the planned order, and what was recorded of the load
//! of each is what was planned. All figures follow the recorded one.

use serde_json::{Value, json};

use super::Difference;
use super::raw::number;

/// What tells of a window without a line.
const OPENING: &str = "window.open.json";

/// Holds each window of `windows`, in the order of the file, against its load point. A plan without load points tells
/// nothing of them. The last window may have no line (`cut_off`): it is told by its opening.
pub(super) fn hold(plan: &Value, windows: &[Value], cut_off: bool) -> Result<(), Difference> {
    let cells = plan["cells"].as_array().map_or(&[][..], Vec::as_slice);
    let in_order = !cells.is_empty() && cells.iter().all(|cell| cell["model"].is_string());
    for (place, window) in windows.iter().enumerate() {
        let of_opening = cut_off && place + 1 == windows.len();
        let differs = |field: &str, stored: &Value, planned: &Value| Difference::Value {
            file: if of_opening { OPENING } else { "windows.jsonl" }.into(),
            line: if of_opening { 1 } else { place + 1 },
            field: field.into(),
            stored: stored.to_string(),
            recomputed: planned.to_string(),
        };
        if plan["run_id"].is_string() && window["run"] != plan["run_id"] {
            return Err(differs("run", &window["run"], &plan["run_id"]));
        }
        // one round of all load points after another
        let turn = [("cell", place.checked_rem(cells.len())), ("window", place.checked_div(cells.len()))];
        for (field, planned) in turn.into_iter().filter(|_| in_order) {
            let planned = planned.unwrap_or_default() as u64;
            if number(window, field) != planned {
                return Err(differs(field, &window[field], &json!(planned)));
            }
        }
        let Some(cell) = cells.get(number(window, "cell") as usize) else { continue };
        let (load, asked) = (&window["load"], planned(plan, cell));
        if load["sessions"].is_object() && asked["sessions"].is_null() {
            return Err(differs("load.sessions", &load["sessions"], &Value::Null));
        }
        if asked.is_null() {
            continue;
        }
        let of_load = ["model", "concurrency", "rate", "arrivals"]
            .map(|name| (format!("load.{name}"), &load[name], &asked[name]));
        let of_sessions = ["kind", "turns", "pause", "paced", "planned", "drop"]
            .map(|name| (format!("load.sessions.{name}"), &load["sessions"][name], &asked["sessions"][name]));
        // of turns, those of the planned and of the dropped sessions
        let requests = requests(plan, cell);
        let of_plan = [
            ("planned", &requests),
            ("drop", &plan["drop"]),
            ("trace_hash", &plan["trace_hash"]),
            ("schedule_hash", &asked["schedule_hash"]),
        ];
        let of_plan = of_plan.into_iter().filter(|(_, planned)| !planned.is_null());
        let of_plan = of_plan.map(|(field, planned)| (field.to_owned(), &window[field], planned));
        if let Some((field, stored, planned)) =
            of_load.into_iter().chain(of_sessions).chain(of_plan).find(|(_, stored, planned)| stored != planned)
        {
            return Err(differs(&field, stored, planned));
        }
    }
    Ok(())
}

/// Requests of a window of a load point; null where the plan does not say.
fn requests(plan: &Value, cell: &Value) -> Value {
    if cell["model"] != "closed" {
        return cell["requests"].clone();
    }
    match (plan["duration_s"].is_number(), plan["num_prompts"].as_u64()) {
        (true, _) => json!(0),
        (false, Some(kept)) => json!(kept.saturating_add(number(plan, "drop"))),
        (false, None) => Value::Null,
    }
}

/// The load of a window as its planned load point has it; null where that is of no known kind.
fn planned(plan: &Value, cell: &Value) -> Value {
    let mut load = json!({
        "model": cell["model"],
        "concurrency": cell["concurrency"],
        "rate": cell["rate"],
        "arrivals": cell["course"],
        "schedule_hash": cell["schedule_hash"],
    });
    match cell["model"].as_str() {
        Some("sessions") => return planned_sessions(cell),
        Some("closed" | "open") => {}
        Some("trace") => {
            let shard = &plan["shard"];
            let part = shard.is_object().then(|| format!("shard {}/{}", shard["index"], shard["of"]));
            load["arrivals"] = json!(part);
        }
        _ => return Value::Null,
    }
    load
}

/// The load of a window as a planned load point of sessions has it.
fn planned_sessions(cell: &Value) -> Value {
    let (users, arrivals) = (&cell["start"]["users"], &cell["start"]["arrivals"]);
    let law = &cell["law"];
    let (model, start) = if users.is_object() { ("closed", users) } else { ("open", arrivals) };
    json!({
        "model": model,
        "concurrency": start["concurrency"],
        "rate": arrivals["rate"],
        "arrivals": arrivals["course"],
        "schedule_hash": arrivals["schedule_hash"],
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
        let line = json!({"cell": 0, "load": load.recorded(), "planned": load.requests, "drop": 7, "schedule_hash": Cell::Sessions(load.clone()).schedule_hash()});
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
                    assert_eq!(hold(&plan, std::slice::from_ref(&line), false), Ok(()), "{plan} {line}");
                }
            }
        }
        let (plan, mut line) = written(load(arrivals(), SessionKind::Chat, Pause::None));
        line["load"] = json!({"model": "closed", "concurrency": 3, "rate": null, "arrivals": null});
        assert!(hold(&plan, std::slice::from_ref(&line), false).is_err(), "a load without its sessions");
        line["cell"] = 1.into();
        assert_eq!(
            hold(&json!({"cells": [{}, {"model": "closed", "concurrency": 3}]}), std::slice::from_ref(&line), false),
            Ok(())
        );
        assert_eq!(hold(&json!({}), &[line], false), Ok(()), "no load points are planned");
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
            let found = hold(&plan, &[line], false).expect_err("a difference").to_string();
            let told = format!("windows.jsonl:1: {field}: stored {changed}, recomputed ");
            assert!(found.starts_with(&told), "{told}: {found}");
        }
    }

    #[test]
    fn any_load_is_held_against_its_load_point() {
        let plan = json!({
            "run_id": "r", "num_prompts": 30, "drop": 2, "trace_hash": "t", "shard": {"index": 2, "of": 3},
            "cells": [
                {"model": "closed", "concurrency": 4},
                {"model": "open", "concurrency": null, "rate": 2.5, "course": "a ramp", "requests": 7,
                    "schedule_hash": "s"},
                {"model": "trace", "concurrency": 5, "rate": 0.5, "requests": 8, "schedule_hash": "c"},
            ],
        });
        let line = |cell: u64, load: Value, planned: u64, schedule: Option<&str>| {
            json!({"run": "r", "cell": cell, "window": 0, "load": load, "planned": planned, "drop": 2,
                "trace_hash": "t", "schedule_hash": schedule})
        };
        let windows = [
            line(0, json!({"model": "closed", "concurrency": 4, "rate": null, "arrivals": null}), 32, None),
            line(1, json!({"model": "open", "concurrency": null, "rate": 2.5, "arrivals": "a ramp"}), 7, Some("s")),
            line(2, json!({"model": "trace", "concurrency": 5, "rate": 0.5, "arrivals": "shard 2/3"}), 8, Some("c")),
        ];
        assert_eq!(hold(&plan, &windows, false), Ok(()));
        for place in 0..3 {
            for (field, changed) in [
                ("run", json!("q")),
                ("cell", json!(7)),
                ("window", json!(1)),
                ("load.model", json!("batch")),
                ("load.concurrency", json!(8)),
                ("load.rate", json!(9.0)),
                ("load.arrivals", json!("all")),
                ("planned", json!(9)),
                ("drop", json!(3)),
                ("trace_hash", json!("u")),
            ] {
                let mut windows = windows.clone();
                let at = windows[place].pointer_mut(&format!("/{}", field.replace('.', "/"))).expect("a field");
                *at = changed.clone();
                let found = hold(&plan, &windows, false).expect_err("a difference").to_string();
                let told = format!("windows.jsonl:{}: {field}: stored {changed}, recomputed ", place + 1);
                assert!(found.starts_with(&told), "{told}: {found}");
            }
        }
        let mut timed = plan.clone();
        timed["duration_s"] = 3.0.into();
        let found = hold(&timed, &windows, false).expect_err("a difference").to_string();
        assert_eq!(found, "windows.jsonl:1: planned: stored 32, recomputed 0");
        let mut swapped = windows.clone();
        swapped.swap(1, 2);
        let found = hold(&plan, &swapped, false).expect_err("a difference").to_string();
        assert_eq!(found, "windows.jsonl:2: cell: stored 2, recomputed 1");
        let mut opening = windows.clone();
        opening[2]["planned"] = 9.into();
        let found = hold(&plan, &opening, true).expect_err("a difference").to_string();
        assert_eq!(found, "window.open.json:1: planned: stored 9, recomputed 8");
    }
}
