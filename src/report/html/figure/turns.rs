//! Turn by turn: time to first token beside the prompt that it had to read and what of it was cached.

use maud::{Markup, html};

use super::canvas::{Canvas, Plot};
use super::{Figure, none, place};
use crate::report::axis::{Axis, Scale, px};
use crate::report::intervals::interval;
use crate::report::quantity::{count, latency, percent, percentile, stamps_bound};
use crate::report::sessions::{noun, parts, tokens};
use crate::rundir::run_json::Distribution;
use crate::rundir::sessions::{Sessions, TurnFigures};

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 300.0;
const PLOT: Plot = Plot { left: 52.0, right: 500.0, top: 32.0, bottom: 252.0 };
/// Turns drawn; more stand in the Markdown report.
const MOST: usize = 200;
/// Rows of the tables behind the pictures.
const ROWS: usize = 60;
const DRAWN: [&str; 2] = ["p50", "p95"];

/// The turns that are drawn, and where along x.
fn places(found: &Sessions) -> (Vec<&TurnFigures>, Axis) {
    let turns: Vec<&TurnFigures> = found.by_turn.iter().take(MOST).collect();
    let inner = (PLOT.left + 26.0, PLOT.right - 26.0);
    let last = turns.last().map_or(1.0, |turn| f64::from(turn.turn));
    let x = if last > 1.0 { Axis::between(1.0, last, inner) } else { Axis::between(0.0, 2.0, inner) };
    (turns, x)
}

fn turns_below(canvas: &mut Canvas, called: &str, turns: &[&TurnFigures], x: &Axis) {
    let labels: Vec<(f64, String)> =
        turns.iter().map(|turn| (x.px(f64::from(turn.turn)), turn.turn.to_string())).collect();
    canvas.x_labels(&PLOT, &labels, called);
}

/// Gross where it may be told in every turn, else net.
fn column(found: &Sessions) -> (fn(&TurnFigures) -> Option<&Distribution>, &'static str) {
    let told = |of: fn(&TurnFigures) -> Option<&Distribution>| {
        found.by_turn.iter().any(|turn| of(turn).is_some_and(|d| d.p50_ms.is_some()))
    };
    match told(|turn| turn.ttft.gross.as_ref()) || !told(|turn| turn.ttft.net.as_ref()) {
        true => (|turn| turn.ttft.gross.as_ref(), "Gross, from the send."),
        false => (|turn| turn.ttft.net.as_ref(), "Net, from the wire: the client was not fit to tell gross."),
    }
}

/// Median and 95th percentile of the time to first token of each turn.
pub(in crate::report::html) fn ttft_by_turn(found: &Sessions) -> Markup {
    let called = parts(found.kind, 1);
    let title = &format!("Time to first token by {called}");
    let (turns, x) = places(found);
    let (of, clock) = column(found);
    let point = |turn: &TurnFigures, p: &str| {
        let d = of(turn)?;
        let ms = d.percentile(p).filter(|ms| ms.is_finite())?;
        Some((ms, stamps_bound(d, p).map(|(lo, hi)| [lo, hi]).or(d.ci_ms.get(p).copied())))
    };
    let all: Vec<Vec<_>> =
        DRAWN.iter().map(|p| turns.iter().map(|turn| (turn.turn, point(turn, p))).collect()).collect();
    let known = all.iter().flatten().filter_map(|(_, point)| *point);
    let ends: Vec<f64> =
        known.flat_map(|(ms, ends)| [Some(ms), ends.map(|e| e[0]), ends.map(|e| e[1])]).flatten().collect();
    if ends.is_empty() {
        return none(title, &format!("Withheld, or no values, in every {called}: nothing may be drawn."));
    }
    let y = Axis::fitting(ends.into_iter(), PLOT.up());
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    canvas.y_axis(&PLOT, &y, if y.scale == Scale::Linear { "ms" } else { "ms, log scale" });
    turns_below(&mut canvas, called, &turns, &x);
    let mut labels = Vec::new();
    for (series, points) in all.iter().enumerate() {
        let at = |turn: u32| x.px(f64::from(turn)) + if series == 0 { -2.0 } else { 2.0 };
        let path: Vec<_> = points.iter().map(|(turn, point)| point.map(|(ms, _)| (at(*turn), y.px(ms)))).collect();
        canvas.line(&format!("l l{series}"), &path);
        let whiskers = points.iter().filter_map(|(turn, point)| Some((at(*turn), (*point)?.1?)));
        let whiskers: String =
            whiskers.map(|(x, [lo, hi])| format!("M{} {}V{}", px(x), px(y.px(lo)), px(y.px(hi)))).collect();
        canvas.path(&format!("w w{series}"), &whiskers);
        if points.len() <= ROWS {
            canvas.marks(series, "", path.iter().flatten().copied());
        }
        let last = points.iter().rev().find_map(|(turn, point)| Some((*turn, (*point)?.0)));
        labels.extend(
            last.map(|(turn, ms)| (series, "", at(turn), y.px(ms), format!("{} {}", DRAWN[series], latency(ms)))),
        );
    }
    canvas.ends(&PLOT, labels);
    let medians: Vec<(u32, f64)> = all[0].iter().filter_map(|(turn, point)| Some((*turn, (*point)?.0))).collect();
    let goes = match (medians.first(), medians.last()) {
        (Some((first, from)), Some((last, to))) if first != last && (from - to).abs() <= 0.05 * from => {
            format!(
                "The median is nearly the same at {called} {first} and at {called} {last}: {} and {}.",
                latency(*from),
                latency(*to)
            )
        }
        (Some((first, from)), Some((last, to))) if first != last => {
            format!(
                "The median goes from {} at {called} {first} to {} at {called} {last}.",
                latency(*from),
                latency(*to)
            )
        }
        (Some((turn, ms)), _) => format!("The median is {} at {called} {turn}.", latency(*ms)),
        _ => String::new(),
    };
    let one = noun(found.kind).trim_end_matches('s');
    let finding = format!(
        "{goes} {clock} Whiskers are 95 % intervals, where n allows one; {} of a {one} hang together.",
        parts(found.kind, 2)
    );
    let table = html! {
        table class="sort" {
            thead { tr { th scope="col" { (called) } th scope="col" { "n" } th scope="col" { "p50" } th scope="col" { "95 % interval" } th scope="col" { "p95" } th scope="col" { "95 % interval" } } }
            tbody {
                @for turn in turns.iter().take(ROWS) {
                    tr data-x=(place(x.px(f64::from(turn.turn)))) {
                        th scope="row" { (turn.turn) }
                        td { (of(turn).map_or_else(|| "-".to_owned(), |d| count(d.n))) }
                        @for p in DRAWN {
                            td { (percentile(of(turn), p)) }
                            td { (interval(of(turn), p).unwrap_or_else(|| "-".to_owned())) }
                        }
                    }
                }
            }
        }
    };
    let svg = canvas.finish(title, &finding);
    Figure { title: title.to_owned(), finding, svg, table, rows_lie_along_y: false }.markup()
}

/// Mean prompt of each turn by the server's count, and how much of it the server found in its cache.
pub(in crate::report::html) fn tokens_by_turn(found: &Sessions) -> Markup {
    let called = parts(found.kind, 1);
    let title = &format!("Prompt tokens by {called}");
    let (turns, x) = places(found);
    let largest = turns.iter().filter_map(|turn| turn.prompt_tokens_mean).fold(0.0, f64::max);
    if turns.iter().all(|turn| turn.prompt_tokens_mean.is_none()) {
        return none(title, "The server told no count of prompt tokens.");
    }
    let y = Axis::from_zero(largest, PLOT.up());
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    canvas.y_axis(&PLOT, &y, "tokens");
    turns_below(&mut canvas, called, &turns, &x);
    let step = (PLOT.right - PLOT.left - 52.0) / turns.len() as f64;
    let wide = (step * 0.7).clamp(1.0, 44.0);
    for turn in &turns {
        let left = x.px(f64::from(turn.turn)) - wide / 2.0;
        let means = [turn.prompt_tokens_mean, turn.cached_tokens_mean];
        for (series, mean) in means.into_iter().enumerate().filter_map(|(series, mean)| Some((series, mean?))) {
            // the cached ones lie in the prompt
            let (left, wide) = if series == 0 { (left, wide) } else { (left + wide * 0.15, wide * 0.7) };
            canvas.rect(&format!("bar{}", 1 - series), left, y.px(mean), wide, PLOT.bottom - y.px(mean));
        }
    }
    let label = |series: usize, name: &str, of: fn(&TurnFigures) -> Option<f64>| {
        let (turn, mean) = turns.iter().rev().find_map(|turn| Some((turn.turn, of(turn)?)))?;
        Some((series, "", x.px(f64::from(turn)) + wide / 2.0, y.px(mean), format!("{name} {}", tokens(Some(mean)))))
    };
    let labels =
        [label(1, "prompt", |turn| turn.prompt_tokens_mean), label(0, "cached", |turn| turn.cached_tokens_mean)];
    canvas.ends(&PLOT, labels.into_iter().flatten().collect());
    let ends = (turns.first().copied(), turns.last().copied());
    let grows = match ends {
        (Some(first), Some(last)) if first.turn != last.turn => {
            match (tokens(first.prompt_tokens_mean), tokens(last.prompt_tokens_mean)) {
                (from, to) if from == to => {
                    format!("The prompt is of {from} tokens at {called} {} and at {called} {}.", first.turn, last.turn)
                }
                (from, to) => {
                    let (first, last) = (first.turn, last.turn);
                    format!("The prompt grows from {from} tokens at {called} {first} to {to} at {called} {last}.")
                }
            }
        }
        (Some(only), _) => format!("The prompt is of {} tokens.", tokens(only.prompt_tokens_mean)),
        _ => String::new(),
    };
    let cached = match ends.1.and_then(|last| Some((last.turn, last.cached_share?))) {
        Some((turn, share)) => {
            format!("The server found {} of it in its cache at {called} {turn}.", percent(Some(share)))
        }
        None => "The server does not tell what of it was cached, which does not mean 0.".to_owned(),
    };
    let finding = format!("{grows} {cached} Means by the server's count; cached stands inside the prompt.");
    let table = html! {
        table class="sort" {
            thead { tr { th scope="col" { (called) } th scope="col" { "prompt" } th scope="col" { "cached" } th scope="col" { "share" } th scope="col" { "completion" } } }
            tbody {
                @for turn in turns.iter().take(ROWS) {
                    tr data-x=(place(x.px(f64::from(turn.turn)))) {
                        th scope="row" { (turn.turn) }
                        td { (tokens(turn.prompt_tokens_mean)) } td { (tokens(turn.cached_tokens_mean)) }
                        td { (percent(turn.cached_share)) } td { (tokens(turn.completion_tokens_mean)) }
                    }
                }
            }
        }
    };
    let svg = canvas.finish(title, &finding);
    Figure { title: title.to_owned(), finding, svg, table, rows_lie_along_y: false }.markup()
}
