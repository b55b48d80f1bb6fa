//! Percentiles over load, out of the recomputed cells.

use serde_json::{Value, json};

use crate::analysis::definitions::curve::{
    COLUMNS, METRICS, Over, PERCENTILES, Shape, intervals_overlap, shape, widened,
};
use crate::analysis::definitions::wording::{CurveWords, curve, load_unit};

/// The `curves` of `run.json`.
pub(super) fn of_cells(cells: &[Value]) -> Vec<Value> {
    let mut kinds: Vec<Kind> = cells.iter().filter_map(|cell| kind(&cell["load"])).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut found = Vec::new();
    for of in kinds {
        let over = of.0;
        let of_kind = cells.iter().filter(|cell| kind(&cell["load"]).as_ref() == Some(&of));
        let mut loads: Vec<(f64, &Value)> =
            of_kind.filter_map(|cell| Some((load(over, cell)?, &cell["windows"]))).collect();
        loads.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut number = 0;
        while loads.iter().any(|(_, windows)| windows.get(number).is_some()) {
            let of_number = |(load, windows): &(f64, &Value)| Some((*load, windows.get(number)?.clone()));
            let windows: Vec<(f64, Value)> = loads.iter().filter_map(of_number).collect();
            let names = METRICS.iter().flat_map(|m| COLUMNS.iter().flat_map(move |c| PERCENTILES.map(|p| [*m, *c, p])));
            found.extend(names.filter_map(|names| one(&of, number as u64, names, &windows)));
            number += 1;
        }
    }
    found
}

/// What loads are counted in, the cap, the words for how the rate changes, and whether requests are turns of sessions.
type Kind = (Over, Option<u64>, Option<String>, bool);

fn kind(load: &Value) -> Option<Kind> {
    let sessions = load["sessions"].is_object();
    match load["model"].as_str()? {
        "closed" => load["concurrency"].as_u64().map(|_| (Over::Concurrency, None, None, sessions)),
        "open" => {
            let arrivals = load["arrivals"].as_str().map(str::to_owned);
            load["rate"].as_f64().map(|_| (Over::Rate, load["concurrency"].as_u64(), arrivals, sessions))
        }
        _ => None,
    }
}

fn load(over: Over, cell: &Value) -> Option<f64> {
    cell["load"][if over == Over::Rate { "rate" } else { "concurrency" }].as_f64()
}

fn one(kind: &Kind, window: u64, names: [&str; 3], windows: &[(f64, Value)]) -> Option<Value> {
    let (over, cap, arrivals, sessions) = kind;
    let (over, cap, sessions) = (*over, *cap, *sessions);
    let [metric, column, percentile] = names;
    if column == "due" && over != Over::Rate {
        return None;
    }
    let (mut loads, mut ms, mut intervals, mut lacking) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (load, window) in windows {
        let d = &window["metrics"][metric][column];
        let Some(figure) = d[format!("{percentile}_ms")].as_f64() else { continue };
        let end = |place: usize| d["ci_ms"][percentile][place].as_f64();
        let bound = |key: &str| d[key][percentile].as_f64();
        let interval = end(0).zip(end(1)).map(|(a, b)| widened([a, b], figure, bound("lo_ms"), bound("hi_ms")));
        if interval.is_none() && metric != "gap" {
            lacking.extend(d["n"].as_u64());
        }
        loads.push(*load);
        ms.push(figure);
        intervals.push(interval);
    }
    if ms.len() < 2 {
        return None;
    }
    let shape: Shape = shape(&ms);
    let overlap = intervals_overlap(shape, &intervals);
    let (name, unit) = (names.join(" "), load_unit(over, cap, arrivals.as_deref(), sessions));
    let text = curve(&CurveWords { name, window, loads: &loads, unit, ms: &ms, shape, overlap, lacking });
    let mut found = json!({
        "window": window,
        "over": over,
        "at_most": cap,
        "arrivals": arrivals,
        "sessions": sessions,
        "metric": metric,
        "column": column,
        "percentile": percentile,
        "loads": loads,
        "ms": ms,
        "shape": shape,
        "intervals_overlap": overlap,
        "text": text,
    });
    // written where it is so, in its place among the others
    if let Value::Object(fields) = &mut found
        && !sessions
    {
        fields.shift_remove("sessions");
    }
    Some(found)
}
