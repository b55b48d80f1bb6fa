//! `tarebench compare`.

use crate::INVALID;
use crate::commands::console::{tell, usage};
use tarebench::analysis::comparison::Settings;
use tarebench::analysis::comparison::differences::Named;
use tarebench::analysis::comparison::metric::{self, Metric};
use tarebench::cli::{CompareArgs, List};
use tarebench::report;

/// Holds two arms against each other; the exit status.
pub fn compare(args: &CompareArgs) -> anyhow::Result<u8> {
    let metrics = match &args.metrics {
        Some(named) => named.0.clone(),
        None => metric::DEFAULT.iter().map(|name| name.parse()).collect::<Result<Vec<Metric>, _>>()?,
    };
    if let Some((_, twice)) = metrics.iter().enumerate().find(|(i, m)| metrics[..*i].contains(m)) {
        return Ok(usage(format!("--metrics names {twice} twice")));
    }
    let names = |of: &Option<List<String>>| of.as_ref().map(|list| list.0.clone()).unwrap_or_default();
    let named = Named { varies: names(&args.varies), accepted: names(&args.allow_differences) };
    if let Err(words) = named.check() {
        return Ok(usage(words));
    }
    let settings = Settings { metrics, margin: args.margin.0 };
    let compared = tarebench::compare::compare(&args.a.0, &args.b.0, &settings, &named)?;
    tell(&match (args.json, args.markdown) {
        (true, _) => serde_json::to_string_pretty(&compared)? + "\n",
        (_, true) => report::comparison::markdown(&compared),
        _ => report::comparison::terminal(&compared),
    });
    Ok(if tarebench::compare::has_result(&compared) { 0 } else { INVALID })
}
