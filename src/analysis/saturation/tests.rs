//! The search against servers that are known: sharp edges, edges with noise, and a queue that is simulated.

use super::points::{self, Point};
use super::queue::{self, Server};
use super::search::{Answer, Bounds, End, MORE_REQUESTS, Next, Search, Shown, Trial};
use crate::analysis::statistics::proportion;
use crate::analysis::statistics::simulated::at_most;
use proptest::prelude::*;
use rand_core::Rng;
use rand_pcg::Pcg64;

fn bounds() -> Bounds {
    Bounds { from: Some(4.0), to: None, factor: 2.0, resolution: 0.05, whole: false, max_steps: 40 }
}

/// Runs a search to its end; gives every window it asked for.
fn run(bounds: Bounds, mut answer: impl FnMut(&Trial) -> Shown) -> (Search, Vec<Trial>, End) {
    let mut search = Search::new(bounds);
    let mut trials = Vec::new();
    loop {
        match search.next() {
            Next::Try(trial) => {
                assert!(trials.len() < bounds.max_steps as usize, "{trials:?}");
                search.report(answer(&trial));
                trials.push(trial);
            }
            Next::Over(end) => return (search, trials, end),
        }
    }
}

fn shown(answer: Answer, throughput: f64, time_ms: Option<f64>) -> Shown {
    Shown { answer, throughput: Some(throughput), time_ms }
}

/// A server that meets its goals up to `edge`, and can do no more than `most` requests/s.
fn sharp(edge: f64, most: f64) -> impl FnMut(&Trial) -> Shown {
    move |trial| {
        let load = trial.load.unwrap_or(1.0);
        match load {
            l if l > most * 1.1 => shown(Answer::OverSaturated, most, None),
            l if l > edge => shown(Answer::Misses, l.min(most), Some(900.0)),
            l => shown(Answer::Meets, l, Some(100.0)),
        }
    }
}

#[test]
fn a_sharp_edge_is_found_and_confirmed() {
    let (search, trials, end) = run(bounds(), sharp(70.0, 80.0));
    let bracket = search.bracket();
    let (good, bad) = (bracket.good.expect("found"), bracket.bad.expect("found"));
    assert!(good <= 70.0 && bad > 70.0 && bad / good <= 1.05, "{bracket:?}");
    assert!(search.is_conclusive() && bracket.windows == 2 && end == End::Complete, "{bracket:?}, {end:?}");
    let loads: Vec<f64> = trials.iter().take(6).map(|t| t.load.expect("a load")).collect();
    assert_eq!(loads, [4.0, 8.0, 16.0, 32.0, 64.0, 128.0], "upwards by a factor");
    assert_eq!((search.steps() as usize, search.client_above()), (trials.len(), None));
}

#[test]
fn without_a_first_load_one_request_at_a_time_shows_it() {
    let from = Bounds { from: None, ..bounds() };
    let (search, trials, _) = run(from, |trial| match trial.load {
        None => shown(Answer::Unclear, 9.871_23, Some(100.0)),
        Some(_) => sharp(70.0, 80.0)(trial),
    });
    assert_eq!((trials[0].load, trials[1].load), (None, Some(9.871)), "{trials:?}");
    assert!(search.is_conclusive());
    let (search, trials, _) = run(from, |trial| match trial.load {
        None => shown(Answer::Client("busy".to_owned()), 9.871_23, None),
        Some(_) => sharp(70.0, 80.0)(trial),
    });
    assert!(trials[1].load == Some(9.871) && search.is_conclusive(), "its latencies are not needed: {trials:?}");
    let (search, trials, end) = run(from, |_| shown(Answer::Misses, 9.8, Some(100.0)));
    assert_eq!((trials.len(), end, search.bracket().good), (1, End::NoneMeets, None));
}

#[test]
fn the_first_load_may_be_too_much() {
    let high = Bounds { from: Some(500.0), ..bounds() };
    let (search, trials, _) = run(high, sharp(70.0, 80.0));
    assert_eq!(trials[..4].iter().map(|t| t.load.unwrap()).collect::<Vec<_>>(), [500.0, 250.0, 125.0, 62.5]);
    assert!(search.is_conclusive(), "{:?}", search.bracket());
    let (search, _, end) = run(Bounds { max_steps: 100, ..high }, |_| shown(Answer::Misses, 1.0, None));
    assert_eq!((end, search.bracket().good), (End::NoneMeets, None), "downwards has an end");
    let whole = Bounds { from: Some(8.0), whole: true, ..bounds() };
    let (_, trials, end) = run(whole, |_| shown(Answer::Misses, 1.0, None));
    assert_eq!((trials.last().unwrap().load, end), (Some(1.0), End::NoneMeets));
}

#[test]
fn a_ceiling_that_meets_the_goals_is_at_least() {
    let (search, trials, end) = run(Bounds { to: Some(50.0), ..bounds() }, sharp(70.0, 80.0));
    assert_eq!((end, search.bracket().good, search.bracket().windows), (End::AllMeet, Some(50.0), 2));
    assert!(!search.is_conclusive() && trials.iter().all(|t| t.load <= Some(50.0)));
}

#[test]
fn whole_numbers_are_found_exactly() {
    for edge in [1.0, 2.0, 3.0, 7.0, 8.0, 100.0] {
        let whole = Bounds { from: Some(1.0), whole: true, ..bounds() };
        let (search, trials, _) = run(whole, sharp(edge, 1e9));
        let bracket = search.bracket();
        let (good, bad) = (bracket.good.expect("found"), bracket.bad.expect("found"));
        assert!(good <= edge && bad > edge && (bad - good <= 1.0 || bad / good <= 1.05), "{edge}: {bracket:?}");
        assert!(trials.iter().all(|t| t.load.unwrap().fract() == 0.0), "{trials:?}");
    }
}

/// What is open is asked once more with more requests; what stays open is left so, on both sides closely.
#[test]
fn an_answer_that_stays_open_is_no_claim() {
    let (search, trials, _) = run(bounds(), |trial| match trial.load.unwrap() {
        l if l < 60.0 => shown(Answer::Meets, l, Some(100.0)),
        l if l > 90.0 => shown(Answer::Misses, 80.0, Some(900.0)),
        l => shown(Answer::Unclear, l, Some(200.0)),
    });
    let bracket = search.bracket();
    assert!(!search.is_conclusive() && !bracket.unclear.is_empty(), "{bracket:?}");
    assert!(bracket.good.unwrap() < 60.0 && bracket.bad.unwrap() > 90.0, "{bracket:?}");
    let first = trials.iter().position(|t| t.load == Some(64.0)).unwrap();
    assert_eq!((trials[first].requests, trials[first + 1].requests), (1, MORE_REQUESTS));
    assert_eq!((trials[first].attempt, trials[first + 1].attempt, trials[first + 1].load), (0, 1, Some(64.0)));
}

#[test]
fn a_client_that_is_not_fit_ends_the_search_and_blames_nobody_else() {
    let mut asked = 0;
    let (search, trials, end) = run(bounds(), |trial| match trial.load.unwrap() {
        l if l > 20.0 => {
            asked += 1;
            shown(Answer::Client("busy 0.9".to_owned()), l, None)
        }
        l => shown(Answer::Meets, l, Some(100.0)),
    });
    assert_eq!((end, asked), (End::Client("busy 0.9".to_owned()), 3), "a burst of a neighbour is no limit");
    assert_eq!((search.bracket().good, search.bracket().bad, trials.len()), (Some(16.0), None, 6));
    // a client that fails only above what was found leaves the optimum as it is
    let (search, _, end) = run(bounds(), |trial| match trial.load.unwrap() {
        l if l > 130.0 => shown(Answer::Client("busy 0.9".to_owned()), l, None),
        _ => sharp(70.0, 1e9)(trial),
    });
    assert!(search.is_conclusive() && end == End::Complete && search.client_above() == Some("busy 0.9"));
}

#[test]
fn a_server_that_gets_better_again_is_said_to_be_so() {
    let (search, _, _) = run(bounds(), |trial| match trial.load.unwrap() {
        l if (60.0..140.0).contains(&l) => shown(Answer::Misses, l, Some(900.0)),
        l => shown(Answer::Meets, l, Some(100.0)),
    });
    let [meets, misses] = search.bracket().turns.expect("seen by the further loads");
    assert!(meets > misses && !search.is_conclusive(), "{:?}", search.bracket());
}

/// A load that met the goals once and missed them the second time is not the optimum.
#[test]
fn an_edge_that_is_not_confirmed_moves_down() {
    let (search, trials, _) = run(bounds(), |trial| match (trial.load.unwrap(), trial.attempt) {
        (l, attempt) if l > 60.0 && attempt > 0 => shown(Answer::Misses, l, Some(900.0)),
        _ => sharp(70.0, 80.0)(trial),
    });
    let bracket = search.bracket();
    assert!(!search.is_conclusive() && bracket.unclear.len() == 3, "{bracket:?}, {trials:?}");
    // the next one below is confirmed in its turn
    let (search, trials, _) = run(bounds(), |trial| match (trial.load.unwrap(), trial.attempt) {
        (l, attempt) if l > 68.0 && attempt > 0 => shown(Answer::Misses, l, Some(900.0)),
        _ => sharp(70.0, 80.0)(trial),
    });
    let bracket = search.bracket();
    assert!(bracket.good.unwrap() <= 68.0 && bracket.windows == 2, "{bracket:?}, {trials:?}");
}

proptest! {
    /// Whatever is answered, a search ends within its bound.
    #[test]
    fn a_search_ends(seed in any::<u64>(), whole in any::<bool>(), from in 1.0_f64..1e4, given in any::<bool>()) {
        let mut rng = Pcg64::new(u128::from(seed), 3);
        let from = given.then(|| if whole { from.round() } else { from });
        let bounds = Bounds { from, whole, ..bounds() };
        let (search, trials, end) = run(bounds, |trial| {
            let answer = match rng.next_u64() % 8 {
                0..3 => Answer::Meets,
                3..5 => Answer::Misses,
                5 => Answer::OverSaturated,
                6 => Answer::Unclear,
                _ => Answer::Client("busy".to_owned()),
            };
            let time_ms = (!rng.next_u64().is_multiple_of(3)).then_some(100.0 + (rng.next_u64() % 900) as f64);
            shown(answer, trial.load.unwrap_or(7.0) * 0.9, time_ms)
        });
        prop_assert!(trials.len() <= 40 && search.steps() as usize == trials.len());
        prop_assert!(trials.len() < 40 || end == End::Steps || search.steps() == 40);
        prop_assert!(trials.iter().all(|t| t.load.is_none_or(|l| l > 0.0 && l.is_finite())));
        prop_assert!(trials.iter().all(|t| !whole || t.load.is_none_or(|l| l.fract() == 0.0)));
    }

    /// At every moment the bracket of a monotone server holds its edge, and in the end closely.
    #[test]
    fn the_bracket_holds_the_edge(edge in 0.5_f64..5e3, from in 0.5_f64..5e3, over in 1.0_f64..3.0) {
        // further below its first load a search does not go
        let bounds = Bounds { from: Some(from.min(edge * 1_000.0)), max_steps: 60, ..bounds() };
        let mut search = Search::new(bounds);
        let mut server = sharp(edge, edge * over);
        while let Next::Try(trial) = search.next() {
            search.report(server(&trial));
            let bracket = search.bracket();
            prop_assert!(bracket.good.is_none_or(|good| good <= edge), "{bracket:?}");
            prop_assert!(bracket.bad.is_none_or(|bad| bad > edge), "{bracket:?}");
            prop_assert!(bracket.turns.is_none(), "{bracket:?}");
        }
        prop_assert!(search.is_conclusive(), "{:?}", search.bracket());
    }
}

/// Requests near the edge meet the goals with a probability that falls slowly: whatever is claimed may be wrong in few
/// of many searches only, and the rest must say that they do not know.
#[test]
fn noise_near_the_edge_is_inconclusive_not_wrong() {
    let runs = 400;
    for (width, requests) in [(0.002, 400), (0.01, 400), (0.05, 1000)] {
        let (mut wrong, mut known) = (0, 0);
        for seed in 0..runs {
            let mut rng = Pcg64::new(seed as u128, 5);
            let mut uniform = move || (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let edge = 40.0 + 60.0 * uniform();
            // a share of 99 % at the edge, misses that grow tenfold over this width of load
            let misses = |load: f64| (0.01 * 10_f64.powf((load / edge - 1.0) / width)).min(1.0);
            let (search, ..) = run(bounds(), |trial| {
                let load = trial.load.unwrap();
                let n = requests * trial.requests;
                let missed = (0..n).filter(|_| uniform() < misses(load)).count() as u64;
                let [low, high] = proportion::interval(u64::from(n) - missed, u64::from(n)).unwrap();
                let answer = match () {
                    () if low >= 0.99 => Answer::Meets,
                    () if high < 0.99 => Answer::Misses,
                    () => Answer::Unclear,
                };
                shown(answer, load.min(120.0), Some(100.0 * (1.0 + load / 200.0)))
            });
            if search.is_conclusive() {
                let bracket = search.bracket();
                known += 1;
                wrong += usize::from(bracket.good.unwrap() > edge || bracket.bad.unwrap() <= edge);
            }
        }
        // two loads near the edge, each wrong in at most 2.5 % of its windows, one of them shown twice
        assert!(wrong <= at_most(0.05, runs), "width {width}: {wrong} of {runs} wrong, {known} claimed");
        assert!(width > 0.02 || known * 2 > runs, "width {width}: only {known} of {runs} claimed");
    }
}

/// The built-in mock with 8 slots and 100 ms a request: 80 requests/s.
const MOCK: Server = Server { slots: 8, ttft_s: 0.05, itl_s: 0.005, tokens: 11, jitter: 0.0 };

/// The windows that a search would run against a server, judged as the harness does: 99 % of 400 requests with the
/// first token within a limit.
fn against(server: Server, limit_s: f64, seed: u64) -> impl FnMut(&Trial) -> Shown {
    let mut window = 0;
    move |trial| {
        window += 1;
        let Some(load) = trial.load else {
            let s = server.service_s();
            return shown(Answer::Unclear, 1.0 / s, Some(s * 1e3));
        };
        // long enough that what the server cannot do would wait for longer than the limit
        let n = trial.requests as usize * 400.max((load * 5.0) as usize);
        let served = server.serve(load, n, true, seed * 1000 + window);
        let until = served.last().unwrap().due;
        let over = queue::growth(&served, load, until).is_some();
        let met = served.iter().filter(|s| s.first_token - s.due <= limit_s).count() as u64;
        let [low, high] = proportion::interval(met, n as u64).unwrap();
        let answer = match () {
            () if over => Answer::OverSaturated,
            () if low >= 0.99 => Answer::Meets,
            () if high < 0.99 => Answer::Misses,
            () => Answer::Unclear,
        };
        let finished = served.iter().filter(|s| s.end <= until).count() as f64 / until;
        let mean_ms = served.iter().map(|s| (s.end - s.due) * 1e3).sum::<f64>() / n as f64;
        shown(answer, finished, (!over).then_some(mean_ms))
    }
}

#[test]
fn saturation_of_a_known_queue_is_its_capacity() {
    for server in [MOCK, Server { slots: 1, ..MOCK }, Server { slots: 32, jitter: 0.5, ..MOCK }] {
        for seed in 1..=5 {
            let from = Bounds { from: None, ..bounds() };
            let (search, trials, end) = run(from, against(server, 0.2, seed));
            let bracket = search.bracket();
            assert!(
                bracket.good.is_some_and(|good| good <= server.capacity() * 1.05),
                "{bracket:?}, {end:?}, {trials:?}"
            );
            let found = points::saturation(&points::merged(&search_points(&trials, server, seed))).unwrap();
            assert!(found.plateau && end == End::Complete, "{found:?}, {end:?}, {trials:?}");
            let off = found.requests_per_s / server.capacity() - 1.0;
            assert!(off.abs() < 0.05, "{} slots, seed {seed}: {off}, {found:?}", server.slots);
        }
    }
}

/// The points of a search's windows, worked out again.
fn search_points(trials: &[Trial], server: Server, seed: u64) -> Vec<Point> {
    let mut again = against(server, 0.2, seed);
    let shown = trials.iter().map(|trial| (trial.load, again(trial)));
    shown.filter_map(|(load, s)| Some(Point { load: load?, throughput: s.throughput?, time_ms: s.time_ms })).collect()
}

/// Long windows of the same queue, load by load in steps of 2 % of its capacity.
fn true_knee(server: Server) -> f64 {
    let power = |load: f64| {
        let served = server.serve(load, 60_000, true, 99);
        load / (served.iter().map(|s| s.end - s.due).sum::<f64>() / served.len() as f64)
    };
    let loads = (5..50).map(|k| server.capacity() * 0.02 * f64::from(k));
    loads.max_by(|a, b| power(*a).total_cmp(&power(*b))).unwrap()
}

#[test]
fn the_knee_is_that_of_the_queue() {
    for server in [Server { slots: 1, ..MOCK }, MOCK] {
        let truth = true_knee(server);
        let mut inside = 0;
        for seed in 1..=10 {
            let (_, trials, _) = run(Bounds { from: None, ..bounds() }, against(server, 0.2, seed));
            let curve = points::merged(&search_points(&trials, server, seed));
            let found = points::knee(&curve).unwrap();
            // the true summit lies no further than one load beside those that are nearly as good
            let below = curve.iter().rfind(|p| p.load < found.near[0]).map_or(0.0, |p| p.load);
            let above = curve.iter().find(|p| p.load > found.near[1]).map_or(f64::INFINITY, |p| p.load);
            inside += usize::from((below..=above).contains(&truth));
            assert!((found.load / truth - 1.0).abs() < 0.25, "{} slots: {found:?}, truth {truth}", server.slots);
        }
        assert!(inside >= 9, "{} slots: {inside} of 10 hold {truth}", server.slots);
    }
}

/// A load that the server can do is not called over-saturated, however near; one that is well above is, and soon.
#[test]
fn over_saturation_is_told_from_a_busy_server() {
    let runs = 100;
    for (server, n) in [(MOCK, 2000), (Server { slots: 32, jitter: 1.0, ..MOCK }, 2000), (MOCK, 400)] {
        for share in [0.5, 0.9, 0.95, 0.99] {
            let load = server.capacity() * share;
            let alarms = (0..runs)
                .filter(|seed| {
                    let served = server.serve(load, n, true, *seed);
                    let last = served.last().unwrap().due;
                    // looked at again and again, as a window goes on
                    (1..=10).any(|k| queue::growth(&served, load, last * f64::from(k) / 10.0).is_some())
                })
                .count();
            assert!(alarms <= at_most(0.01, runs as usize), "{share} of {server:?}: {alarms} of {runs}");
        }
        // 400 requests are over before the first 50 have shown how long it takes
        for share in [1.5, 2.0, 4.0].into_iter().filter(|_| n > 1000) {
            let load = server.capacity() * share;
            let seen = (0..50).filter(|seed| {
                let served = server.serve(load, n, true, *seed);
                queue::growth(&served, load, served.last().unwrap().due * 0.9).is_some()
            });
            assert!(seen.count() >= 45, "{share} of {server:?}");
        }
    }
}

/// Long replies among short ones fill a server slowly; that is not growth.
#[test]
fn a_server_that_is_still_filling_is_not_over_saturated() {
    // 9 of 10 replies take 1 s, the tenth 8 s, none waits
    let per_s = 50.0;
    for seed in 0..100_u64 {
        let mut rng = Pcg64::new(u128::from(seed), 9);
        let requests: Vec<(f64, f64)> = (0..2000)
            .map(|i| {
                let due = f64::from(i) / per_s;
                (due, due + if rng.next_u64().is_multiple_of(10) { 8.0 } else { 1.0 })
            })
            .collect();
        for until in 1..40 {
            let until = f64::from(until);
            let known: Vec<(f64, Option<f64>)> = requests
                .iter()
                .filter(|(due, _)| *due <= until)
                .map(|(due, end)| (*due, (*end <= until).then_some(*end)))
                .collect();
            let (counts, settled) = super::growth::counts(&known, until, 200);
            let found = settled.and_then(|settled| super::growth::judge(&counts, per_s, settled));
            assert_eq!(found, None, "seed {seed}, at {until} s");
        }
    }
}

#[test]
fn saturation_needs_further_loads_that_are_further() {
    let point = |load: f64, throughput: f64| Point { load, throughput, time_ms: Some(100.0) };
    let close = [point(70.0, 70.0), point(72.0, 72.0), point(73.0, 73.0)];
    let found = points::saturation(&close).unwrap();
    assert!(!found.plateau && found.requests_per_s == 73.0, "{found:?}");
    let wide = [point(32.0, 32.0), point(64.0, 64.0), point(128.0, 79.0), point(166.0, 80.0), point(216.0, 78.0)];
    let found = points::saturation(&wide).unwrap();
    assert_eq!((found.load, found.requests_per_s, found.plateau), (128.0, 80.0, true));
    assert_eq!(found.further, [166.0, 216.0]);
    assert!(!points::saturation(&wide[..4]).unwrap().plateau);
    assert_eq!(points::saturation(&[]), None);
}

#[test]
fn the_knee_is_the_largest_power_and_an_over_saturated_load_has_none() {
    let point = |load: f64, throughput: f64, time_ms| Point { load, throughput, time_ms };
    let curve = [
        point(10.0, 10.0, Some(100.0)),
        point(20.0, 20.0, Some(110.0)),
        point(40.0, 40.0, Some(400.0)),
        point(80.0, 41.0, None),
    ];
    let found = points::knee(&curve).unwrap();
    assert_eq!((found.load, found.between), (20.0, [Some(10.0), Some(40.0)]));
    assert!((found.power - 20.0 / 0.11).abs() < 1e-9);
    let last = points::knee(&[curve[0], curve[1], curve[3]]).unwrap();
    assert_eq!((last.load, last.between), (20.0, [Some(10.0), Some(80.0)]));
    assert_eq!((points::knee(&curve[..1]), points::knee(&[])), (None, None));
    let twice = points::merged(&[point(5.0, 4.0, Some(10.0)), point(5.0, 6.0, Some(30.0)), point(2.0, 2.0, None)]);
    assert_eq!(twice, [point(2.0, 2.0, None), point(5.0, 5.0, Some(20.0))]);
}
