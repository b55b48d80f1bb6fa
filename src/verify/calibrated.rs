//! What the plan's calibration says of a window, a second time.

use serde_json::{Value, json};

use crate::analysis::definitions::calibrated::{bounds, quantile, standard_error};
use crate::analysis::percentiles::{PUBLISHED, figures};

/// The plan's calibration, when there is one of this configuration.
pub(super) fn matching(plan: &Value) -> Option<&Value> {
    let calibration = &plan["calibration"];
    (calibration.is_object() && calibration.get("none").is_none() && calibration["matches"] == true)
        .then_some(calibration)
}

/// `client.calibrated` at an event rate.
pub(super) fn tare(calibration: Option<&Value>, events_per_s: Option<f64>) -> Value {
    let Some((calibration, rate)) = calibration.zip(events_per_s) else { return Value::Null };
    let Some(step) = step(calibration, rate) else { return Value::Null };
    let table = table(step, 1.0);
    json!({
        "events_per_s": rate,
        "step_events_per_s": step["events_per_s"].as_f64(),
        "beyond": step["events_per_s"].as_f64() < Some(rate),
        "n": step["n"],
        "mean_us": step["mean_us"].as_f64(),
        "p50_us": quantile(&table, 0.5),
        "p99_us": quantile(&table, 0.99),
    })
}

/// `calibrated` of a metric, from its gross values in ns.
pub(super) fn net(calibration: &Value, events_per_s: f64, mut gross: Vec<i64>) -> Value {
    let within = step(calibration, events_per_s).filter(|s| s["events_per_s"].as_f64() >= Some(events_per_s));
    let Some((step, found)) = within.zip(figures(&mut gross)) else { return Value::Null };
    let (mean_us, n) = (step["mean_us"].as_f64().unwrap_or_default(), step["n"].as_u64().unwrap_or_default());
    let table = table(step, 1e3);
    let error = |sd_ms: f64| standard_error(sd_ms * 1e6, gross.len() as u64, &table, mean_us * 1e3, n);
    let mut object = serde_json::Map::new();
    object.insert("mean_ms".into(), json!(found.mean_ms - mean_us / 1e3));
    object.insert("se_ms".into(), json!(found.sd_ms.and_then(error).map(|ns| ns / 1e6)));
    for p in PUBLISHED {
        let both = if gross.len() < p.smallest_n { None } else { bounds(&gross, &table, n, p.per_mille) };
        object.insert(format!("{}_ms", p.name), json!(both.map(|(lo, hi)| [lo / 1e6, hi / 1e6])));
    }
    Value::Object(object)
}

fn step(calibration: &Value, events_per_s: f64) -> Option<&Value> {
    let steps = calibration["tare"].as_array()?;
    let mut reaching = steps.iter().filter(|s| s["events_per_s"].as_f64() >= Some(events_per_s));
    reaching.next().or_else(|| steps.last())
}

/// Percentiles of a step, in us times `scale`.
fn table(step: &Value, scale: f64) -> Vec<(f64, f64)> {
    let points = step["quantiles_us"].as_array().into_iter().flatten();
    points.filter_map(|point| Some((point[0].as_f64()?, point[1].as_f64()? * scale))).collect()
}
