//! What a calibration looks like: distance from the truth, and waits, against load.

use crate::calibrations::document::{Calibration, Family, Step};
use crate::report::picture::{Picture, Series};

/// Error and tare of time to first token against load: the steps that vary streams or events, by the events/s that
/// came. Rates of requests, bursts and cold connections are other kinds of load and would make one line of several.
pub(super) fn distance(calibration: &Calibration) -> Picture {
    let steady = |s: &&Step| matches!(s.load.family, Family::Streams | Family::Events);
    let mut steps: Vec<&Step> = calibration.ladder.iter().filter(steady).collect();
    steps.sort_by(|a, b| a.achieved_events_per_s.total_cmp(&b.achieved_events_per_s));
    let series = |name: &str, label: &str, colour: usize, thin: bool, of: fn(&Step) -> Option<f64>| Series {
        name: name.to_owned(),
        label: label.to_owned(),
        colour,
        thin,
        points: steps.iter().filter_map(|s| Some((s.achieved_events_per_s, of(s)?))).collect(),
    };
    Picture {
        title: "How far time to first token was from the truth, against load".to_owned(),
        description: format!(
            "Calibration {}: {} steps of load. Verdict: {}",
            calibration.id,
            steps.len(),
            calibration.verdict.text
        ),
        x_title: "token events/s".to_owned(),
        y_title: "us".to_owned(),
        floor: 0.1,
        series: vec![
            series("gross - truth, p99", "gross p99", 0, false, |s| s.gross_err_us.p99),
            series("gross - truth, p50", "gross p50", 0, true, |s| s.gross_err_us.p50),
            series("net - truth, p99", "net p99", 1, false, |s| s.net_err_us.p99),
            series("net - truth, p50", "net p50", 1, true, |s| s.net_err_us.p50),
            series("tare, p99", "tare p99", 2, false, |s| s.tare_us.p99),
        ],
    }
}

/// The mean wait of an event, measured and as the queueing model predicts it, at the steps it was not fitted on. None
/// without a fit.
pub(super) fn waits(calibration: &Calibration) -> Option<Picture> {
    let fit = calibration.model.as_ref()?;
    let series = |name: &str, colour: usize, of: &dyn Fn(&calibration::model::Predicted) -> Option<f64>| Series {
        name: name.to_owned(),
        label: name.to_owned(),
        colour,
        thin: false,
        points: fit.predicted.iter().filter_map(|p| Some((p.events_per_s, of(p)?))).collect(),
    };
    Some(Picture {
        title: "Mean wait of an event, measured and predicted".to_owned(),
        description: format!(
            "Calibration {}: {} points not fitted. R2 of M/G/1 {:?}, of the batch form {:?}.",
            calibration.id,
            fit.predicted.len(),
            fit.r2,
            fit.r2_batch
        ),
        x_title: "token events/s".to_owned(),
        y_title: "us".to_owned(),
        floor: 1.0,
        series: vec![
            series("measured", 0, &|p| Some(p.measured_mean_wait_us)),
            series("M/G/1", 1, &|p| p.predicted_mean_wait_us),
            series("batch form", 2, &|p| p.batch_predicted_mean_wait_us),
        ],
    })
}
