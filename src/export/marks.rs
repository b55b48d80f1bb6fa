//! What a reader must know about a window before its figures are used, as an export carries it: other tools have no word for a
//! figure that is withheld.

use crate::report::sessions;
use crate::rundir::run_json::{RunJson, RunVerdict, VerdictKind, Window};

/// Sentences about one window: its titles (`LOOPBACK`), what is wrong with it as a whole, a rate that is none of requests, and
/// what `run.json` withholds.
pub fn of(run: &RunJson, cell: u32, window: u32) -> Vec<String> {
    let title = run.labels.iter().cloned();
    let whole = verdicts(run, cell, window).map(|verdict| format!("{}: {}", verdict.kind, verdict.text));
    let withheld = find(run, cell, window).map(withheld).unwrap_or_default();
    title.chain(whole).chain(of_sessions(run, cell)).chain(withheld).collect()
}

/// That a rate is one of sessions, which formats of other tools have no field for.
fn of_sessions(run: &RunJson, cell: u32) -> Option<String> {
    let load = &run.cells.iter().find(|of| of.cell == cell)?.load;
    let (per_s, asked) = (load.session_rate()?, load.sessions.as_ref()?);
    let (called, parts) = (sessions::noun(asked.kind), sessions::parts(asked.kind, 2));
    Some(format!("{called} arrive at {per_s}/s and their later {parts} follow replies: no request rate was asked for"))
}

/// Whether nothing speaks against the window as a whole: it was closed, and its latencies are not void.
pub fn is_valid(run: &RunJson, cell: u32, window: u32) -> bool {
    find(run, cell, window).is_some() && verdicts(run, cell, window).next().is_none()
}

/// Whether `run.json` withholds a column of a metric, or one of its percentiles.
pub fn withholds(window: &Window, metric: &str, column: &str) -> bool {
    window.verdicts.iter().any(|verdict| {
        verdict.kind == VerdictKind::Withheld
            && [metric, "*"].contains(&verdict.metric.as_str())
            && [column, "*"].contains(&verdict.column.as_str())
    })
}

/// A window of `run.json`.
pub fn find(run: &RunJson, cell: u32, window: u32) -> Option<&Window> {
    run.cells.iter().find(|of| of.cell == cell)?.windows.iter().find(|of| of.window == window)
}

fn withheld(window: &Window) -> Vec<String> {
    let mut found = Vec::new();
    for verdict in window.verdicts.iter().filter(|verdict| verdict.kind == VerdictKind::Withheld) {
        // some texts say it themselves
        let sentence = format!("withheld: {}", verdict.text.strip_prefix("withheld: ").unwrap_or(&verdict.text));
        if !found.contains(&sentence) {
            found.push(sentence);
        }
    }
    found
}

/// Those of the run as a whole included; a calibration that was not used speaks against no figure.
fn verdicts(run: &RunJson, cell: u32, window: u32) -> impl Iterator<Item = &RunVerdict> {
    let speaks = move |verdict: &&RunVerdict| {
        verdict.kind != "calibration"
            && verdict.cell.is_none_or(|of| of == cell)
            && verdict.window.is_none_or(|of| of == window)
    };
    run.verdicts.iter().filter(speaks)
}

#[cfg(test)]
mod tests {
    use crate::analysis::specimen::Specimen;
    use crate::cli::export::ExportFormat;
    use crate::export::exporter;
    use crate::export::measured::{Campaign, each_window};
    use serde_json::{Value, json};

    /// The first JSON document of a run in a format, and the name of its file.
    fn exported(users: Option<u32>, format: ExportFormat) -> (String, Value) {
        let files = files(users, format);
        let name = files[0].0.clone();
        let text: String = files.into_iter().filter(|(of, _)| *of == name).map(|(_, text)| text).collect();
        (name, serde_json::from_str(&text).expect("JSON"))
    }

    /// The names and parts of the files of a run in a format.
    fn files(users: Option<u32>, format: ExportFormat) -> Vec<(String, String)> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut specimen = Specimen::sessions(users, 40);
        specimen.plan["started_at"] = "2026-01-01T00-00-00".into();
        specimen.windows.truncate(1);
        specimen.write(dir.path());
        let of = Campaign::of_directory(dir.path()).expect("a run");
        let mut exporter = exporter(format).expect("an exporter");
        let mut files = Vec::new();
        each_window(
            dir.path(),
            |_| true,
            |window| {
                files.extend(exporter.window(&of, &window)?);
                Ok(())
            },
        )
        .expect("told");
        files.extend(exporter.finish(&of).expect("told"));
        files.into_iter().map(|file| (file.name, file.text)).collect()
    }

    #[test]
    fn a_rate_of_sessions_is_no_request_rate() {
        let warning = "tasks arrive at 25/s and their later calls follow replies: no request rate was asked for";
        let (name, vllm) = exported(None, ExportFormat::Vllm);
        assert!(name.contains("-infqps-"), "{name}");
        assert_eq!((&vllm["request_rate"], &vllm["tarebench_session_rate"]), (&json!("inf"), &json!(25.0)));
        assert!(vllm["tarebench_marks"].as_str().is_some_and(|marks| marks.contains(warning)));
        let (_, guidellm) = exported(None, ExportFormat::Guidellm);
        let config = &guidellm["benchmarks"][0]["config"];
        assert_eq!((&config["strategy"]["type_"], &config["strategy"]["rate"]), (&json!("trace"), &Value::Null));
        assert_eq!(config["environment"]["tarebench_session_rate"], 25.0);
        let warnings = guidellm["benchmarks"][0].to_string();
        assert!(warnings.contains(warning));
        let (_, aiperf) = exported(None, ExportFormat::Aiperf);
        assert_eq!(aiperf["run_info"]["variation_label"], "tarebench_session_rate_25.0");
        assert_eq!(aiperf["input_config"]["phases"][0]["type"], "fixed_schedule");
        assert_eq!(aiperf["metadata"]["tarebench_session_rate"], 25.0);
        assert!(!aiperf.to_string().contains("request_rate\""), "{aiperf}");
        let (name, seed) = exported(None, ExportFormat::Seed);
        assert_eq!((name.as_str(), &seed["request_rate"]), ("protocol_demos_s25_cell0_w1.json", &Value::Null));
        assert_eq!(seed["tarebench"]["session_rate"], 25.0);
        assert!(seed["tarebench"]["marks"].to_string().contains(warning));
        for (users, model) in [(None, "open-sessions"), (Some(3), "closed-sessions")] {
            let texts = |format| files(users, format).into_iter().map(|(_, text)| text).collect::<String>();
            assert!(texts(ExportFormat::Csv).contains(&format!(",{model},")));
            assert!(texts(ExportFormat::Prometheus).contains(&format!("load=\"{model}\"")));
        }
        // users have no rate, and nothing is said of one
        let (_, vllm) = exported(Some(3), ExportFormat::Vllm);
        assert_eq!((&vllm["request_rate"], vllm.get("tarebench_session_rate")), (&json!("inf"), None));
        assert!(!vllm["tarebench_marks"].as_str().is_some_and(|marks| marks.contains("no request rate")));
    }
}
