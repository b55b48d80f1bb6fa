//! The calibration that the plan names, and what it says of a window.

use serde::Deserialize;
use serde_json::Value;

use crate::analysis::definitions::calibrated::{Law, bounds, envelope, fault, mean_between, quantile, standard_error};
use crate::analysis::percentiles::{self, PUBLISHED};
use crate::rundir::run_json::{CalibratedNet, CalibratedTare};

/// One that matches the run. Others are in `run.json` as the plan has them, and in no figure.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Calibration {
    pub(super) placement: Option<String>,
    #[serde(default)]
    pub(super) limits: Limits,
    #[serde(default)]
    tare: Option<Vec<Law>>,
}

/// Up to where this host is calibrated; None where it was not found out.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Limits {
    pub(super) requests_per_s: Option<Limit>,
    pub(super) events_per_s: Option<Limit>,
    pub(super) streams: Option<Limit>,
    pub(super) burst: Option<Limit>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Limit {
    pub(super) value: f64,
    pub(super) at_least: bool,
}

impl Calibration {
    /// From `plan.json`; None when there is none, or one of another configuration.
    ///
    /// # Errors
    /// Why one that claims to match cannot be used.
    pub(super) fn of_plan(plan: &Value) -> Result<Option<Calibration>, String> {
        match plan.get("calibration") {
            Some(found) if found.get("none").is_none() && found.get("matches") == Some(&Value::Bool(true)) => {
                let of = |found: &Value| Calibration::deserialize(found).map(Some).map_err(|e| e.to_string());
                fault(found).map_or_else(|| of(found), Err)
            }
            _ => Ok(None),
        }
    }

    /// The step below an event rate, and the one at or above it.
    fn around(&self, events_per_s: f64) -> (Option<&Law>, Option<&Law>) {
        let laws = self.tare.as_deref().unwrap_or_default();
        let above = laws.partition_point(|law| law.events_per_s < events_per_s);
        (above.checked_sub(1).and_then(|below| laws.get(below)), laws.get(above))
    }

    /// The two steps around an event rate; None outside the calibrated range.
    fn within(&self, events_per_s: f64) -> Option<[&Law; 2]> {
        match self.around(events_per_s) {
            (Some(below), Some(above)) => Some([below, above]),
            (None, Some(lowest)) if lowest.events_per_s == events_per_s => Some([lowest; 2]),
            _ => None,
        }
    }

    pub(super) fn tare(&self, events_per_s: f64) -> Option<CalibratedTare> {
        let (below, above) = self.around(events_per_s);
        let laws = [below.or(above)?, above.or(below)?];
        let ends = |of: fn(&Law) -> Option<f64>| {
            let [a, b] = laws.map(of);
            Some([a?.min(b?), a?.max(b?)])
        };
        Some(CalibratedTare {
            events_per_s,
            below_events_per_s: below.map(|law| law.events_per_s),
            above_events_per_s: above.map(|law| law.events_per_s),
            placement: self.placement.clone(),
            n: laws[0].n.min(laws[1].n),
            mean_us: ends(|law| Some(law.mean_us))?,
            p50_us: ends(|law| quantile(&law.quantiles_us, 0.5)),
            p99_us: ends(|law| quantile(&law.quantiles_us, 0.99)),
        })
    }

    /// Net of gross values in ns, which become sorted; None outside the calibrated range.
    pub(super) fn net(&self, events_per_s: f64, gross: &mut [i64]) -> Option<CalibratedNet> {
        let laws = self.within(events_per_s)?;
        let figures = percentiles::figures(gross)?;
        let table = |law: &Law| law.quantiles_us.iter().map(|(p, us)| (*p, us * 1e3)).collect::<Vec<_>>();
        let tables = laws.map(table);
        let (middle_us, apart_us) = mean_between(laws[0].mean_us, laws[1].mean_us);
        let error_ms = figures.sd_ms.and_then(|sd| {
            let of = |law: &Law, table: &[(f64, f64)]| {
                standard_error(sd * 1e6, figures.n as u64, table, law.mean_us * 1e3, law.n)
            };
            let ns = of(laws[0], &tables[0])?.max(of(laws[1], &tables[1])?);
            Some(ns / 1e6 + apart_us / 1e3)
        });
        let (either, n) = (envelope(&tables[0], &tables[1]), laws[0].n.min(laws[1].n));
        let [p50_ms, p90_ms, p95_ms, p99_ms, p999_ms] = PUBLISHED.map(|p| {
            let (lo, hi) = bounds(gross, &either, n, p.per_mille).filter(|_| gross.len() >= p.smallest_n)?;
            Some([lo / 1e6, hi / 1e6])
        });
        let mean_ms = error_ms.map(|_| figures.mean_ms - middle_us / 1e3);
        Some(CalibratedNet { mean_ms, mean_error_ms: error_ms, p50_ms, p90_ms, p95_ms, p99_ms, p999_ms })
    }
}
