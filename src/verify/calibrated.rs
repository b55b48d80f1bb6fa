//! What the plan's calibration says of a window, a second time.

use serde_json::{Value, json};

use crate::analysis::definitions::calibrated::{bounds, envelope, fault, mean_between, quantile, standard_error};
use crate::analysis::definitions::wording;
use crate::analysis::percentiles::{PUBLISHED, figures};

/// The plan's calibration, when there is one of this configuration that can be right.
pub(super) fn matching(plan: &Value) -> Option<&Value> {
    claimed(plan).filter(|calibration| fault(calibration).is_none())
}

/// Why the one that is said to match was not used, in words.
pub(super) fn unusable(plan: &Value) -> Option<String> {
    claimed(plan).and_then(fault).map(|why| wording::calibration_unusable(&why))
}

fn claimed(plan: &Value) -> Option<&Value> {
    let calibration = &plan["calibration"];
    (calibration.is_object() && calibration.get("none").is_none() && calibration["matches"] == true)
        .then_some(calibration)
}

/// `client.calibrated` at an event rate.
pub(super) fn tare(calibration: Option<&Value>, events_per_s: Option<f64>) -> Value {
    let Some((calibration, rate)) = calibration.zip(events_per_s) else { return Value::Null };
    let (below, above) = neighbours(calibration, rate);
    let Some((a, b)) = below.or(above).zip(above.or(below)) else { return Value::Null };
    let ends = |x: Option<f64>, y: Option<f64>| x.zip(y).map(|(x, y)| if y < x { [y, x] } else { [x, y] });
    let at = |q: f64| ends(quantile(&table(a, 1.0), q), quantile(&table(b, 1.0), q));
    json!({
        "events_per_s": rate,
        "below_events_per_s": below.and_then(|step| step["events_per_s"].as_f64()),
        "above_events_per_s": above.and_then(|step| step["events_per_s"].as_f64()),
        "placement": calibration["placement"].as_str(),
        "n": a["n"].as_u64().min(b["n"].as_u64()),
        "mean_us": ends(a["mean_us"].as_f64(), b["mean_us"].as_f64()),
        "p50_us": at(0.5),
        "p99_us": at(0.99),
    })
}

/// `calibrated` of a metric, from its gross values in ns.
pub(super) fn net(calibration: &Value, events_per_s: f64, mut gross: Vec<i64>) -> Value {
    let (below, above) = neighbours(calibration, events_per_s);
    // the lowest step reaches down to its own rate and no further
    let at_edge = above.filter(|step| step["events_per_s"].as_f64() == Some(events_per_s));
    let Some((below, above)) = below.or(at_edge).zip(above) else { return Value::Null };
    let Some(found) = figures(&mut gross) else { return Value::Null };
    let (mean, n) = (|s: &Value| s["mean_us"].as_f64().unwrap_or_default(), |s: &Value| s["n"].as_u64().unwrap_or(0));
    let error = |step: &Value| {
        let sd = found.sd_ms? * 1e6;
        standard_error(sd, gross.len() as u64, &table(step, 1e3), mean(step) * 1e3, n(step))
    };
    let (taken_off, apart) = mean_between(mean(below), mean(above));
    let error = error(below).zip(error(above)).map(|(a, b)| if b > a { b } else { a } / 1e6 + apart / 1e3);
    let mut object = serde_json::Map::new();
    object.insert("mean_ms".into(), json!(error.map(|_| found.mean_ms - taken_off / 1e3)));
    object.insert("mean_error_ms".into(), json!(error));
    let either = envelope(&table(below, 1e3), &table(above, 1e3));
    let fewest = n(below).min(n(above));
    for p in PUBLISHED {
        let both = if gross.len() < p.smallest_n { None } else { bounds(&gross, &either, fewest, p.per_mille) };
        object.insert(format!("{}_ms", p.name), json!(both.map(|(lo, hi)| [lo / 1e6, hi / 1e6])));
    }
    Value::Object(object)
}

/// The last step below an event rate, and the first at or above it.
fn neighbours(calibration: &Value, events_per_s: f64) -> (Option<&Value>, Option<&Value>) {
    let steps = calibration["tare"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_below = |step: &&Value| step["events_per_s"].as_f64() < Some(events_per_s);
    (steps.iter().rev().find(is_below), steps.iter().find(|step| !is_below(step)))
}

/// Percentiles of a step, in us times `scale`.
fn table(step: &Value, scale: f64) -> Vec<(f64, f64)> {
    let points = step["quantiles_us"].as_array().into_iter().flatten();
    points.filter_map(|point| Some((point[0].as_f64()?, point[1].as_f64()? * scale))).collect()
}
