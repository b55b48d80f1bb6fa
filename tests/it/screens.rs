//! What a person sees: reports in short, in full and side by side, completions, the manual.

use crate::binary::{Done, Place, tarebench};
use crate::live::RunningMock;
use calibration::mock::MockConfig;
use std::process::{Command, Stdio};

fn measured(mock: &RunningMock, more: &[&str]) -> Place {
    let place = Place::new();
    let url = format!("http://{}", mock.address);
    let mut args = vec!["run", "--base-url", &url, "--out", place.out(), "--num-prompts", "20", "--drop", "0"];
    args.extend(["--length-scale", "0.02"]);
    args.extend(more);
    let done = tarebench(&args);
    assert!([Some(0), Some(3)].contains(&done.code), "{}", done.err);
    fits(&done);
    place
}

fn fits(done: &Done) {
    let wide = done.out.lines().find(|line| tarebench::lettering::width(line) > 100 && !line.contains("rebuild with:"));
    assert_eq!(wide, None);
    assert!(!done.out.contains('\u{1b}'), "no colours in a pipe");
}

#[test]
fn reports_in_short_in_full_and_side_by_side() {
    let hostile = "m\u{202e}del <b>|日本 שלום 👩\u{200d}🔬";
    let mock = RunningMock::start(MockConfig::default());
    let a = measured(&mock, &["--max-concurrency", "1,2", "--windows", "2"]);
    let b = measured(&mock, &["--max-concurrency", "2,4", "--windows", "1", "--model", hostile]);

    let short = tarebench(&["report", b.out()]);
    let full = tarebench(&["report", b.out(), "--details"]);
    for shown in [&short, &full] {
        assert_eq!(shown.code, Some(0), "{}", shown.err);
        fits(shown);
        assert!(!shown.out.contains('\u{202e}') && shown.out.contains("<U+202E>"), "{}", shown.out);
    }
    assert!(!short.out.contains("ANOTHER MODEL"), "the record has the name as it was asked for:\n{}", short.out);
    assert!(short.out.lines().count() < full.out.lines().count());
    assert!(short.out.contains("--details") && full.out.contains("client CPU"), "{}", short.out);

    let both = tarebench(&["report", a.out(), b.out()]);
    assert_eq!(both.code, Some(0), "{}", both.err);
    fits(&both);
    for words in
        ["closed loop, 1 at once (only in A)", "closed loop, 4 at once (only in B)", "  model", "no comparison"]
    {
        assert!(both.out.contains(words), "no {words} in\n{}", both.out);
    }
    let file = a.dir.join("both.md");
    let path = file.to_str().expect("text");
    let written = tarebench(&["report", a.out(), b.out(), "--out", path]);
    assert_eq!((written.code, written.out.as_str()), (Some(0), ""), "{}", written.err);
    let text = std::fs::read_to_string(&file).expect("the file");
    assert!(text.starts_with("# 2 campaigns side by side") && !text.contains("<b>"), "{text}");

    let twice = tarebench(&["report", a.out(), a.out()]);
    assert!(twice.code == Some(2) && twice.err.contains("the same directory"), "{}", twice.err);
    let page = tarebench(&["report", a.out(), b.out(), "--format", "html"]);
    assert!(page.code == Some(2) && page.err.contains("one run"), "{}", page.err);
}

/// What a program says of `text` on its standard input; None where it is not installed.
fn checked(program: &str, args: &[&str], text: &str) -> Option<(bool, String)> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    std::io::Write::write_all(&mut child.stdin.take()?, text.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn completions_are_scripts_that_shells_take() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = tarebench(&["completions", shell]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert!(done.out.contains("tarebench") && done.out.contains("compare"), "{shell}");
    }
    let script = tarebench(&["completions", "bash"]).out;
    if let Some((whole, said)) = checked("bash", &["-n"], &script) {
        assert!(whole, "{said}");
        let ask = "complete -p tarebench; COMP_WORDS=(tarebench rep); COMP_CWORD=1; _tarebench tarebench rep tarebench; \
                   echo \"found ${COMPREPLY[*]}\"";
        let (whole, said) = checked("bash", &["--norc"], &format!("{script}\n{ask}\n")).expect("bash");
        assert!(whole && said.contains("found report") && said.contains("-F _tarebench tarebench"), "{said}");
    }
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let main = tarebench(&["man"]);
    assert!(main.code == Some(0) && main.out.contains(".TH tarebench 1"), "{}{}", main.out, main.err);
    let place = Place::new();
    let done = tarebench(&["man", "--out", place.out()]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    for page in ["tarebench.1", "tarebench-run.1", "tarebench-report.1", "tarebench-completions.1"] {
        let text = std::fs::read_to_string(place.dir.join(page)).unwrap_or_else(|e| panic!("{page}: {e}"));
        assert!(text.contains(&format!(".TH {} 1", page.trim_end_matches(".1"))), "{text}");
    }
    let text = std::fs::read_to_string(place.dir.join("tarebench-run.1")).expect("a page");
    if let Some((_, said)) = checked("mandoc", &["-T", "lint", "-W", "error"], &text) {
        assert_eq!(said, "");
    }
}

#[test]
fn verify_says_it_as_json_too() {
    let mock = RunningMock::start(MockConfig::default());
    let place = measured(&mock, &["--max-concurrency", "1", "--windows", "1"]);
    let json = |done: &Done| serde_json::from_str::<serde_json::Value>(&done.out).expect("JSON and nothing else");
    let whole = tarebench(&["verify", place.out(), "--json"]);
    assert_eq!((whole.code, &json(&whole)["verified"]), (Some(0), &true.into()), "{}", whole.out);
    let run = place.dir.join("run.json");
    let text = std::fs::read_to_string(&run).expect("run.json").replace("\"complete\": true", "\"complete\": false");
    std::fs::write(&run, text).expect("written");
    let other = tarebench(&["verify", place.out(), "--json"]);
    let told = json(&other);
    assert_eq!((other.code, &told["verified"]), (Some(1), &false.into()), "{}", other.out);
    assert!(told["difference"].as_str().is_some_and(|words| words.contains("complete")), "{told}");
}
