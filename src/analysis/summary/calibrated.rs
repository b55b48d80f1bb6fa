//! The calibration that the plan names, and what it says of a window.

use serde::Deserialize;
use serde_json::Value;

use crate::analysis::definitions::calibrated::{bounds, quantile, standard_error};
use crate::analysis::percentiles::{self, PUBLISHED};
use crate::rundir::run_json::{CalibratedNet, CalibratedTare};

/// One that matches the run. Others are in `run.json` as the plan has them, and in no figure.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Calibration {
    matches: bool,
    #[serde(default)]
    pub(super) limits: Limits,
    #[serde(default)]
    tare: Vec<Step>,
}

/// Up to where this host is calibrated; None where it was not found out.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Limits {
    pub(super) requests_per_s: Option<Limit>,
    pub(super) events_per_s: Option<Limit>,
    pub(super) streams: Option<Limit>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Limit {
    pub(super) value: f64,
    pub(super) at_least: bool,
}

/// The law of the tare at one event rate.
#[derive(Clone, Debug, Deserialize)]
struct Step {
    events_per_s: f64,
    n: u64,
    mean_us: f64,
    quantiles_us: Vec<(f64, f64)>,
}

impl Calibration {
    /// From `plan.json`; None when there is none, or one of another configuration.
    ///
    /// # Errors
    /// What is not as it must be.
    pub(super) fn of_plan(plan: &Value) -> Result<Option<Calibration>, serde_json::Error> {
        match plan.get("calibration") {
            Some(Value::Object(fields)) if !fields.contains_key("none") => {
                let found: Calibration = serde_json::from_value(Value::Object(fields.clone()))?;
                Ok(found.matches.then_some(found))
            }
            _ => Ok(None),
        }
    }

    /// The step of an event rate: the next higher, else the highest there is.
    fn step(&self, events_per_s: f64) -> Option<&Step> {
        self.tare.iter().find(|step| step.events_per_s >= events_per_s).or(self.tare.last())
    }

    pub(super) fn tare(&self, events_per_s: f64) -> Option<CalibratedTare> {
        let step = self.step(events_per_s)?;
        Some(CalibratedTare {
            events_per_s,
            step_events_per_s: step.events_per_s,
            beyond: step.events_per_s < events_per_s,
            n: step.n,
            mean_us: step.mean_us,
            p50_us: quantile(&step.quantiles_us, 0.5),
            p99_us: quantile(&step.quantiles_us, 0.99),
        })
    }

    /// Net of gross values in ns, which become sorted; None beyond the calibrated range.
    pub(super) fn net(&self, events_per_s: f64, gross: &mut [i64]) -> Option<CalibratedNet> {
        let step = self.step(events_per_s).filter(|step| step.events_per_s >= events_per_s)?;
        let figures = percentiles::figures(gross)?;
        let table: Vec<(f64, f64)> = step.quantiles_us.iter().map(|(p, us)| (*p, us * 1e3)).collect();
        let error = figures.sd_ms.and_then(|sd| {
            standard_error(sd * 1e6, figures.n as u64, &table, step.mean_us * 1e3, step.n).map(|ns| ns / 1e6)
        });
        let [p50_ms, p90_ms, p95_ms, p99_ms, p999_ms] = PUBLISHED.map(|p| {
            let (lo, hi) = bounds(gross, &table, step.n, p.per_mille).filter(|_| gross.len() >= p.smallest_n)?;
            Some([lo / 1e6, hi / 1e6])
        });
        let mean_ms = Some(figures.mean_ms - step.mean_us / 1e3);
        Some(CalibratedNet { mean_ms, se_ms: error, p50_ms, p90_ms, p95_ms, p99_ms, p999_ms })
    }
}
