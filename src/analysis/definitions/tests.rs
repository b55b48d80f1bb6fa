use super::*;
use crate::analysis::specimen::{MS, US, request, stamp};

fn net<T>(lo: T, at: T, hi: T) -> Option<Net<T>> {
    Some(Net { lo, at, hi })
}

#[test]
fn every_metric_of_a_request_by_hand() {
    let row = request(1, MS);
    // seen 6.040 ms, submit 1.010 ms; arrived 6.025, wire 1.025
    let expected = Columns {
        gross: Some(5_030_000),
        tare: Some(25_000),
        net: net(5_000_000, 5_000_000, 5_000_000),
        due: Some(5_040_000),
    };
    assert_eq!(ttft(&row), expected);
    let e2e = e2e(&row);
    assert_eq!((e2e.gross, e2e.tare, e2e.net), (Some(8_130_000), Some(125_000), net(8_000_000, 8_000_000, 8_000_000)));
    let found: Vec<_> = gaps(&row).map(|g| (g.gross, g.tare, g.net.map(|n| n.at))).collect();
    assert_eq!(found, [(Some(1_000_000), Some(0), Some(1_000_000)), (Some(2_100_000), Some(100_000), Some(2_000_000))]);
    assert_eq!(stall(&row).gross, Some(2_100_000));
    assert_eq!(tpot(&row).gross, Some(1_550_000.0));
    assert_eq!(tpot(&row).net, net(1_500_000.0, 1_500_000.0, 1_500_000.0));
    assert_eq!(tpot_adj(&row), tpot(&row));
    assert_eq!(ntpot(&row).gross, Some(8_130_000.0 / 3.0));
    assert_eq!(upload(&row), Some(5_000));
    assert_eq!(lateness(row.due, first_action(&row).unwrap(), None), 10_000);
}

#[test]
fn gross_is_tare_and_upload_and_net() {
    let row = request(1, MS);
    for metric in [ttft, ttfo, e2e] {
        let c = metric(&row);
        assert_eq!(c.gross.unwrap(), c.tare.unwrap() + upload(&row).unwrap() + c.net.unwrap().at);
    }
    assert!(gaps(&row).all(|c| c.gross.unwrap() == c.tare.unwrap() + c.net.unwrap().at));
}

#[test]
fn a_gap_has_two_ends() {
    let mut row = request(1, MS);
    // the first token may have come 300 us earlier, the second 200 us
    row.chunks[0].2 = row.chunks[0].1.map(|t| t - 300 * US);
    row.chunks[1].2 = row.chunks[1].1.map(|t| t - 200 * US);
    let first = gaps(&row).next().unwrap();
    assert_eq!(first.net, net(800_000, 1_000_000, 1_300_000));
    assert_eq!(first.tare, Some(0));
}

#[test]
fn the_low_end_is_not_clamped() {
    let mut row = request(1, MS);
    row.chunks[1].2 = row.chunks[0].1.map(|t| t - MS);
    assert_eq!(gaps(&row).next().unwrap().net.unwrap().lo, -1_000_000);
}

#[test]
fn events_of_one_read_have_no_gap() {
    let mut row = request(1, MS);
    row.chunks[1].4 = 0;
    let found: Vec<_> = gaps(&row).map(|g| g.gross.unwrap()).collect();
    assert_eq!(found, [2_100_000]);
    assert_eq!(coalesced(&row), 2);
    row.chunks[2].4 = 0;
    assert_eq!((gaps(&row).count(), stall(&row), tpot(&row).gross), (0, Columns::UNDEFINED, None));
    assert_eq!(coalesced(&row), 3);
}

#[test]
fn choices_are_apart() {
    let mut row = request(1, MS);
    row.chunks[1].5 = 1;
    let found: Vec<_> = gaps(&row).map(|g| g.gross.unwrap()).collect();
    assert_eq!(found, [3_100_000]);
    assert!([tpot(&row), tpot_adj(&row), ntpot(&row)].iter().all(|c| c.gross.is_none()));
}

#[test]
fn what_is_not_known_is_none() {
    let mut row = request(1, MS);
    row.chunks[0].3 = None;
    assert_eq!(tpot_adj(&row).gross, None);
    row.chunks[0].3 = Some(3);
    assert_eq!(tpot_adj(&row).gross, None, "N <= n1");
    row.completion_tokens = Some(1);
    assert_eq!(tpot(&row).gross, None);
    row.completion_tokens = Some(0);
    assert_eq!(ntpot(&row).gross, None);
    row.first_answer = None;
    assert_eq!(ttfo(&row), Columns::UNDEFINED);
    row.wire_out = None;
    let ttft = ttft(&row);
    assert_eq!((ttft.gross, ttft.tare, ttft.net), (Some(5_030_000), None, None));
    assert!(lacks_stamps(&row));
}

#[test]
fn answered_before_it_was_sent_has_no_net() {
    let mut row = request(1, MS);
    row.sent = row.first_byte.map(|s| s.seen + 1);
    assert_eq!((ttft(&row).net, stall(&row).net, tpot(&row).net), (None, None, None));
    assert!(ttft(&row).gross.is_some());
    assert!(!lacks_stamps(&row), "no stamp is missing: there is nothing to subtract");
    row.sent = None;
    assert_eq!(ttft(&row).net, None);
}

/// A server that takes a request, says nothing and closes: what it took is not the client's lateness.
#[test]
fn the_first_try_is_the_first_action() {
    let mut row = request(0, 1_000);
    let submit = row.submit.unwrap();
    (row.retries, row.taken, row.submit) = (1, Some(submit), Some(submit + 400_000_000));
    assert_eq!(first_action(&row), Some(submit));
    row.retries = 0;
    assert_eq!(first_action(&row), Some(submit + 400_000_000));
}

#[test]
fn opening_a_connection_is_the_first_action() {
    let mut row = request(1, MS);
    (row.connect, row.tls) = (Some(3_000), Some(4_000));
    assert_eq!(lateness(row.due, first_action(&row).unwrap(), None), 3_000);
    // held back by a cap until 4 us after due
    assert_eq!(lateness(row.due, first_action(&row).unwrap(), Some(row.due + 4_000)), -1_000);
    assert_eq!((dispatch_delay(row.due, row.due + 4_000), dispatch_delay(row.due, 0)), (4_000, 0));
}

#[test]
fn tokens_that_are_known_in_sum_are_spread_evenly() {
    let mut row = request(1, MS);
    row.completion_tokens = Some(9);
    let between = |row: &Row, from, to| load::TokenTrail::of(row).between(from, to);
    assert_eq!(between(&row, 0, 7_025_000), Some(2.0), "one in each event");
    row.chunks[1].3 = None;
    assert_eq!(between(&row, 0, 7_025_000), Some(6.0), "three in each event");
    row.completion_tokens = None;
    assert_eq!(between(&row, 0, 7_025_000), None);
    row.chunks.clear();
    (row.completion_tokens, row.last_token) = (Some(9), Some(stamp(5, 1)));
    assert_eq!(between(&row, 5, 5), Some(9.0), "not streamed: at the end");
}

#[test]
fn the_published_noise() {
    assert!((noise_gap(822.3, 634.4).unwrap() - 0.258).abs() < 0.0005);
    assert!((noise_gap(202.1, 192.0).unwrap() - 0.051).abs() < 0.0005);
}
