//! Windows as no good run has them, made of the small run in `tests/exports/run`, and where golden exports stand.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::measured::{Campaign, MeasuredWindow, each_window};
use super::{Exported, Exporter};
use crate::rundir::row::{Outcome, RowError};

/// The small run.
pub(super) fn run() -> (Campaign, Vec<MeasuredWindow>) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exports/run");
    let mut windows = Vec::new();
    each_window(
        &dir,
        |_| true,
        |window| {
            windows.push(window);
            Ok(())
        },
    )
    .expect("a run directory");
    (Campaign::of_directory(&dir).expect("a run directory"), windows)
}

/// What comes of `windows`, parts of one name put together.
pub(super) fn exported(mut exporter: impl Exporter, of: &Campaign, windows: &[MeasuredWindow]) -> Vec<Exported> {
    let mut files: Vec<Exported> = Vec::new();
    let parts = windows.iter().flat_map(|window| exporter.window(of, window).expect("a window")).collect::<Vec<_>>();
    for part in parts.into_iter().chain(exporter.finish(of).expect("an end")) {
        match files.iter_mut().find(|file| file.name == part.name) {
            Some(file) => file.text.push_str(&part.text),
            None => files.push(part),
        }
    }
    files
}

/// Compares with `tests/exports/<within>`; with `TAREBENCH_BLESS` set it writes them anew.
pub(super) fn golden(within: &str, files: &[Exported]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exports").join(within);
    for file in files {
        let path = root.join(&file.name);
        if std::env::var_os("TAREBENCH_BLESS").is_some() {
            write(&path, &file.text);
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(
            kept == file.text,
            "{}: not what it was; see VERDICTS, load it again, then TAREBENCH_BLESS=1",
            path.display()
        );
    }
}

/// Writes each odd case below the directory in `TAREBENCH_ODD`, for the tools' own loaders.
pub(super) fn hand_out(case: &str, files: &[Exported]) {
    let Some(root) = std::env::var_os("TAREBENCH_ODD").map(PathBuf::from) else { return };
    files.iter().for_each(|file| write(&root.join(case).join(&file.name), &file.text));
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
    std::fs::write(path, text).expect("written");
}

/// Name, plan and windows of each odd case.
pub(super) fn odd() -> Vec<(&'static str, Campaign, Vec<MeasuredWindow>)> {
    let (of, windows) = run();
    let whole = windows.iter().find(|w| w.bounds.cell == 1 && w.bounds.window == 0).expect("a whole window").clone();
    let with = |change: &dyn Fn(&mut MeasuredWindow)| {
        let mut window = whole.clone();
        change(&mut window);
        vec![window]
    };
    let each = |change: &dyn Fn(&mut crate::rundir::row::Row)| with(&|window| window.rows.iter_mut().for_each(change));
    let mut not_streamed = of.clone();
    not_streamed.plan["stream"] = json!(false);
    let mut hostile = of.clone();
    let name = "<script>alert(1)</script>\u{202e}\u{1f9ff} \u{5e9}\u{5dc}\u{5d5}\u{5dd} ../../x \"'{{7*7}}";
    hostile.plan["model"] = json!(name);
    hostile.plan["endpoint"] = json!("/v1/\"chat\"?<b>");
    let mut open = of.clone();
    open.plan["cells"][1] = json!({"model": "open", "rate": 80.5, "arrivals": "poisson", "burstiness": 1.0});
    let mut gamma = of.clone();
    gamma.plan["cells"][1] = json!({"model": "open", "rate": 80.5, "arrivals": "gamma", "burstiness": 2.5});
    let opened = |arrivals: Option<&str>, rate: Option<f64>| {
        with(&|window| {
            window.bounds.load.model = crate::rundir::window::LoadModel::Open;
            window.bounds.load.rate = rate;
            window.bounds.load.arrivals = arrivals.map(str::to_owned);
            window.bounds.load.concurrency = None;
        })
    };
    let failed = |row: &mut crate::rundir::row::Row| {
        row.outcome = Outcome::Failed;
        row.chunks.clear();
        (row.first_token, row.first_answer, row.last_token) = (None, None, None);
        row.error = Some(RowError { class: "http_status".into(), text: format!("{name}\u{1b}[31m\n") });
    };
    vec![
        ("one-request", of.clone(), with(&|window| window.rows.truncate(3))),
        ("nothing-kept", of.clone(), with(&|window| window.rows.truncate(2))),
        ("nothing-at-all", of.clone(), with(&|window| window.rows.clear())),
        ("all-failed", of.clone(), each(&failed)),
        (
            "no-usage",
            of.clone(),
            each(&|row| (row.prompt_tokens, row.completion_tokens, row.tokens_source) = (None, None, None)),
        ),
        (
            "one-token",
            of.clone(),
            each(&|row| {
                row.chunks.truncate(1);
                row.token_events = 1;
                (row.completion_tokens, row.last_token) = (Some(1), row.first_token);
            }),
        ),
        (
            "not-streamed",
            not_streamed,
            each(&|row| {
                (row.first_token, row.first_answer, row.last_token) = (row.end, row.end, row.end);
                (row.done, row.token_events) = (None, 1);
                row.chunks.truncate(1);
            }),
        ),
        ("hostile-names", hostile, {
            let mut windows = each(&|_| ());
            windows[0].rows.iter_mut().skip(9).for_each(failed);
            windows
        }),
        ("poisson", open.clone(), opened(None, Some(80.5))),
        ("gamma", gamma, opened(None, Some(80.5))),
        ("all-at-once", open.clone(), opened(None, None)),
        ("ramp", open, opened(Some("from 0 to 40 requests/s in 20 s"), Some(20.0))),
    ]
}
