//! `tarebench verify`.

use crate::FAILED;
use crate::commands::console::tell;
use serde_json::{Value, json};
use tarebench::cli::VerifyArgs;
use tarebench::evidence;
use tarebench::rundir::kind::Kind;
use tarebench::saturate;
use tarebench::verify::{self, Verified};

/// Rebuilds every figure of a run, or of a search and its runs; the exit status.
pub fn verify(args: &VerifyArgs) -> u8 {
    if saturate::is_search(&args.dir) {
        return of_search(args);
    }
    let there = Kind::must_be_a_run(&args.dir).map_err(|none| none.to_string());
    let verified = there.and_then(|()| verify::verify(&args.dir).map_err(|difference| difference.to_string()));
    let found = verified.and_then(|verified| {
        let comparisons = evidence::verify(&args.dir, verified.published);
        comparisons
            .map(|comparisons| Verified { comparisons, ..verified })
            .map_err(|difference| format!("{difference:#}"))
    });
    tell(&match (&found, args.json) {
        (found, true) => format!("{:#}\n", document(found)),
        (Ok(verified), false) => format!("{verified}\n"),
        (Err(difference), false) => format!("{difference}\n"),
    });
    if found.is_ok() { 0 } else { FAILED }
}

fn of_search(args: &VerifyArgs) -> u8 {
    let found = saturate::verify(&args.dir).map_err(|difference| format!("{difference:#}"));
    let difference = found.as_ref().err();
    tell(&match (&found, args.json) {
        (found, true) => {
            format!(
                "{:#}\n",
                json!({"schema": "tarebench.verify/1", "verified": found.is_ok(), "difference": difference})
            )
        }
        (Ok(words) | Err(words), false) => format!("{words}\n"),
    });
    if found.is_ok() { 0 } else { FAILED }
}

fn document(found: &Result<Verified, String>) -> Value {
    match found {
        Ok(v) => json!({
            "schema": "tarebench.verify/1",
            "verified": true,
            "difference": null,
            "rows": v.rows,
            "windows": v.windows,
            "lines": v.lines,
            "published": v.published,
            "comparisons": v.comparisons,
            "notes": v.notes,
        }),
        Err(difference) => json!({"schema": "tarebench.verify/1", "verified": false, "difference": difference}),
    }
}
