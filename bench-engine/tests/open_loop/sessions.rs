//! Requests with dues that come in no order, as turns of sessions do: shortly before their due, or after it.

use super::*;

/// A worker with a free slot looks every 200 us. Here a request comes at the beginning of a turn, and is seen at its end.
const SEEN_WITHIN: Nanos = Nanos::from_micros(400);

/// A window of one worker into whose supply each request is put at its time, both from the opening; by job.
fn window_of(slots: u32, replies: Script, mut comes: Vec<(Nanos, Nanos)>) -> (Vec<Finished>, Instant) {
    let (clock, shared) = (SimClock::default(), shared(slots));
    let opened = START + ms(20);
    let feed = Arc::clone(&shared);
    let mut coming: Vec<(Nanos, Job)> = (0..).zip(comes.drain(..)).map(|(id, (at, due))| (at, job(id, due))).collect();
    coming.sort_by_key(|(at, _)| *at);
    let mut coming = coming.into_iter().peekable();
    let feeding = move |now: Instant| {
        while let Some((_, job)) = coming.next_if(|(at, _)| opened + *at <= now) {
            feed.supply.push(job).expect("room");
        }
        if coming.peek().is_none() {
            feed.supply_over.store(true, Ordering::Release);
        }
    };
    let mut worker = worker(&clock, &shared, Rehearsed(replies, feeding), 0, slots);
    assert_eq!(worker.prepare(slots).opened, slots);
    let report = worker.run(Load::Sessions, slots, opened);
    assert_eq!((report.never_due, report.starved, shared.supply.len()), (0, 0, 0));
    let mut found = records(&shared);
    found.sort_by_key(|f| f.job);
    (found, opened)
}

#[test]
fn what_is_due_now_does_not_wait_for_what_is_due_later() {
    let comes = [ms(25), ms(1), ms(13), ms(1)].map(|due| (Nanos::ZERO, due));
    let (found, opened) = window_of(4, script([answer(ms(2))]), comes.to_vec());
    let late: Vec<Nanos> = found.iter().map(|f| submit(f).saturating_since(f.due.at)).collect();
    assert_eq!(late, [Nanos::ZERO; 4]);
    assert_eq!(found.iter().map(|f| f.due.at).collect::<Vec<_>>(), [25, 1, 13, 1].map(|due| opened + ms(due)));
    assert!(found[1].sequence < found[3].sequence, "of those due together the smaller id goes first");
}

#[test]
fn a_turn_that_is_made_after_its_due_goes_at_once() {
    // a chain: each call is made 300 us after the reply before it, and was due with it
    let comes: Vec<(Nanos, Nanos)> =
        (0..10).map(|k| (ms(10 * k) + Nanos::from_micros(300), ms(10 * k))).chain([(ms(5), ms(60))]).collect();
    let (found, opened) = window_of(2, script([answer(ms(3))]), comes.clone());
    for (finished, (at, due)) in found.iter().zip(comes) {
        assert_eq!(finished.due.at, opened + due);
        let since = submit(finished).saturating_since((opened + at).max(opened + due));
        assert!(since <= SEEN_WITHIN, "{finished:?}");
    }
}

#[test]
fn just_after_a_reply_the_next_turn_is_looked_for_often() {
    // the first one is seen 200 us after the opening, its reply is there 3 ms later, the next turn so long after that
    let reply = Nanos::from_micros(3_200);
    for (after_us, within_us) in [(310, 100), (1_700, 100), (9_000, 400)] {
        let comes = reply + Nanos::from_micros(after_us);
        let (found, opened) = window_of(1, script([answer(ms(3))]), vec![(Nanos::ZERO, Nanos::ZERO), (comes, reply)]);
        assert_eq!(found[0].ended, opened + reply);
        let waited = submit(&found[1]).saturating_since(opened + comes);
        assert!(waited <= Nanos::from_micros(within_us), "{after_us} us after it: {waited:?}");
    }
}

#[test]
fn a_request_in_hand_keeps_a_slot() {
    // the one slot is kept for what came first; the other one, due before it, waits for its reply
    let (found, opened) = window_of(1, script([answer(ms(2))]), vec![(Nanos::ZERO, ms(15)), (ms(1), ms(3))]);
    assert_eq!((submit(&found[0]), submit(&found[1])), (opened + ms(15), opened + ms(17)));
    assert_eq!(found[1].due.at, opened + ms(3), "and keeps its due");
}

#[test]
fn a_stop_accounts_for_all_that_are_in_hand() {
    let (clock, shared) = (SimClock::default(), shared(5));
    let opened = START + CONNECT;
    let (stopping, asleep) = (Arc::clone(&shared), clock.clone());
    // one turn begins before some dues and ends after them, and finds that the window was stopped
    let stop = move |now| {
        if now >= opened + ms(10) {
            stopping.stop.store(true, Ordering::Relaxed);
            asleep.advance_to((opened + ms(20)).max(now));
        }
    };
    let mut worker =
        worker(&clock, &shared, Rehearsed(script([answer(ms(9)), answer(Nanos::from_secs(9))]), stop), 0, 5);
    worker.prepare(5);
    for (id, due) in (0..).zip([ms(40), ms(1), ms(2), ms(30), ms(12), ms(11)]) {
        shared.supply.push(job(id, due)).expect("room");
    }
    let report = worker.run(Load::Sessions, 5, opened);
    let mut found = records(&shared);
    found.sort_by_key(|f| f.job);
    let endings: Vec<(u64, Ending)> = found.iter().map(|f| (f.job, f.ending)).collect();
    let (sent, unsent) = ([(1, Ending::Complete), (2, Ending::Censored)], [(4, Ending::NotSent), (5, Ending::NotSent)]);
    assert_eq!(endings, [sent, unsent].concat());
    let left: Vec<u64> = std::iter::from_fn(|| shared.supply.pop()).map(|job| job.id).collect();
    assert_eq!((report.never_due, left), (0, vec![3, 0]), "two in hand were not due, and are for others to judge");
    assert_eq!(worker.driver().live(), 4, "what was cut short is closed");
}

#[test]
fn an_empty_supply_is_not_looked_at_all_the_time() {
    let (clock, shared) = (SimClock::default(), shared(2));
    let mut worker = worker(&clock, &shared, script([answer(ms(1))]), 0, 2);
    supply(&shared, &[ms(2_000), ms(4_000)]);
    worker.run(Load::Sessions, 2, START);
    assert!(worker.driver().turns() < 4_000 / 50 + 40, "{}", worker.driver().turns());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever comes when: each request once, never before its due, and no later after it and its coming than a worker
    /// with free slots may not have looked.
    #[test]
    fn with_slots_enough_every_turn_goes_when_it_is_due_and_there(
        comes_us in prop::collection::vec((0u64..60_000, 0u64..80_000), 1..40),
        replies_us in prop::collection::vec(1u64..20_000, 1..8),
    ) {
        let us = Nanos::from_micros;
        let comes: Vec<(Nanos, Nanos)> = comes_us.iter().map(|(at, due)| (us(*at), us(*due))).collect();
        let replies = replies_us.iter().map(|after| answer(us(*after)));
        let (found, opened) = window_of(40, script(replies), comes.clone());
        prop_assert_eq!(found.len(), comes.len());
        for ((id, finished), (at, due)) in (0..).zip(&found).zip(comes) {
            prop_assert_eq!((finished.job, finished.ending, finished.due.at), (id, Ending::Complete, opened + due));
            prop_assert!(submit(finished) >= opened + due.max(at));
            prop_assert!(submit(finished) <= opened + due.max(at) + SEEN_WITHIN);
        }
    }
}
