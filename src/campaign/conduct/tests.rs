//! Sessions in simulated time: whose turn is due when, and when it begins.

use super::*;
use crate::load_point::{Cell, Extent};
use crate::rundir::window::SessionKind;
use crate::workload::sessions::{SessionLaw, Span};
use crate::workload::{Content, Shape};
use bench_engine::schedule::ArrivalLaw;
use proptest::prelude::*;

fn s(n: u64) -> Nanos {
    Nanos::from_secs(n)
}

fn law(pause: Pause) -> SessionLaw {
    SessionLaw { kind: SessionKind::Chat, turns: [1, 9], pause }
}

fn users(concurrency: u32, planned: u64, pause: Pause) -> SessionLoad {
    SessionLoad {
        start: Start::Users { concurrency },
        law: law(pause),
        planned,
        kept: planned,
        drop: 0,
        requests: 0,
        slots: concurrency,
        opened_ahead: concurrency,
    }
}

/// Sessions of so many turns each, with the same pause before each turn but the first.
fn shapes(turns: Vec<usize>, pause: Nanos) -> Shapes<'static> {
    let shape = || Shape { class: "c".to_owned(), prompt_tokens: 5, output_tokens: 5, content: Content::Words };
    let pause = move |turn| if turn == 0 { Nanos::ZERO } else { pause };
    let session = move |n: &usize| SessionShape {
        turns: (0..*n).map(|turn| TurnShape { shape: shape(), pause: pause(turn) }).collect(),
    };
    let last = turns.last().copied().unwrap_or(1);
    Box::new(turns.into_iter().chain(std::iter::repeat(last)).map(move |n| Ok(session(&n))))
}

/// A turn that was carried out.
#[derive(Debug)]
struct Led {
    asked: NextTurn,
    start: Nanos,
    end: Nanos,
    reply: Reply,
}

/// Carries out a window in which every turn is sent as soon as it is due and known, with replies that take what
/// `reply` says.
fn carry_out(mut conduct: Conduct<'_>, reply: impl Fn(&NextTurn) -> (Reply, Nanos)) -> Vec<Led> {
    let (mut now, mut done) = (Nanos::ZERO, Vec::<Led>::new());
    let mut ends: BinaryHeap<Reverse<(Nanos, usize)>> = BinaryHeap::new();
    loop {
        while let Some(asked) = conduct.next(now).expect("no file") {
            assert!(asked.due <= now, "nothing is told before it is asked for");
            let (reply, takes) = reply(&asked);
            let (start, end) = (now, now + takes);
            ends.push(Reverse((end, done.len())));
            done.push(Led { asked, start, end, reply });
        }
        if conduct.is_over() {
            assert_eq!(conduct.next_due(), None);
            return done;
        }
        let next_end = ends.peek().map(|Reverse((end, _))| *end);
        let next = [conduct.next_due(), next_end].into_iter().flatten().min().expect("it would never end");
        assert!(next >= now, "time goes on");
        now = next;
        while let Some(Reverse((end, place))) = ends.pop() {
            if end > now {
                ends.push(Reverse((end, place)));
                break;
            }
            conduct.ended(done[place].asked.session, done[place].reply, end);
        }
    }
}

/// Starts in s of one session of three turns whose replies take so long, each.
fn starts(pause: Pause, before: Nanos, replies_s: [u64; 3]) -> Vec<u64> {
    let load = users(1, 1, pause);
    let conduct = Conduct::new(&load, shapes(vec![3], before), Nanos::ZERO).expect("no schedule");
    let done = carry_out(conduct, |turn| (Reply::Ok, s(replies_s[turn.turn as usize])));
    done.iter().map(|led| led.start.ns() / 1_000_000_000).collect()
}

#[test]
fn a_pace_is_kept_however_long_replies_take_and_a_pause_follows_them() {
    let pace = Pause::Every { ns: s(6).ns() };
    let think = Pause::After(Span::Constant { ns: s(6).ns() });
    assert_eq!(starts(pace, s(6), [2, 2, 2]), [0, 6, 12]);
    assert_eq!(starts(think, s(6), [2, 2, 2]), [0, 8, 16]);
    assert_eq!(starts(pace, s(6), [8, 2, 2]), [0, 8, 12], "late once, and then as it was due again");
    assert_eq!(starts(pace, s(6), [8, 8, 8]), [0, 8, 16], "a turn needs the reply before");
    assert_eq!(starts(Pause::None, s(0), [2, 3, 4]), [0, 2, 5]);
}

#[test]
fn a_late_turn_keeps_the_due_of_its_pace() {
    let load = users(1, 1, Pause::Every { ns: s(6).ns() });
    let conduct = Conduct::new(&load, shapes(vec![3], s(6)), Nanos::ZERO).expect("no schedule");
    let done = carry_out(conduct, |_| (Reply::Ok, s(8)));
    assert_eq!(done.iter().map(|led| led.asked.due).collect::<Vec<_>>(), [s(0), s(6), s(12)]);
}

#[test]
fn a_user_leads_one_session_after_another_and_a_failure_ends_one() {
    let load = users(2, 4, Pause::None);
    let conduct = Conduct::new(&load, shapes(vec![3, 2, 2, 1], s(0)), Nanos::ZERO).expect("no schedule");
    let done = carry_out(conduct, |turn| match (turn.session, turn.turn) {
        (0, 1) => (Reply::Failed, s(1)),
        _ => (Reply::Ok, s(3)),
    });
    let told: Vec<_> = done
        .iter()
        .map(|led| (led.asked.session, led.asked.turn, led.asked.user, led.asked.trace_id, led.asked.needs))
        .collect();
    let (a, b) = (Some(0), Some(1));
    let expected = [
        (0, 0, a, 0, None),
        (1, 0, b, 3, None),
        (0, 1, a, 1, Some(0)),
        (1, 1, b, 4, Some(3)),
        // the turn that failed is what its user's next session follows; turn 2 of session 0 is never due
        (2, 0, a, 5, Some(1)),
        (3, 0, b, 7, Some(4)),
        (2, 1, a, 6, Some(5)),
    ];
    assert_eq!(told, expected);
    assert_eq!((done[4].asked.due, done[5].asked.due), (s(4), s(6)));
}

#[test]
fn users_go_on_until_the_window_is_long_enough() {
    let of = |min: Nanos| {
        let conduct = Conduct::new(&users(2, 3, Pause::None), shapes(vec![2], s(0)), min).expect("no schedule");
        carry_out(conduct, |_| (Reply::Ok, s(1)))
    };
    assert_eq!(of(Nanos::ZERO).len(), 3 * 2);
    let longer = of(s(7));
    // sessions begin at 0, 2, 4 and 6 s
    assert_eq!(longer.len(), 2 * 4 * 2);
    let ids: Vec<u64> = longer.iter().map(|led| led.asked.trace_id).collect();
    assert!((0..16).all(|id| ids.contains(&id)), "numbered on: {ids:?}");
}

#[test]
fn what_was_cut_is_followed_by_nothing() {
    let load = users(1, 5, Pause::None);
    let mut conduct = Conduct::new(&load, shapes(vec![2], s(0)), s(100)).expect("no schedule");
    let turn = conduct.next(s(0)).expect("no file").expect("a turn");
    assert!(!conduct.is_over());
    conduct.ended(turn.session, Reply::Cut, s(1));
    assert_eq!(conduct.next(s(1_000)).expect("no file"), None);
    assert!(conduct.is_over());
}

fn arriving(dues_per_s: f64, sessions: u64, pause: Pause) -> SessionLoad {
    let law = ArrivalLaw::new(dues_per_s, 1.0).expect("in range");
    let extent = Extent { seed: 7, at_least: sessions, until: Nanos::ZERO, mean_output_tokens: 25.0, shard: None };
    let Ok(Cell::Open(open)) = Cell::open(law, None, extent) else { panic!("an open loop") };
    SessionLoad { start: Start::Arrivals(open), ..users(1, sessions, pause) }
}

#[test]
fn sessions_arrive_when_the_schedule_says_so_whatever_else_is_under_way() {
    let load = arriving(2.0, 20, Pause::None);
    let Start::Arrivals(open) = &load.start else { panic!("arrivals") };
    let dues: Vec<Nanos> = open.dues().expect("no file").map(|due| due.expect("no file")).collect();
    let conduct = Conduct::new(&load, shapes(vec![3], s(0)), s(0)).expect("a schedule");
    let done = carry_out(conduct, |turn| (if turn.session == 4 { Reply::Failed } else { Reply::Ok }, s(5)));
    let firsts: Vec<&Led> = done.iter().filter(|led| led.asked.turn == 0).collect();
    assert_eq!(firsts.iter().map(|led| led.start).collect::<Vec<_>>(), dues);
    assert!(firsts.iter().all(|led| led.asked.user.is_none() && led.asked.needs.is_none()));
    assert_eq!(done.len(), 19 * 3 + 1);
}

#[test]
fn a_file_that_cannot_be_read_is_told_of() {
    let broken: Shapes<'_> = Box::new(std::iter::once(Err(io::Error::other("gone"))));
    let load = users(1, 5, Pause::None);
    let mut conduct = Conduct::new(&load, broken, s(0)).expect("no schedule");
    assert!(conduct.next(s(0)).is_err());
}

proptest! {
    /// Whatever replies take and whichever fail: turns in order, each after the reply before and not before its due;
    /// no user in two sessions; every planned session begun; numbers as they are planned.
    #[test]
    fn every_session_is_led_in_order(
        turns in prop::collection::vec(1_usize..6, 1..20),
        replies in prop::collection::vec((0_u64..50, prop::bool::weighted(0.2)), 1..30),
        concurrency in 1_u32..6,
        pause in 0_u64..4,
        paced in any::<bool>(),
        arrive in any::<bool>(),
        min in 0_u64..60,
    ) {
        let before = s(pause);
        let law = if paced { Pause::Every { ns: before.ns() } } else { Pause::After(Span::Constant { ns: before.ns() }) };
        let planned = turns.len() as u64;
        let load = if arrive { arriving(0.2, planned, law) } else { users(concurrency, planned, law) };
        let conduct = Conduct::new(&load, shapes(turns.clone(), before), s(min)).expect("a schedule");
        let done = carry_out(conduct, |turn| {
            let (takes, fails) = replies[turn.trace_id as usize % replies.len()];
            (if fails { Reply::Failed } else { Reply::Ok }, s(takes.max(1)))
        });
        let bases: Vec<u64> = turns.iter().scan(0, |sum, n| { *sum += *n as u64; Some(*sum - *n as u64) }).collect();
        let mut sessions: HashMap<u64, Vec<&Led>> = HashMap::new();
        done.iter().for_each(|led| sessions.entry(led.asked.session).or_default().push(led));
        prop_assert!((0..planned).all(|id| sessions.contains_key(&id)));
        for (id, led) in &sessions {
            for (k, turn) in led.iter().enumerate() {
                prop_assert_eq!(turn.asked.turn as usize, k);
                prop_assert!(turn.start >= turn.asked.due);
                if let Some(base) = bases.get(*id as usize) {
                    prop_assert_eq!(turn.asked.trace_id, base + k as u64);
                    prop_assert_eq!(turn.asked.turns as usize, turns[*id as usize]);
                }
                if let Some(last) = k.checked_sub(1).map(|k| led[k]) {
                    prop_assert_eq!((last.reply, turn.asked.needs), (Reply::Ok, Some(last.asked.trace_id)));
                    let from = if paced { last.asked.due } else { last.end };
                    prop_assert_eq!(turn.asked.due, from + before);
                    prop_assert_eq!(turn.start, turn.asked.due.max(last.end), "sent when both are there");
                }
            }
            let whole = led.len() == led[0].asked.turns as usize;
            prop_assert!(whole || led[led.len() - 1].reply == Reply::Failed);
        }
        if !arrive {
            for user in 0..concurrency {
                let of: Vec<&Led> = done.iter().filter(|led| led.asked.user == Some(user)).collect();
                prop_assert!(of.windows(2).all(|pair| pair[0].end <= pair[1].start));
            }
        }
    }
}
