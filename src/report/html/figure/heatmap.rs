//! When gaps of which length ended.

use std::fmt::Write;

use maud::{Markup, html};

use super::canvas::{Canvas, Plot};
use super::{Detail, Figure, none, place};
use crate::analysis::exhibits::{GAP_ROWS, WindowExhibits};
use crate::report::axis::{Axis, Scale, px};
use crate::report::quantity::{between, count, percent};
use crate::rundir::run_json::Window;

const PLOT: Plot = Plot { left: 52.0, right: 850.0, top: 32.0, bottom: 212.0 };
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 252.0;
/// Shades, by halvings of the fullest cell.
const SHADES: usize = 6;
/// Rows of the table, fine and coarse.
const MOST_ROWS: (usize, usize) = (24, 8);
/// Columns of the picture.
const MOST_COLUMNS: (usize, usize) = (120, 36);

/// The picture; gaps are gross, and where that is withheld there is none.
pub(in crate::report::html) fn heatmap(window: &Window, exhibits: &WindowExhibits, detail: Detail) -> Markup {
    let (most_columns, most_rows) = (detail.of(MOST_COLUMNS), detail.of(MOST_ROWS));
    let title = "Gaps in time".to_owned();
    let map = &exhibits.gap_map;
    match &window.metrics.gap.gross {
        Some(gross) if gross.p50_ms.is_some() => {}
        Some(gross) if gross.n > 0 => {
            return none(&title, "Withheld: gaps as the client saw them may not be shown for this window.");
        }
        _ => return none(&title, "There are no gaps: no answer came in two reads."),
    }
    let (floor, ceiling) = (map.floor_ms, map.ceiling_ms);
    let columns = merged(&map.columns, most_columns);
    let fullest = columns.iter().flatten().copied().max().unwrap_or(0);
    if fullest == 0 || floor <= 0.0 || ceiling <= floor || exhibits.duration_s <= 0.0 {
        return none(&title, "There are no gaps to draw.");
    }
    let end = exhibits.duration_s;
    let x = Axis::between(0.0, end, PLOT.across());
    let y = Axis { scale: Scale::Log, from: floor.log10(), to: ceiling.log10(), at: PLOT.up() };
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    canvas.y_axis(&PLOT, &y, "length of the gap, ms, log scale");
    // a column is as wide as the slices in it; the grid's unit is one cell
    let slices = map.columns.len().max(1);
    let each = slices.div_ceil(most_columns.max(1));
    let wide = (x.px((exhibits.slice_s * each as f64).min(end)) - PLOT.left).max(0.5);
    let high = (PLOT.bottom - PLOT.top) / GAP_ROWS as f64;
    let mut layers = String::new();
    for shade in 0..SHADES {
        let mut d = String::new();
        for row in 0..GAP_ROWS {
            let shades: Vec<Option<usize>> = columns.iter().map(|c| shade_of(c[row], fullest)).collect();
            let mut at = 0;
            while at < shades.len() {
                let run = shades[at..].iter().take_while(|s| **s == Some(shade)).count();
                if run > 0 {
                    let _ = write!(d, "M{at} {}h{run}", GAP_ROWS - 1 - row);
                }
                at += run.max(1);
            }
        }
        if !d.is_empty() {
            let _ = write!(layers, "<path class=\"h h{shade}\" d=\"{d}\"/>");
        }
    }
    canvas.group(PLOT.left, PLOT.top + high / 2.0, wide, high, &layers);
    canvas.seconds(&PLOT, &x, "");
    canvas.text(PLOT.right, PLOT.bottom + 34.0, "s e", "s from the window's opening");
    let mut at = PLOT.top + 4.0;
    canvas.text(PLOT.right + 12.0, at, "s", "gaps in a cell");
    let used = |shade: &usize| columns.iter().flatten().any(|n| shade_of(*n, fullest) == Some(*shade));
    let used: Vec<usize> = (0..SHADES).filter(used).collect();
    for &shade in used.iter().rev() {
        at += 18.0;
        canvas.path(&format!("h h{shade} key"), &format!("M{} {}h14", px(PLOT.right + 12.0), px(at)));
        let least = fullest >> (2 * (SHADES - 1 - shade) + 2);
        let words = if Some(&shade) == used.first() { "1 or more".to_owned() } else { format!("> {}", count(least)) };
        canvas.text(PLOT.right + 32.0, at + 4.0, "s", &words);
    }
    let band = |row: usize| {
        let edge = |row: usize| floor * (ceiling / floor).powf(row as f64 / GAP_ROWS as f64);
        [edge(row), edge(row + 1)]
    };
    let in_row = |row: usize| columns.iter().map(|c| c[row]).sum::<u64>();
    let all: u64 = (0..GAP_ROWS).map(in_row).sum();
    let densest = (0..GAP_ROWS).max_by_key(|row| in_row(*row)).unwrap_or(0);
    let longest = (0..GAP_ROWS).rfind(|row| in_row(*row) > 0).unwrap_or(0);
    let coalesced = match window.coalesced_share {
        Some(share) if share >= 0.05 => {
            format!(" {} of the token events share a read with another and have no gap here.", percent(Some(share)))
        }
        _ => String::new(),
    };
    let finding = format!(
        "{} gaps (gross); {} of them lie in the band {}, the longest in {}.{coalesced} The stronger the shade of a cell, the more gaps ended there then; each shade is four times the one below.",
        count(all),
        percent(Some(in_row(densest) as f64 / all as f64)),
        between(band(densest)),
        between(band(longest)),
    );
    let rows = merged(&map.columns, most_rows);
    let per_row = slices.div_ceil(most_rows).max(1) as f64 * exhibits.slice_s;
    let table = html! {
        table {
            thead { tr { th scope="col" { "from" } th scope="col" { "gaps" } th scope="col" { "fullest band" } th scope="col" { "in it" } th scope="col" { "longest in" } } }
            tbody {
                @for (i, column) in rows.iter().enumerate() {
                    @let sum: u64 = column.iter().sum();
                    @let fullest = (0..GAP_ROWS).max_by_key(|row| column[*row]).unwrap_or(0);
                    @let longest = (0..GAP_ROWS).rfind(|row| column[*row] > 0);
                    tr data-x=(place(x.px((i as f64 + 0.5) * per_row))) {
                        th scope="row" { (format!("{:.2} s", i as f64 * per_row)) }
                        td { (count(sum)) }
                        @if let Some(longest) = longest {
                            td { (between(band(fullest))) } td { (count(column[fullest])) } td { (between(band(longest))) }
                        } @else { td { "-" } td { "-" } td { "-" } }
                    }
                }
            }
        }
    };
    let svg = canvas.finish(&title, &finding);
    Figure { title, finding, svg, table, rows_lie_along_y: false }.markup()
}

/// The darkest holds more than a quarter of the fullest cell, each below a quarter of that; the lightest all the rest.
fn shade_of(n: u64, fullest: u64) -> Option<usize> {
    if n == 0 {
        return None;
    }
    let above = (1..SHADES).rfind(|shade| n > fullest >> (2 * (SHADES - 1 - shade) + 2));
    Some(above.unwrap_or(0))
}

/// Neighbouring columns added up, so that there are at most `most`.
fn merged(columns: &[Vec<u64>], most: usize) -> Vec<[u64; GAP_ROWS]> {
    let each = columns.len().div_ceil(most.max(1)).max(1);
    let add = |mut sum: [u64; GAP_ROWS], column: &Vec<u64>| {
        sum.iter_mut().zip(column).for_each(|(s, n)| *s += n);
        sum
    };
    columns.chunks(each).map(|group| group.iter().fold([0; GAP_ROWS], add)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_are_by_quarters_and_nothing_has_none() {
        let shades: Vec<Option<usize>> = [0, 1, 2, 200, 257, 1024].map(|n| shade_of(n, 1024)).to_vec();
        assert_eq!(shades, [None, Some(0), Some(1), Some(4), Some(5), Some(5)]);
        assert_eq!(shade_of(1, 1), Some(5));
    }

    #[test]
    fn merging_loses_no_gap() {
        let columns: Vec<Vec<u64>> = (0..7).map(|i| vec![i; GAP_ROWS]).collect();
        let found = merged(&columns, 3);
        assert_eq!(found.iter().map(|c| c[0]).collect::<Vec<_>>(), [3, 12, 6]);
    }
}
