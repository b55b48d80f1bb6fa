//! What pictures are drawn of, from the files of real campaigns: it is what `run.json` says.

use crate::binary::{Place, run_against, tarebench};
use crate::foreign_server::{Answer, ForeignServer};
use tarebench::analysis::exhibits::{Exhibits, Quantiles};
use tarebench::analysis::percentiles::PUBLISHED;
use tarebench::rundir::row::{Outcome, Row};
use tarebench::rundir::run_json::{Distribution, RunJson};

/// Every percentile of a column stands in its curve, to the last bit; gives how many there were.
fn agree(curve: &Quantiles, column: Option<&Distribution>) -> usize {
    assert_eq!(curve.n, column.map_or(0, |column| column.n));
    let told = PUBLISHED.iter().filter_map(|p| Some((f64::from(p.per_mille) / 10.0, column?.percentile(p.name)?)));
    told.inspect(|told| assert!(curve.points.contains(told), "{told:?} in {curve:?}")).count()
}

/// Holds the exhibits of a directory against its run and its rows; gives how many percentiles were compared.
fn hold_against_run(place: &Place) -> usize {
    let found = Exhibits::of_directory(&place.dir).expect("exhibits");
    let run: RunJson = serde_json::from_value(place.json("run.json")).expect("a run");
    let (rows, mut compared) = (place.rows(), 0);
    let windows = run.cells.iter().flat_map(|cell| cell.windows.iter().map(move |window| (cell.cell, window)));
    for (cell, window) in windows {
        let exhibits = found.window(cell, window.window).expect("every window");
        let metrics = &window.metrics;
        for (spread, metric) in [(&exhibits.ttft, &metrics.ttft), (&exhibits.e2e, &metrics.e2e)] {
            let columns = [&metric.gross, &metric.tare, &metric.net, &metric.due];
            let curves = [&spread.gross, &spread.tare, &spread.net, &spread.due];
            compared += curves.iter().zip(columns).map(|(curve, column)| agree(curve, column.as_ref())).sum::<usize>();
        }
        let curves = [&exhibits.gap.gross, &exhibits.gap.tare, &exhibits.gap.net];
        let columns = [&metrics.gap.gross, &metrics.gap.tare, &metrics.gap.net];
        compared += curves.iter().zip(columns).map(|(curve, column)| agree(curve, column.as_ref())).sum::<usize>();
        assert_eq!(exhibits.gap_map.columns.iter().flatten().sum::<u64>(), exhibits.gap.gross.n);
        let own: Vec<&Row> = rows.iter().filter(|r| (r.cell, r.window) == (cell, window.window)).collect();
        let count = |is: fn(&Row) -> bool| own.iter().filter(|row| is(row)).count() as u64;
        let sum = |of: fn(&tarebench::analysis::exhibits::Slice) -> u64| exhibits.slices.iter().map(of).sum::<u64>();
        assert_eq!(sum(|slice| slice.sent), count(|row| row.submit.is_some()));
        assert_eq!(sum(|slice| slice.ok), count(|row| row.outcome == Outcome::Ok));
        assert_eq!(sum(|slice| slice.failed), count(|row| row.outcome == Outcome::Failed));
        let late = exhibits.slices.iter().filter_map(|slice| slice.lateness_max_ms).reduce(f64::max);
        let told = window.arrivals.as_ref().and_then(|arrivals| arrivals.lateness_ms.as_ref());
        assert_eq!(late, told.map(|spread| spread.max));
        assert!(!exhibits.client.is_empty(), "health is sampled at the opening and at the close of each window");
    }
    compared
}

#[test]
fn exhibits_of_live_campaigns_are_what_run_json_says() {
    let loads: [&[&str]; 2] = [&["--max-concurrency", "1,4"], &["--request-rate", "200", "--max-concurrency", "3"]];
    for load in loads {
        let place = Place::new();
        let small = ["run", "--num-prompts", "120", "--drop", "5", "--windows", "2", "--length-scale", "0.05"];
        let done = tarebench(&[&small[..], load, &["--min-duration", "0", "--out", place.out()]].concat());
        assert!(matches!(done.code, Some(0 | 3)), "{}{}", done.out, done.err);
        let compared = hold_against_run(&place);
        // withheld ones are not told; at least tare is never
        assert!(compared > 8, "{compared}");
        place.assert_verifies();
    }
}

#[test]
fn a_campaign_that_failed_has_its_page_too() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::json(503, r#"{"error":{"message":"full"}}"#)));
    let place = Place::new();
    let done = run_against(&server.url(), &place, 6, &["--model", "m"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    assert!(done.out.contains("report.md, report.html, requests.jsonl"), "{}", done.out);
    assert!(place.dir.join("report.html").is_file());
    hold_against_run(&place);
    place.assert_verifies();
}
