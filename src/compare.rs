//! Two sets of run directories, read and compared.
//!
//! The deciles of the shift function are made from the rows, and the medians that come with them must be those that
//! `run.json` has: a comparison of figures that the raw files do not bear out is refused.

use crate::analysis::comparison::arm::{Arm, ArmCell, ArmWindow, RunDocuments};
use crate::analysis::comparison::differences::{Named, between};
use crate::analysis::comparison::metric::column_met;
use crate::analysis::comparison::shift::{self, Shift};
use crate::analysis::comparison::verdict::Verdict;
use crate::analysis::comparison::{Comparison, Design, Settings, compare as compare_arms, pairs_of};
use crate::analysis::definitions;
use crate::analysis::percentiles::{PUBLISHED, percentile_ms};
use crate::rundir::kind::Kind;
use crate::rundir::row::{Outcome, Phase};
use crate::rundir::rows::{REQUESTS, each_row};
use crate::rundir::window::LoadModel;
use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Metrics whose distributions are looked at.
const SHIFTED: [&str; 2] = ["ttft", "e2e"];

/// Compares the runs of `a` with those of `b`.
///
/// # Errors
/// A directory is not that of a run, its figures are not those of its rows, the arms share a run, or they differ in what
/// was not named.
pub fn compare(a: &[PathBuf], b: &[PathBuf], settings: &Settings, named: &Named) -> anyhow::Result<Comparison> {
    let read = |dirs: &[PathBuf]| dirs.iter().map(|dir| documents(dir)).collect::<anyhow::Result<Vec<_>>>();
    let (documents_a, documents_b) = (read(a)?, read(b)?);
    let broken_off = broken_off(&documents_a, &documents_b);
    let arm = |documents: Vec<RunDocuments>| {
        Arm::of(documents).map_err(|bad| match &broken_off {
            Some(words) => anyhow::anyhow!("{words}: nothing can be compared"),
            None => bad.into(),
        })
    };
    let (mut arm_a, mut arm_b) = (arm(documents_a)?, arm(documents_b)?);
    arm_a.is_apart_from(&arm_b)?;
    if let Some(words) = &broken_off {
        // loads that one of them did not come to are no difference between their plans
        let loads = |arm: &Arm| arm.cells.iter().map(|cell| cell.load.clone()).collect::<Vec<_>>();
        let (of_a, of_b) = (loads(&arm_a), loads(&arm_b));
        arm_a.cells.retain(|cell| of_b.contains(&cell.load));
        arm_b.cells.retain(|cell| of_a.contains(&cell.load));
        ensure!(!arm_a.cells.is_empty(), "{words}: no load has a whole window in both, and nothing can be compared");
    }
    let differences = between(&arm_a, &arm_b, named)?;
    let mut compared = compare_arms(&arm_a, &arm_b, differences, settings);
    if compared.cells.is_empty() {
        match broken_off {
            Some(words) => bail!("{words}: no load point has a whole window in both, and nothing can be compared"),
            None => {
                bail!("{} and {} have no load point in common: nothing can be compared", a[0].display(), b[0].display())
            }
        }
    }
    compared.notes.extend(broken_off);
    for name in named.varies.iter().filter(|name| !compared.differences.iter().any(|d| d.name == name.as_str())) {
        compared.notes.push(format!("--varies {name}: both arms are the same in it"));
    }
    add_shifts(&mut compared, (&arm_a, &deciles(&arm_a, a)?), (&arm_b, &deciles(&arm_b, b)?));
    Ok(compared)
}

/// Whether there is any row that could be compared.
pub fn has_result(compared: &Comparison) -> bool {
    compared.cells.iter().flat_map(|cell| &cell.rows).any(|row| row.verdict.is_result())
}

/// That two arms took turns and did not come to the end of them, and what there is of each. None: they did, or did not take
/// turns.
fn broken_off(a: &[RunDocuments], b: &[RunDocuments]) -> Option<String> {
    let ended_early = |run: &RunDocuments| run.plan["interleave"].is_object() && run.run["complete"] == false;
    if !a.iter().chain(b).any(ended_early) {
        return None;
    }
    let of_arm = |name: &str, runs: &[RunDocuments]| {
        let windows: Vec<String> = runs.iter().flat_map(|run| windows_of(&run.run)).collect();
        match windows.is_empty() {
            true => format!("{name} has no window"),
            false => format!("{name} has {}", windows.join(", ")),
        }
    };
    Some(format!(
        "the interleaved run was interrupted, or ended early by --stop-at-failed; of its windows (load point/window) {}; {}",
        of_arm("A", a),
        of_arm("B", b)
    ))
}

/// `0/0`, `0/1 (cut off)`: load point and window of all that were begun.
fn windows_of(run: &Value) -> Vec<String> {
    let cells = run["cells"].as_array().into_iter().flatten();
    let windows = cells.flat_map(|cell| {
        let windows = cell["windows"].as_array().into_iter().flatten();
        windows.map(move |window| (&cell["cell"], window))
    });
    windows
        .map(|(cell, window)| {
            let cut_off = if window["interrupted"] == true { " (cut off)" } else { "" };
            format!("{cell}/{}{cut_off}", window["window"])
        })
        .collect()
}

fn documents(dir: &Path) -> anyhow::Result<RunDocuments> {
    Kind::must_be_a_run(dir)?;
    let read = |file: &str| -> anyhow::Result<Value> {
        let path = dir.join(file);
        if !path.exists() {
            match (file, dir.join("requests.jsonl").exists()) {
                ("run.json", true) => bail!(
                    "{}: run.json is missing: the run was ended before it was summarised, or is still going on",
                    dir.display()
                ),
                _ => bail!("{}: {file} is missing", dir.display()),
            }
        }
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| format!("{}: not whole JSON", path.display()))
    };
    Ok(RunDocuments { dir: dir.display().to_string(), plan: read("plan.json")?, run: read("run.json")? })
}

/// By index of the run, cell, window: deciles of each of [`SHIFTED`] in its column; None where it is withheld.
type Deciles = BTreeMap<(usize, u32, u32), [Option<[f64; 9]>; 2]>;

/// Values of a window's ok, kept requests, in ns.
type Values = [Vec<i64>; 2];

fn deciles(arm: &Arm, dirs: &[PathBuf]) -> anyhow::Result<Deciles> {
    let mut found = Deciles::new();
    for (index, dir) in dirs.iter().enumerate() {
        let windows = || {
            let all = arm.cells.iter().flat_map(|cell| cell.windows.iter().map(move |w| (cell.load.model, w)));
            all.filter(move |(_, w)| w.run == index)
        };
        let mut values: BTreeMap<(u32, u32), (LoadModel, Values)> =
            windows().map(|(model, w)| ((w.cell, w.window), (model, Values::default()))).collect();
        each_row(dir, REQUESTS, |row| {
            let Some((model, values)) = values.get_mut(&(row.cell, row.window)) else { return };
            if row.outcome != Outcome::Ok || row.phase != Phase::Measured {
                return;
            }
            let columns = [definitions::ttft(&row), definitions::e2e(&row)];
            for (values, columns) in values.iter_mut().zip(columns) {
                values.extend(if *model == LoadModel::Closed { columns.gross } else { columns.due });
            }
        })?;
        for (model, window) in windows() {
            let (_, mut values) = values.remove(&(window.cell, window.window)).unwrap_or((model, Values::default()));
            let mut of_window = [None; 2];
            for (slot, (metric, values)) in of_window.iter_mut().zip(SHIFTED.iter().zip(&mut values)) {
                let column = window.document.pointer(&format!("/metrics/{metric}/{}", column_met(model)));
                // withheld in run.json is withheld here
                let Some(column) = column.filter(|column| column["p50_ms"].is_f64()) else { continue };
                values.sort_unstable();
                for percentile in PUBLISHED {
                    let name = percentile.name;
                    let Some(stored) = column[format!("{name}_ms")].as_f64() else { continue };
                    let of_rows = percentile_ms(values, percentile);
                    ensure!(
                        of_rows.map(f64::to_bits) == Some(stored.to_bits()),
                        "{0}: run.json is not what requests.jsonl says: cell {1}, window {2}: {metric} {name} is {stored} \
                         there, and {3} by the rows; tarebench verify {0} says more",
                        dir.display(),
                        window.cell,
                        window.window,
                        of_rows.map_or_else(|| "not defined".to_owned(), |ms| ms.to_string()),
                    );
                }
                *slot = shift::deciles(std::mem::take(values));
            }
            found.insert((index, window.cell, window.window), of_window);
        }
    }
    Ok(found)
}

/// Adds the shift functions to loads whose windows can all be compared.
fn add_shifts(compared: &mut Comparison, a: (&Arm, &Deciles), b: (&Arm, &Deciles)) {
    let design = compared.design;
    for cell in &mut compared.cells {
        let fit = !cell.rows.iter().all(|row| row.verdict == Verdict::NoResultClient);
        for (at, metric) in SHIFTED.into_iter().enumerate() {
            let column = column_met(cell.load.model);
            let of_arms = (a.0.cells.iter().find(|c| c.load == cell.load))
                .zip(b.0.cells.iter().find(|c| c.load == cell.load))
                .filter(|_| fit);
            let both = of_arms.and_then(|(of_a, of_b)| {
                let decile = |deciles: &Deciles, w: &ArmWindow| deciles.get(&(w.run, w.cell, w.window))?[at];
                if design == Design::Pairs {
                    let pairs = pairs_of((a.0, of_a), (b.0, of_b)).into_iter();
                    let pair =
                        |(i, j): (usize, usize)| Some((decile(a.1, &of_a.windows[i])?, decile(b.1, &of_b.windows[j])?));
                    return pairs.map(pair).collect::<Option<(Vec<_>, Vec<_>)>>();
                }
                let all =
                    |of: &ArmCell, deciles| of.windows.iter().map(|w| decile(deciles, w)).collect::<Option<Vec<_>>>();
                all(of_a, a.1).zip(all(of_b, b.1))
            });
            cell.shifts.extend(match both {
                Some((a, b)) => shift::of_windows(metric, column, &a, &b, design),
                None => Some(Shift {
                    metric,
                    column,
                    windows: [0, 0],
                    deciles: Vec::new(),
                    note: Some("a window of an arm has no such figures, or they are withheld".to_owned()),
                }),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::{Specimen, shift_answer};
    use crate::analysis::summary;
    use serde_json::json;
    use std::fs;

    const MS: u64 = 1_000_000;

    /// A run directory; every answer later by `later_ms`.
    fn published(parent: &Path, name: &str, later_ms: u64, change: impl Fn(&mut Value)) -> PathBuf {
        let dir = parent.join(name);
        fs::create_dir(&dir).expect("made");
        let mut specimen = Specimen::campaign();
        specimen.plan["run_id"] = name.into();
        specimen.plan["base_url"] = format!("http://{name}:8000").into();
        change(&mut specimen.plan);
        for (bounds, rows) in &mut specimen.windows {
            rows.iter_mut().for_each(|row| shift_answer(row, later_ms * MS));
            bounds.closed += later_ms * MS;
        }
        specimen.write(&dir);
        let run = summary::summarise(&dir).expect("summarised");
        fs::write(dir.join("run.json"), summary::to_json(&run).expect("JSON")).expect("written");
        dir
    }

    fn settings() -> Settings {
        Settings { metrics: vec!["ttft.net.p50".parse().expect("a metric")], margin: 0.05 }
    }

    fn try_compare(a: &[&PathBuf], b: &[&PathBuf], named: &Named) -> Result<Comparison, String> {
        let dirs = |of: &[&PathBuf]| of.iter().map(|dir| (*dir).clone()).collect::<Vec<_>>();
        compare(&dirs(a), &dirs(b), &settings(), named).map_err(|e| format!("{e:#}"))
    }

    #[test]
    fn a_later_answer_is_found_in_every_decile_of_directories() {
        let parent = tempfile::tempdir().expect("temporary directory");
        let (a, b) = (published(parent.path(), "a", 0, |_| ()), published(parent.path(), "b", 500, |_| ()));
        let found = try_compare(&[&a], &[&b], &Named::default()).expect("compared");
        assert_eq!(found.differences.iter().map(|d| d.name).collect::<Vec<_>>(), ["base_url"]);
        let cell = &found.cells[0];
        let effect = cell.rows[0].effect.expect("an effect");
        assert!((effect - 500.0).abs() < 1e-6, "{effect}");
        assert_eq!(cell.rows[0].verdict, Verdict::Suggestive, "{}", cell.rows[0].why);
        let sentence = cell.rows[0].sentence.as_deref().expect("a sentence");
        assert!(
            sentence.starts_with("on this system this change (base_url) moved ttft net p50 by +500.0 ms"),
            "{sentence}"
        );
        for shift in cell.shifts.iter().filter(|s| !s.deciles.is_empty()) {
            assert!(shift.deciles.iter().all(|d| (d.shift_ms - 500.0).abs() < 1e-6), "{shift:?}");
        }
        assert_eq!(cell.shifts.len(), 2);
    }

    #[test]
    fn figures_that_the_rows_do_not_bear_out_are_refused() {
        let parent = tempfile::tempdir().expect("temporary directory");
        let (a, b) = (published(parent.path(), "a", 0, |_| ()), published(parent.path(), "b", 5, |_| ()));
        let path = b.join("run.json");
        let mut run: Value = serde_json::from_str(&fs::read_to_string(&path).expect("read")).expect("JSON");
        let whole = run.clone();
        // p99: one that so many values do not carry, put there by hand
        for (metric, percentile) in [("ttft", "p99"), ("e2e", "p90"), ("e2e", "p50")] {
            run = whole.clone();
            run["cells"][0]["windows"][0]["metrics"][metric]["gross"][format!("{percentile}_ms")] = json!(1.0);
            fs::write(&path, run.to_string()).expect("written");
            let words = try_compare(&[&a], &[&b], &Named::default()).expect_err("edited");
            let named = format!("requests.jsonl says: cell 0, window 0: {metric} {percentile} is 1 there");
            assert!(words.contains(&named), "{words}");
        }

        let rows = b.join("requests.jsonl");
        let edited = fs::read_to_string(&rows).expect("read").replacen("\"events\":", "\"events\": ", 1);
        fs::write(&rows, edited).expect("written");
        let words = try_compare(&[&a], &[&b], &Named::default()).expect_err("a changed row");
        assert!(words.contains("does not continue the chain"), "{words}");
    }

    #[test]
    fn what_differs_must_be_named() {
        let parent = tempfile::tempdir().expect("temporary directory");
        let a = published(parent.path(), "a", 0, |plan| plan["model"] = "x".into());
        let b = published(parent.path(), "b", 5, |plan| {
            plan["model"] = "y".into();
            plan["temperature"] = json!(0.7);
            plan["trace_hash"] = "0".repeat(64).into();
        });
        let named = |varies: &[&str], accepted: &[&str]| {
            let words = |of: &[&str]| of.iter().map(|w| (*w).to_owned()).collect();
            Named { varies: words(varies), accepted: words(accepted) }
        };
        let compare = |named: Named| try_compare(&[&a], &[&b], &named);
        let words = compare(Named::default()).expect_err("three differences");
        for name in ["x model        x  |  y", "x workload", "x sampling     temperature unknown  |  temperature 0.7"] {
            assert!(words.contains(name), "{name} in {words}");
        }
        assert!(
            words.contains("--varies model") && words.contains("--allow-differences model,workload,sampling"),
            "{words}"
        );
        assert!(!words.contains("x base_url"), "{words}");
        assert!(compare(named(&["model"], &["workload"])).is_err(), "all of them must be");
        let found = compare(named(&["model"], &["workload", "sampling"])).expect("all are named");
        let sentence = found.cells[0].rows[0].sentence.clone().expect("a sentence");
        assert!(sentence.contains("this change (model; base_url, workload, sampling differ too)"), "{sentence}");
        assert!(named(&["modle"], &[]).check().expect_err("no such name").contains("choose from base_url, server"));
        let found = compare(named(&["model", "host"], &["workload", "sampling"])).expect("one name too many");
        assert!(found.notes.iter().any(|n| n == "--varies host: both arms are the same in it"), "{:?}", found.notes);
    }

    #[test]
    fn runs_of_one_arm_must_be_of_one_plan() {
        let parent = tempfile::tempdir().expect("temporary directory");
        let one = |name: &str| published(parent.path(), name, 0, |plan| plan["base_url"] = "http://x".into());
        let (a1, a2, b1) = (one("a1"), one("a2"), one("b1"));
        let b2 = published(parent.path(), "b2", 0, |_| ());
        let found = try_compare(&[&a1, &a2], &[&b1], &Named::default()).expect("compared");
        assert_eq!((found.cells[0].rows[0].a.len(), found.cells[0].rows[0].b.len()), (4, 2));
        let words = try_compare(&[&a1, &a2], &[&b1, &b2], &Named::default()).expect_err("two servers in one arm");
        assert!(
            words.contains("put together only when they are of one plan") && words.contains("x base_url"),
            "{words}"
        );
        let words = try_compare(&[&a1], &[&a1], &Named::default()).expect_err("itself");
        assert!(words.contains("are the same run (a1)"), "{words}");
    }

    #[test]
    fn arms_that_were_interrupted_say_so_and_what_there_is_of_them() {
        let parent = tempfile::tempdir().expect("temporary directory");
        let of = |name: &str, with: &str| {
            published(parent.path(), name, 0, |plan| {
                plan["interleave"] =
                    json!({"arm": name, "with": with, "order": "abba", "sequence": "AB", "start_seed": 7});
                // more than there are
                (plan["windows"], plan["cells"]) = (json!(9), json!([{"model": "closed", "concurrency": 8}]));
            })
        };
        let (a, b) = (of("a", "b"), of("b", "a"));
        let found = try_compare(&[&a], &[&b], &Named::default()).expect("compared");
        let note = found.notes.iter().find(|note| note.contains("was interrupted")).expect("a note");
        assert!(note.ends_with("A has 0/0, 0/1; B has 0/0, 0/1"), "{note}");
        let path = b.join("run.json");
        let whole: Value = serde_json::from_str(&fs::read_to_string(&path).expect("read")).expect("JSON");
        let with_windows = |windows: Value| {
            let mut run = whole.clone();
            match windows {
                Value::Null => run["cells"] = json!([]),
                windows => run["cells"][0]["windows"] = windows,
            }
            fs::write(&path, run.to_string()).expect("written");
            try_compare(&[&a], &[&b], &Named::default()).expect_err("nothing in common")
        };
        let mut cut_off = whole["cells"][0]["windows"][0].clone();
        cut_off["interrupted"] = json!(true);
        let words = with_windows(json!([cut_off]));
        assert!(
            words.contains("was interrupted") && words.contains("B has 0/0 (cut off): no load has a whole"),
            "{words}"
        );
        let words = with_windows(Value::Null);
        assert!(words.contains("B has no window: nothing can be compared"), "{words}");
    }

    #[test]
    fn directories_that_are_no_runs() {
        let parent = tempfile::tempdir().expect("temporary directory");
        let a = published(parent.path(), "a", 0, |_| ());
        let against = |name: &str| try_compare(&[&a], &[&parent.path().join(name)], &Named::default());
        assert!(against("nothing").expect_err("nothing there").contains("no such directory"));
        fs::create_dir(parent.path().join("empty")).expect("made");
        assert!(against("empty").expect_err("empty").contains("is empty"));
        let b = published(parent.path(), "b", 0, |_| ());
        let run = fs::read_to_string(b.join("run.json")).expect("read");
        fs::write(b.join("run.json"), &run[..run.len() / 2]).expect("written");
        assert!(against("b").expect_err("half-written").contains("not whole JSON"));
        fs::remove_file(b.join("run.json")).expect("removed");
        assert!(against("b").expect_err("not summarised").contains("still going on"));
        fs::write(b.join("run.json"), &run).expect("written");
        fs::remove_file(b.join("requests.jsonl")).expect("removed");
        assert!(against("b").expect_err("no rows").contains("requests.jsonl"));
    }
}
