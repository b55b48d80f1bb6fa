//! Which of several addresses requests went to.

use super::quantity::count;
use crate::rundir::run_json::Window;

/// `by address: 10.0.0.1:80 155 requests (50.0 %, 155 ok, 8 connections), ..`; None where there is one address.
pub(super) fn words(window: &Window) -> Option<String> {
    let all: u64 = window.addresses.iter().map(|of| of.requests).sum();
    let one = |of: &crate::rundir::run_json::AddressShare| {
        let share = 100.0 * of.requests as f64 / all.max(1) as f64;
        format!(
            "{} {} requests ({share:.1} %, {} ok, {} connections opened for one)",
            of.address,
            count(of.requests),
            count(of.ok),
            count(of.connections)
        )
    };
    let list: Vec<String> = window.addresses.iter().map(one).collect();
    (!list.is_empty()).then(|| format!("by address: {}", list.join(", ")))
}
