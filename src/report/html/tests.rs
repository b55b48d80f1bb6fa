use super::specimen::{campaign, exhibits};
use super::*;
use crate::analysis::definitions::rules::GateState;
use crate::analysis::specimen::Specimen;
use crate::analysis::summary::summarise;
use crate::export::terms::Term;
use crate::rundir::run_json::{Distribution, RunVerdict};
use sha2::{Digest, Sha256};

fn terms() -> Terms {
    let term = |tool, name, p50| Term {
        concept: "time to first token",
        tool,
        name,
        definition: "first chunk with choices - before the request is made",
        n: 300,
        mean: Some(5.5),
        p50,
        p99: None,
        unit: "ms",
    };
    Terms {
        cell: 0,
        window: 0,
        terms: vec![term("tarebench", "ttft gross", Some(5.25)), term("AIPerf", "time_to_first_token", None)],
    }
}

fn page(run: &RunJson) -> String {
    render(run, &Disclosed::in_memory(run), &exhibits(run), Some(&terms()))
}

fn small() -> RunJson {
    let dir = tempfile::tempdir().unwrap();
    Specimen::campaign().write(dir.path());
    summarise(dir.path()).unwrap()
}

/// What is between two strings, each time.
fn between<'a>(text: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    text.split(open).skip(1).filter_map(|rest| rest.split_once(close).map(|(inner, _)| inner)).collect()
}

/// Headings, captions, and words in place of pictures, without tags.
fn skeleton(page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    let starts = ["<h1", "<h2", "<h3", "<h4", "<figcaption", "<p class=\"none\"", "<strong>"];
    while let Some((at, open)) = starts.iter().filter_map(|s| rest.find(s).map(|at| (at, *s))).min() {
        rest = &rest[at..];
        let tag: String = open[1..].chars().take_while(|c| c.is_alphanumeric()).collect();
        let Some(end) = rest.find(&format!("</{tag}>")) else { break };
        let mut inside = false;
        let words: String = rest[..end]
            .chars()
            .filter(|c| {
                match c {
                    '<' => inside = true,
                    '>' => {
                        inside = false;
                        return false;
                    }
                    _ => {}
                }
                !inside
            })
            .collect();
        out.push_str(&format!("{tag}: {words}\n"));
        rest = &rest[end..];
    }
    out
}

#[test]
fn a_page_tells_what_it_did() {
    let text = skeleton(&page(&small()));
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/snapshots/page.txt");
    assert!(text == std::fs::read_to_string(kept).unwrap_or_default(), "now:\n{text}");
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let run = small();
    assert!(page(&run) == page(&run));
}

#[test]
fn nothing_is_fetched_and_only_our_script_may_run() {
    let page = page(&small());
    let script = between(&page, "<script>", "</script>");
    assert_eq!(script.len(), 1);
    assert!(script[0].len() < 6 * 1024, "{}", script[0].len());
    let hash = shell::base64(&Sha256::digest(script[0]));
    assert!(
        page.contains(&format!("script-src &#39;sha256-{hash}&#39;"))
            || page.contains(&format!("script-src 'sha256-{hash}'"))
    );
    let rest = page.replace("http-equiv", "");
    for forbidden in ["http", "src=", "url(", "@import", "<link", "<img", "<iframe", "onload", "onerror", "javascript:"]
    {
        assert!(!rest.contains(forbidden), "{forbidden} in the page");
    }
    assert!(!between(&page, "href=\"", "\"").iter().any(|to| !to.starts_with('#')));
}

#[test]
fn base64_is_that_of_the_rfc() {
    let told = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|s| shell::base64(s.as_bytes()));
    assert_eq!(told, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
}

/// Puts words everywhere a server or a user can.
fn hostile(run: &mut RunJson, words: &str) {
    run.run_id = Some(words.to_owned());
    run.tarebench = Some(words.to_owned());
    run.started_at = Some(words.to_owned());
    run.plan_hash = Some(words.to_owned());
    run.labels.push(words.to_owned());
    run.environment =
        serde_json::json!({"base_url": words, "host": words, words: {words: [words]}, "server": {"server": words}});
    run.verdicts.push(RunVerdict { cell: Some(0), window: Some(0), kind: "failed".into(), text: words.to_owned() });
    for cell in &mut run.cells {
        cell.load.arrivals = Some(words.to_owned());
        for w in &mut cell.windows {
            w.requests.by_error.insert(words.to_owned(), 1);
            w.finish_reasons.insert(words.to_owned(), 1.0);
            w.model_echoes.insert(words.to_owned(), 1);
            w.flags.insert(words.to_owned(), Default::default());
            w.verdicts.iter_mut().for_each(|v| v.text = words.to_owned());
            w.client.gates.iter_mut().for_each(|g| (g.text, g.scope) = (words.to_owned(), words.to_owned()));
            for d in [&mut w.metrics.ttft.gross, &mut w.metrics.e2e.gross].into_iter().flatten() {
                let of_class = Distribution { per_class: Default::default(), ..d.clone() };
                d.per_class.insert(words.to_owned(), of_class);
            }
            if let Some(class) = w.lengths.values().next().cloned() {
                w.lengths.insert(words.to_owned(), class);
            }
        }
    }
}

#[test]
fn what_a_server_wrote_stays_text() {
    let cases = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onfocus='alert(1)",
        "]]></style></svg><b>",
        "</title></desc></script><script>",
        "a\u{202e}b\u{2066}c\u{0}d\u{1b}[2J",
        "\u{1f469}\u{200d}\u{1f4bb} \u{5e9}\u{5dc}\u{5d5}\u{5dd}",
        "| a \\| `b` &lt;i> {{c}}",
    ];
    let plain = page(&small());
    let tags = |page: &str, tag: &str| page.matches(tag).count();
    for words in cases {
        let mut run = small();
        hostile(&mut run, words);
        let mut drawn = exhibits(&run);
        drawn.marks[0].text = words.to_owned();
        let disclosed = Disclosed::in_memory(&small());
        let mut disclosed = Disclosed { plan: serde_json::json!({"model": words, words: words}), ..disclosed };
        disclosed.boxes.boxes[11].sentence = words.to_owned();
        let page = render(&run, &disclosed, &drawn, Some(&terms()));
        for tag in ["<script", "</script", "<style", "</style", "<title>t", "<img", "<b>alert", "<body", "</body"] {
            assert_eq!(tags(&page, tag), tags(&plain, tag), "{tag} with {words:?}");
        }
        assert_eq!(tags(&page, "<svg"), tags(&plain, "<svg"), "{words:?}");
        assert_eq!(tags(&page, "<svg"), tags(&page, "</svg"));
        assert!(!page.contains(|c: char| c.is_control() && c != '\n'), "{words:?}");
        assert!(!page.contains(['\u{202e}', '\u{2066}']));
        let attributes: String = between(&page, "<", ">").join("\n");
        assert!(!attributes.contains("onerror") && !attributes.contains("onfocus"), "{words:?}");
    }
}

#[test]
fn a_name_of_ten_thousand_characters_is_cut_aloud() {
    let mut run = small();
    let length = page(&run).len();
    let disclosed = Disclosed::in_memory(&run);
    hostile(&mut run, &"w".repeat(10_000));
    let page = render(&run, &disclosed, &exhibits(&run), Some(&terms()));
    assert!(page.contains("(10,000 characters)"));
    assert!(!page.contains(&"w".repeat(2_001)));
    assert!(page.len() < length + 200_000, "{}", page.len());
}

#[test]
fn ten_loads_of_two_windows_stay_below_half_a_mebibyte() {
    let page = page(&campaign(10));
    assert!(page.len() < 500 * 1024, "{} bytes", page.len());
    assert_eq!(page.matches("<h3").count(), 20, "each window is told");
}

#[test]
fn five_hundred_loads_are_bounded() {
    let page = page(&campaign(500));
    assert!(page.len() < 4 << 20, "{} bytes", page.len());
    assert!(page.contains("976 of 1000 windows are in the tables and pictures above"));
    assert_eq!(page.matches("<h3").count(), page::MOST_WINDOWS);
}

#[test]
fn what_is_withheld_is_in_no_picture() {
    let mut run = small();
    let sign = 7_654.0;
    let withhold = |d: &mut Option<Distribution>| {
        if let Some(d) = d {
            *d = Distribution { n: d.n, ..Distribution::default() };
        }
    };
    for w in run.cells.iter_mut().flat_map(|c| &mut c.windows) {
        let m = &mut w.metrics;
        for d in [
            &mut m.ttft.gross,
            &mut m.ttft.due,
            &mut m.gap.gross,
            &mut m.ttft.net,
            &mut m.gap.net,
            &mut m.ttft.tare,
            &mut m.gap.tare,
        ] {
            withhold(d);
        }
        for g in &mut w.client.gates {
            g.state = GateState::Void;
        }
    }
    let mut drawn = exhibits(&run);
    for w in &mut drawn.windows {
        for s in &mut w.slices {
            (s.ttft_gross_p50_ms, s.ttft_gross_max_ms, s.ttft_net_p50_ms, s.ttft_net_max_ms) =
                (Some(sign), Some(sign), Some(sign), Some(sign));
        }
        for q in [&mut w.ttft.gross, &mut w.ttft.net, &mut w.ttft.due, &mut w.gap.gross, &mut w.gap.net] {
            q.points.iter_mut().for_each(|p| p.1 = sign);
        }
    }
    let page = render(&run, &Disclosed::in_memory(&run), &drawn, None);
    assert!(!page.contains("7654") && !page.contains("7,654"), "a withheld figure is told");
    let text = skeleton(&page);
    for words in [
        "p: Distribution of time to first token. Withheld",
        "p: Gaps in time. Withheld",
        "Latency is not drawn: gross and net of time to first token are withheld",
        "p: Time to first token over load. Withheld",
    ] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    assert!(!text.contains("figcaption: Distribution of") && !text.contains("figcaption: Gaps in time"));
}

#[test]
fn terms_of_a_window_that_was_not_fit_are_marked() {
    let mut run = small();
    assert!(!page(&run).contains("5.250 !"));
    let gross = run.cells[0].windows[0].metrics.ttft.gross.as_mut().unwrap();
    *gross = Distribution { n: gross.n, ..Distribution::default() };
    assert!(page(&run).contains("5.250 !"));
}

#[test]
fn without_the_first_boxes_there_are_counts_alone() {
    let run = small();
    let mut disclosed = Disclosed::in_memory(&run);
    disclosed.boxes.boxes[2].status = crate::disclosure::boxes::Status::Empty;
    let page = render(&run, &disclosed, &exhibits(&run), Some(&terms()));
    assert!(!page.contains("<svg") && !page.contains("<figure") && !page.contains("time_to_first_token"));
    assert!(page.contains("no report: box 3"));
}

#[test]
fn odd_runs_have_pages_too() {
    let mut none = small();
    none.cells.clear();
    assert!(page(&none).contains("no window was closed"));
    let mut failed = small();
    for w in failed.cells.iter_mut().flat_map(|c| &mut c.windows) {
        w.requests.failed += w.requests.ok;
        w.requests.ok = 0;
        w.metrics = Default::default();
        w.tokens = Default::default();
        w.throughput = Default::default();
    }
    let disclosed = Disclosed::in_memory(&small());
    let page_of_failed = render(&failed, &disclosed, &exhibits(&failed), None);
    assert!(
        page_of_failed.contains("No request was answered") && page_of_failed.contains("Not measured in any window")
    );
    let mut one = small();
    one.cells[0].windows.truncate(1);
    one.cells[0].noise.clear();
    assert!(page(&one).contains("nothing is known of the noise"));
    let bare = small();
    let empty = render(&bare, &Disclosed::in_memory(&bare), &Exhibits::default(), None);
    assert!(empty.contains("the window holds no slices"));
    for page in [page(&none), page_of_failed, page(&one), empty] {
        assert!(!page.contains("NaN") && !page.contains("inf\""), "a figure that is none");
    }
}

#[test]
fn it_can_be_read_by_ear_and_by_keyboard() {
    let page = page(&campaign(3));
    assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">"));
    let mut before = 0;
    for level in between(&page, "<h", ">").iter().filter_map(|tag| tag.chars().next()?.to_digit(10)) {
        assert!(level <= before + 1, "h{level} after h{before}");
        before = level;
    }
    assert_eq!(page.matches("<h1").count(), 1);
    assert!(page.matches("<svg").count() > 20);
    assert_eq!(page.matches("<svg").count(), page.matches("role=\"img\"><title>").count());
    assert_eq!(page.matches("<figure>").count(), page.matches("<figcaption>").count());
    assert_eq!(page.matches("<figure>").count(), page.matches("<details><summary>The figures behind it").count());
    assert_eq!(page.matches("<th ").count(), page.matches("<th scope=").count());
    assert!(!page.contains("<th>"));
    let mut ids = between(&page, " id=\"", "\"");
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "ids are their own");
    for to in between(&page, "href=\"#", "\"") {
        assert!(ids.binary_search(&to).is_ok(), "#{to} leads nowhere");
    }
    for words in
        ["prefers-reduced-motion", "prefers-color-scheme:dark", "@media print", "class=\"skip\"", ":focus-visible"]
    {
        assert!(page.contains(words), "{words}");
    }
}

/// Relative luminance of a colour, WCAG 2.2.
fn luminance(hex: &str) -> f64 {
    let hex = hex.trim_start_matches('#');
    let wide: String = if hex.len() == 3 { hex.chars().flat_map(|c| [c, c]).collect() } else { hex.to_owned() };
    let part = |at: usize| {
        let v = f64::from(u8::from_str_radix(&wide[at..at + 2], 16).unwrap()) / 255.0;
        if v <= 0.040_45 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
}

#[test]
fn words_stand_out_from_the_paper_in_each_theme() {
    let style = include_str!("style.css");
    for theme in between(style, "--paper:", "}") {
        let colours: std::collections::BTreeMap<&str, &str> =
            theme.split(";--").filter_map(|pair| pair.split_once(':')).collect();
        let paper = luminance(theme.split(';').next().unwrap());
        let contrast = |on: f64, name: &str| {
            let words = luminance(colours[name]);
            (on.max(words) + 0.05) / (on.min(words) + 0.05)
        };
        for name in ["ink", "soft", "link", "bad", "warn", "good", "c0", "c1", "c2", "c3"] {
            assert!(contrast(paper, name) >= 4.5, "{name}: {:.2} in {theme}", contrast(paper, name));
        }
        for (on, name) in [
            ("faint", "ink"),
            ("badbg", "bad"),
            ("warnbg", "warn"),
            ("goodbg", "good"),
            ("badbg", "ink"),
            ("warnbg", "ink"),
            ("goodbg", "ink"),
        ] {
            assert!(contrast(luminance(colours[on]), name) >= 4.5, "{name} on {on} in {theme}");
        }
    }
}

/// Pages to look at, in `target`: made up ones, and of the run directory that `TAREBENCH_RUN` names.
#[test]
#[ignore = "writes pages for people to look at"]
fn pages_to_look_at() {
    let target = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    std::fs::write(target.join("page-ten.html"), page(&campaign(10))).unwrap();
    std::fs::write(target.join("page-many.html"), page(&campaign(500))).unwrap();
    let mut run = campaign(4);
    let disclosed = Disclosed::in_memory(&run);
    hostile(
        &mut run,
        "<b>\u{202e}\"x\u{1f469}\u{200d}\u{1f4bb}' \u{5e9}\u{5dc}\u{5d5}\u{5dd} a very long name of a model that goes on and on without an end-of-line-that-breaks-it-anywhere",
    );
    std::fs::write(target.join("page-hostile.html"), render(&run, &disclosed, &exhibits(&run), Some(&terms())))
        .unwrap();
    for (name, users) in [("sessions", Some(3)), ("tasks", None)] {
        let dir = tempfile::tempdir().unwrap();
        crate::analysis::specimen::Specimen::sessions(users, 120).write(dir.path());
        let (run, disclosed) = Disclosed::of_directory(dir.path()).unwrap();
        let drawn = Exhibits::of_directory(dir.path()).unwrap();
        std::fs::write(target.join(format!("page-{name}.html")), render(&run, &disclosed, &drawn, Some(&terms())))
            .unwrap();
    }
    if let Some(dir) = std::env::var_os("TAREBENCH_RUN") {
        let (run, disclosed) = Disclosed::of_directory(std::path::Path::new(&dir)).unwrap();
        let real = Exhibits::of_directory(std::path::Path::new(&dir)).unwrap();
        let drawn = if real.windows.is_empty() { exhibits(&run) } else { real };
        std::fs::write(target.join("page.html"), render(&run, &disclosed, &drawn, Some(&terms()))).unwrap();
    }
}
