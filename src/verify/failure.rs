//! What was done on purpose, from all rows of a window and from `marks.jsonl` as plain JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::raw::number;
use crate::analysis::definitions::failure::{
    Around, Figure, Followed, NotFollowed, Recovery, Request, Usual, Wanted, follow, touched_until,
};
use crate::analysis::definitions::goals::{self, Met};
use crate::analysis::definitions::load::{self, TokenTrail};
use crate::analysis::definitions::seconds;
use crate::analysis::percentiles;
use crate::goals::Goals;
use crate::rundir::mark::MarkRow;
use crate::rundir::row::{Outcome, Phase, Row};

/// A window that something may have been done in.
pub(super) struct Disturbed<'a> {
    pub(super) line: &'a Value,
    pub(super) rows: &'a [Row],
    pub(super) sent: &'a [&'a Row],
    pub(super) kept: &'a [&'a Row],
    pub(super) opened: u64,
    pub(super) closed: u64,
    pub(super) open: bool,
    /// Bounds of the throughput, ns.
    pub(super) span: Option<(u64, u64)>,
    pub(super) no_gross: bool,
}

impl Disturbed<'_> {
    /// `failure` of the window, null where nothing was done; and its recovery, as a goal has it.
    pub(super) fn by(&self, marks: &[Value], plan: &Value) -> (Value, Recovery) {
        let place = |of: &Value| (number(of, "cell"), number(of, "window"));
        let mut marks: Vec<&Value> = marks.iter().filter(|mark| place(mark) == place(self.line)).collect();
        if marks.is_empty() {
            return (Value::Null, Recovery::Unknown);
        }
        marks.sort_by_key(|mark| number(mark, "mark"));
        let starts: Vec<u64> = marks.iter().filter_map(|mark| mark["started"].as_u64()).collect();
        let first = starts.iter().copied().min();
        let first_due = self.kept.iter().map(|row| row.due).min().unwrap_or(self.opened);
        let from = first_due.max(self.span.map_or(0, |span| span.0));
        let mut recovery = Recovery::Unknown;
        let effects: Vec<Value> = marks
            .iter()
            .map(|mark| {
                let around = mark["started"].as_u64().zip(first).map(|(started, first_mark)| Around {
                    from,
                    first_mark,
                    mark: started,
                    next: starts.iter().filter(|t| **t > started).min().copied(),
                    until: self.span.map_or(started, |span| span.1),
                });
                let (effect, of_mark) = self.mark(mark, around, plan);
                recovery = recovery.and(of_mark);
                effect
            })
            .collect();
        let failure = json!({
            "baseline_s": first.map(|first| [self.after_opening(from), self.after_opening(first)]),
            "load_until_s": self.span.map(|span| self.after_opening(span.1)),
            "closed_loop": !self.open,
            "marks": effects,
        });
        (failure, recovery)
    }

    fn after_opening(&self, at: u64) -> f64 {
        seconds(at.saturating_sub(self.opened))
    }

    fn mark(&self, mark: &Value, around: Option<Around>, plan: &Value) -> (Value, Recovery) {
        let at = |key: &str| mark[key].as_u64().map(|t| self.after_opening(t));
        let end = serde_json::from_value::<MarkRow>(mark.clone()).map(|row| row.end_words()).ok();
        let waited_s = around.map(|around| seconds(around.until.saturating_sub(around.mark)));
        let mut effect = json!({
            "mark": mark["mark"], "text": mark["text"], "started_s": at("started"), "ended_s": at("ended"),
            "outcome": mark["outcome"], "end": end, "seen_s": waited_s, "effects": [], "recovery": null,
            "degraded": null, "requests": null,
        });
        let Some(around) = around else { return (effect, Recovery::Unknown) };
        let found: Vec<(Figure, Result<Followed, NotFollowed>)> =
            Figure::ALL.iter().map(|figure| (*figure, self.figure(*figure, &around, plan))).collect();
        effect["effects"] = found.iter().map(|(figure, found)| self.effect(*figure, found)).collect();
        let followed: Vec<Followed> = found.into_iter().filter_map(|(_, found)| found.ok()).collect();
        let left = || followed.iter().filter(|f| f.left().is_some());
        let mut recovery = match (followed.is_empty(), left().next()) {
            (true, _) => Recovery::Unknown,
            (false, None) => Recovery::NotNeeded,
            (false, Some(_)) => Recovery::NotSeen { waited_s: waited_s.unwrap_or(0.0) },
        };
        effect["degraded"] = json!((!followed.is_empty()).then(|| left().next().is_some()));
        if left().next().is_some() && left().all(|f| f.back().is_some()) {
            let latest = |of: fn((u64, [u64; 2])) -> u64| left().filter_map(|f| f.back()).map(of).max().unwrap_or(0);
            let (at_s, lo, hi) = (latest(|b| b.0), latest(|b| b.1[0]), latest(|b| b.1[1]));
            let (at_s, within_s) = (seconds(at_s), [seconds(lo), seconds(hi)]);
            effect["recovery"] = json!({"at_s": at_s, "within_s": within_s});
            recovery = Recovery::Back { at_s, within_s };
        }
        let until = touched_until(&followed, &around, mark["ended"].as_u64(), self.closed);
        effect["requests"] = self.touched(&around, until);
        (effect, recovery)
    }

    fn figure(&self, figure: Figure, around: &Around, plan: &Value) -> Result<Followed, NotFollowed> {
        let goals = serde_json::from_value::<Option<Goals>>(plan["goals"].clone()).ok().flatten();
        let goals = goals.filter(|goals| !goals.request.is_empty());
        let ends = |rows: &[&Row], counts: &dyn Fn(&Row) -> bool| {
            let ends = rows.iter().filter(|row| counts(row)).filter_map(|row| load::in_flight(row, self.closed));
            let mut ends: Vec<u64> = ends.map(|(_, end)| end).collect();
            ends.sort_unstable();
            ends
        };
        match figure {
            Figure::Goodput => {
                let goals = goals.ok_or(NotFollowed::NoGoals)?;
                self.gross()?;
                let good = ends(self.kept, &|row| goals::met(row, &goals, self.open) == Met::Yes);
                follow(figure, around, &[], |wanted| rates(&good, wanted))
            }
            Figure::Requests => {
                let ok = ends(self.sent, &|row| row.outcome == Outcome::Ok);
                follow(figure, around, &[], |wanted| rates(&ok, wanted))
            }
            Figure::OutputTokens => {
                let trails: Vec<TokenTrail> = self.sent.iter().map(|row| TokenTrail::of(row)).collect();
                if trails.iter().all(|trail| trail.between(0, u64::MAX).is_none()) {
                    return Err(NotFollowed::NotTold);
                }
                follow(figure, around, &[], |wanted| tokens(&trails, wanted))
            }
            Figure::TtftP95 => {
                self.gross()?;
                if !self.open {
                    return Err(NotFollowed::ClosedLoop);
                }
                let ok = self.kept.iter().filter(|row| row.outcome == Outcome::Ok);
                let ttft = ok.filter_map(|row| Some((row.due, Request::of(row, self.closed, true)?.ttft?)));
                let mut by_due: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
                ttft.for_each(|(due, ns)| by_due.entry(due).or_default().push(ns));
                let dues: Vec<u64> = by_due.iter().flat_map(|(due, all)| all.iter().map(|_| *due)).collect();
                follow(figure, around, &dues, |wanted| {
                    let of = |i| {
                        let (from, to) = wanted.bounds(i);
                        let mut within: Vec<i64> =
                            by_due.range(from..to.max(from)).flat_map(|(_, all)| all.iter().copied()).collect();
                        percentiles::figures(&mut within).and_then(|found| found.percentiles_ms[2])
                    };
                    (0..wanted.n).map(of).collect()
                })
            }
        }
        .ok_or(NotFollowed::NoBaseline)
    }

    fn gross(&self) -> Result<(), NotFollowed> {
        if self.no_gross { Err(NotFollowed::Withheld) } else { Ok(()) }
    }

    fn effect(&self, figure: Figure, found: &Result<Followed, NotFollowed>) -> Value {
        let f = match found {
            Ok(f) => f,
            Err(why) => {
                return json!({
                    "figure": figure, "not_followed": why, "slice_s": null, "slices_per_value": null, "n_before": null,
                    "before": null, "before_sd": null, "limit": null, "hold_s": null, "excursions": null,
                    "degraded_s": null, "worst": null, "worst_share": null, "recovery": null,
                });
            }
        };
        let worst = f.course.longest.map(|longest| longest.worst);
        let back = f.back().map(|(at, [lo, hi])| json!({"at_s": seconds(at), "within_s": [seconds(lo), seconds(hi)]}));
        json!({
            "figure": figure, "not_followed": null, "slice_s": seconds(f.step), "slices_per_value": f.width,
            "n_before": f.before, "before": f.band.mean, "before_sd": f.band.sd, "limit": f.band.limit,
            "hold_s": seconds(f.hold()), "excursions": f.course.excursions,
            "degraded_s": f.left().map(|[from, to]| [seconds(from), seconds(to)]),
            "worst": worst, "worst_share": worst.map(|worst| worst / f.band.mean), "recovery": back,
        })
    }

    fn touched(&self, around: &Around, until: u64) -> Value {
        let request = |row: &Row| Request::of(row, self.closed, self.open);
        let measured: Vec<(&Row, Request)> = self
            .rows
            .iter()
            .filter(|row| row.phase == Phase::Measured)
            .filter_map(|row| Some((row, request(row)?)))
            .collect();
        let mut usual = Usual::default();
        measured.iter().filter(|(_, r)| r.is_before(around)).for_each(|(_, r)| usual.take(r));
        let all: Vec<&(&Row, Request)> = measured.iter().filter(|(_, r)| r.is_touched(around.mark, until)).collect();
        let count = |outcome: Outcome| all.iter().filter(|(row, _)| row.outcome == outcome).count();
        let slow = all.iter().filter(|(row, r)| row.outcome == Outcome::Ok && usual.is_slow(r) == Some(true)).count();
        let mut by_error: BTreeMap<&str, u64> = BTreeMap::new();
        for (row, _) in all.iter().filter(|(row, _)| row.outcome == Outcome::Failed) {
            *by_error.entry(row.error.as_ref().map_or("unnamed", |e| e.class.as_str())).or_default() += 1;
        }
        let broken: Vec<&Row> = all
            .iter()
            .filter(|(row, _)| row.outcome != Outcome::Ok && !row.chunks.is_empty())
            .map(|(r, _)| *r)
            .collect();
        let told = broken.iter().flat_map(|row| row.chunks.iter().map(|chunk| chunk.3));
        json!({
            "until_s": seconds(until.saturating_sub(around.mark)),
            "requests": all.len(),
            "ok": count(Outcome::Ok),
            "slow": usual.ttft.filter(|_| !self.no_gross).map(|_| slow),
            "failed": count(Outcome::Failed),
            "censored": count(Outcome::Censored),
            "not_sent": count(Outcome::NotSent),
            "by_error": by_error,
            "broken": broken.len(),
            "broken_token_events": broken.iter().map(|row| row.chunks.len()).sum::<usize>(),
            "broken_tokens": told.reduce(|a, b| Some(a?.saturating_add(b?))).unwrap_or(Some(0)),
        })
    }
}

/// Moments in order, per s.
fn rates(moments: &[u64], wanted: &Wanted) -> Vec<Option<f64>> {
    let before = |t: u64| moments.partition_point(|moment| *moment < t);
    let of = |i| {
        let (from, to) = wanted.bounds(i);
        Some(before(to).saturating_sub(before(from)) as f64 / seconds(wanted.slices.step))
    };
    (0..wanted.n).map(of).collect()
}

fn tokens(trails: &[TokenTrail], wanted: &Wanted) -> Vec<Option<f64>> {
    let mut parts: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for trail in trails {
        for (place, n) in trail.by_part(|at| wanted.place(at)).into_iter().flatten() {
            parts.entry(place).or_default().push(n);
        }
    }
    let of = |i: usize| {
        let mut within = parts.remove(&(wanted.first + i as i64)).unwrap_or_default();
        Some(percentiles::sum(&mut within) / seconds(wanted.slices.step))
    };
    (0..wanted.n).map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;
    use serde_json::json;

    use crate::analysis::specimen::{MS, Specimen, failed, request, shift_answer, window};
    use crate::analysis::summary::{summarise, to_json};
    use crate::disclosure::directory::Disclosed;
    use crate::report::{html, markdown, terminal};
    use crate::rundir::mark::{self, MarkOutcome, MarkRow};
    use crate::rundir::row::{Outcome, Row};
    use crate::rundir::run_json::{Failure, RunJson, Touched};
    use crate::rundir::window::{Load, LoadModel};
    use crate::verify::verify;

    const S: u64 = 1_000 * MS;
    /// The window's opening.
    const OPENED: u64 = S;

    fn stopped(from: u64, to: u64) -> MarkRow {
        MarkRow {
            cell: 0,
            window: 0,
            mark: 0,
            text: "node loss".into(),
            due: OPENED + from,
            started: Some(OPENED + from),
            ended: Some(OPENED + to),
            outcome: MarkOutcome::Done,
            status: None,
            signal: None,
            output: Vec::new(),
        }
    }

    /// An open loop of 50/s over 60 s. What would be answered between 20 and 25 s is answered at 25 s.
    fn holed() -> Specimen {
        let mut bounds = window(0, 0, OPENED, OPENED + 61 * S);
        bounds.load =
            Load { model: LoadModel::Open, concurrency: None, rate: Some(50.0), arrivals: None, sessions: None };
        (bounds.slots, bounds.planned) = (3_000, 3_000);
        let hole = OPENED + 20 * S..OPENED + 25 * S;
        let row = |id: u64| {
            let mut row = request(id, OPENED + id * 20 * MS);
            let end = row.end.and_then(|end| end.arrived).unwrap_or(0);
            if hole.contains(&end) {
                shift_answer(&mut row, hole.end - end);
            }
            row
        };
        let plan = json!({"injections": [{"at_s": 20.0, "kind": "node_loss", "lasts_s": 5.0}],
            "goals": {"request": {"ttft": 100.0}, "share": 0.5, "window": {"recovery_s": 6.0}}});
        Specimen {
            plan,
            windows: vec![(bounds, (0..3_000).map(row).collect())],
            health: Vec::new(),
            scrapes: Vec::new(),
        }
    }

    fn publish(specimen: &mut Specimen, marks: &[MarkRow], dir: &Path) -> RunJson {
        specimen.write(dir);
        let lines: String = marks.iter().map(|mark| serde_json::to_string(mark).unwrap() + "\n").collect();
        fs::write(dir.join(mark::FILE), lines).unwrap();
        let run = summarise(dir).unwrap();
        fs::write(dir.join("run.json"), to_json(&run).unwrap()).unwrap();
        let disclosed = Disclosed::of_run(dir, &run, None).unwrap();
        fs::write(dir.join("boxes.json"), disclosed.boxes.to_json().unwrap()).unwrap();
        fs::write(dir.join("report.md"), markdown::render(&run, &disclosed)).unwrap();
        fs::write(dir.join("report.html"), html::of_directory(dir, &run, &disclosed).unwrap()).unwrap();
        run
    }

    fn failure(run: &RunJson) -> &Failure {
        run.cells[0].windows[0].failure.as_ref().unwrap()
    }

    fn closes(t: &Touched) -> bool {
        t.requests == t.ok + t.failed + t.censored + t.not_sent
            && t.failed == t.by_error.values().sum::<u64>()
            && t.slow.is_none_or(|slow| slow <= t.ok)
            && t.broken <= t.failed + t.censored + t.not_sent
    }

    #[test]
    fn a_hole_of_known_shape_is_told_to_the_slice_and_verifies() {
        let dir = tempfile::tempdir().unwrap();
        let run = publish(&mut holed(), &[stopped(20 * S, 25 * S)], dir.path());
        verify(dir.path()).unwrap();
        let found = failure(&run);
        assert_eq!((found.baseline_s, found.load_until_s, found.closed_loop), (Some([0.0, 20.0]), Some(59.98), false));
        let mark = &found.marks[0];
        assert_eq!((mark.degraded, mark.started_s, mark.ended_s), (Some(true), Some(20.0), Some(25.0)));
        let told: Vec<_> = mark.effects.iter().map(|e| (e.degraded_s, e.recovery.map(|r| r.at_s))).collect();
        assert_eq!(told[1], (Some([0.0, 0.1]), Some(5.0)), "ok requests");
        // a token of the backlog comes within the last slice of the hole
        assert_eq!(told[2], (Some([0.0, 0.1]), Some(4.9)), "tokens");
        assert_eq!(told[0], (Some([0.0, 0.1]), Some(5.0)), "those within 100 ms");
        assert_eq!(mark.effects[1].worst, Some(0.0));
        let ttft = &mark.effects[3];
        assert!(ttft.recovery.unwrap().within_s[0] <= 5.0 && ttft.recovery.unwrap().within_s[1] >= 4.9, "{ttft:?}");
        assert!(ttft.worst.unwrap() > 4_000.0 && ttft.before.unwrap() < 10.0);
        assert!((mark.recovery.unwrap().at_s - 5.0).abs() <= 0.1, "{:?}", mark.recovery);
        let touched = mark.requests.as_ref().unwrap();
        assert!(closes(touched) && touched.failed + touched.censored + touched.not_sent == 0, "{touched:?}");
        // one each 20 ms is due in the hole, and the answer of each takes longer than any before; the first was
        // answered in part before
        assert_eq!(touched.slow, Some(250));
        let goal = &run.cells[0].windows[0].goals.as_ref().unwrap().window[0];
        assert_eq!((goal.found, json!(goal.answer)), (mark.recovery.map(|r| r.at_s), json!("pass")));
        assert!(run.labels.contains(&"FAILURE INJECTED".to_owned()), "{:?}", run.labels);
        let report = fs::read_to_string(dir.path().join("report.md")).unwrap();
        assert!(report.contains("FAILURE (done on purpose):") && report.contains("RECOVERED after 5."), "{report}");
        assert!(report.contains("ON PURPOSE in every window: node loss at 20 s"), "box 9");
        let short = terminal::render(&run, terminal::WIDEST, false);
        assert!(short.contains("FAILURE  ") && short.contains("RECOVERED after 5."), "{short}");
        let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
        assert!(page.contains("done on purpose: ") && page.contains("RECOVERED after 5."), "the page tells it too");
    }

    #[test]
    fn a_changed_mark_or_effect_is_found() {
        let dir = tempfile::tempdir().unwrap();
        publish(&mut holed(), &[stopped(20 * S, 25 * S)], dir.path());
        let path = dir.path().join(mark::FILE);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("26000000000", "26100000000")).unwrap();
        let found = verify(dir.path()).unwrap_err().to_string();
        assert!(found.contains("failure.marks[0].ended_s: stored 25.0, recomputed 25.1"), "{found}");
        fs::remove_file(&path).unwrap();
        assert!(verify(dir.path()).is_err(), "the marks are missing");
        fs::write(&path, text).unwrap();
        verify(dir.path()).unwrap();
        let run = dir.path().join("run.json");
        let text = fs::read_to_string(&run).unwrap();
        fs::write(&run, text.replace("\"slow\": 250", "\"slow\": 1")).unwrap();
        let found = verify(dir.path()).unwrap_err().to_string();
        assert!(found.contains("failure.marks[0].requests.slow: stored 1, recomputed 250"), "{found}");
    }

    #[test]
    fn what_is_not_known_is_null() {
        let of = |marks: &[MarkRow], change: &dyn Fn(&mut Specimen)| {
            let dir = tempfile::tempdir().unwrap();
            let mut specimen = holed();
            change(&mut specimen);
            let run = publish(&mut specimen, marks, dir.path());
            verify(dir.path()).unwrap();
            run
        };
        // too early: there is no baseline
        let run = of(&[stopped(S / 2, 25 * S)], &|_| ());
        assert_eq!((failure(&run).marks[0].degraded, failure(&run).marks[0].recovery), (None, None));
        // never reached
        let never = MarkRow { started: None, ended: None, outcome: MarkOutcome::NotReached, ..stopped(0, 0) };
        let run = of(&[never], &|_| ());
        assert_eq!((failure(&run).baseline_s, failure(&run).marks[0].requests.as_ref()), (None, None));
        // never back: everything after it fails
        let lost = |specimen: &mut Specimen| {
            for row in &mut specimen.windows[0].1 {
                if row.due > OPENED + 20 * S {
                    *row = failed(row.clone(), "transport");
                }
            }
        };
        let run = of(&[stopped(20 * S, 25 * S)], &lost);
        let mark = &failure(&run).marks[0];
        assert_eq!((mark.degraded, mark.recovery), (Some(true), None));
        let touched = mark.requests.as_ref().unwrap();
        assert_eq!((touched.failed, touched.broken_token_events), (1_999, 1_999));
        assert!(closes(touched) && touched.broken_tokens == Some(1_999));
        let goal = &run.cells[0].windows[0].goals.as_ref().unwrap().window[0];
        assert_eq!(json!(goal.answer), json!("fail"), "40 s are more than 6");
        // closed loop: the slow ones are not sent
        let run = of(&[stopped(20 * S, 25 * S)], &|specimen| {
            specimen.windows[0].0.load =
                Load { model: LoadModel::Closed, concurrency: Some(1), rate: None, arrivals: None, sessions: None };
        });
        assert!(failure(&run).closed_loop);
        assert_eq!(json!(failure(&run).marks[0].effects[3].not_followed), json!("closed_loop"));
        let no_mark = of(&[], &|_| ());
        assert_eq!(no_mark.cells[0].windows[0].failure, None);
    }

    /// Any outcome of any request.
    fn spoilt(row: &mut Row, how: u8) {
        match how {
            1 => *row = failed(row.clone(), "timeout"),
            2 => {
                row.outcome = Outcome::Censored;
                (row.end, row.done, row.last_token) = (None, None, None);
            }
            3 => row.submit = None,
            4 => {
                *row = failed(row.clone(), "client");
                row.outcome = Outcome::NotSent;
                (row.submit, row.wire_out) = (None, None);
                row.chunks.clear();
            }
            _ => {}
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn counts_close_and_verify(fates in proptest::collection::vec(0..12_u8, 300), at in 0..62 * S, lasts in 0..30 * S,
            second in proptest::option::of(0..80 * S)) {
            let dir = tempfile::tempdir().unwrap();
            let mut specimen = holed();
            specimen.windows[0].1.truncate(300);
            for (row, fate) in specimen.windows[0].1.iter_mut().zip(fates) {
                spoilt(row, fate);
            }
            let mut marks = vec![stopped(at / 10, at / 10 + lasts)];
            marks.extend(second.map(|at| MarkRow { mark: 1, ..stopped(at / 10, at) }));
            let run = publish(&mut specimen, &marks, dir.path());
            prop_assert_eq!(verify(dir.path()).map(|_| ()), Ok(()));
            for mark in &failure(&run).marks {
                let touched = mark.requests.as_ref().unwrap();
                prop_assert!(closes(touched), "{:?}", touched);
                prop_assert!(touched.requests <= 300);
            }
        }
    }
}
