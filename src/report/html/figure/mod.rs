//! Figures: what is to be seen, in words; the picture; the table behind it.

mod bars;
mod canvas;
mod distribution;
mod health;
mod heatmap;
mod line;
mod noise;
mod search;
mod timeline;
mod turns;

pub(super) use bars::by_class;
pub(super) use distribution::distributions;
pub(super) use health::health;
pub(super) use heatmap::heatmap;
pub(super) use line::over_load;
pub(super) use noise::noise;
pub(super) use search::of_search;
pub(super) use timeline::timeline;
pub(super) use turns::{tokens_by_turn, ttft_by_turn};

use maud::{Markup, PreEscaped, html};

/// How much is told of a window: less where there are many, so that the page stays small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// All of it.
    Fine,
    /// Every picture, from fewer parts.
    Coarse,
    /// Tables, no picture.
    Tables,
}

impl Detail {
    /// The first where it is fine, else the second.
    fn of(self, (fine, coarse): (usize, usize)) -> usize {
        if self == Detail::Fine { fine } else { coarse }
    }
}

/// A figure.
pub(super) struct Figure {
    /// What it is, in bold.
    pub(super) title: String,
    /// What is to be seen, and how it is drawn.
    pub(super) finding: String,
    /// The picture.
    pub(super) svg: String,
    /// The table behind it. A row that belongs to a place of the picture says so, see [`place`].
    pub(super) table: Markup,
    /// Whether the places of its rows lie along y.
    pub(super) rows_lie_along_y: bool,
}

impl Figure {
    pub(super) fn markup(&self) -> Markup {
        html! {
            figure {
                figcaption { b { (self.title) ". " } (self.finding) }
                div class="plot" data-y[self.rows_lie_along_y] { (PreEscaped(&self.svg)) }
                p class="read" role="status" {}
                details { summary { "The figures behind it" } div class="scroll" tabindex="0" { (self.table) } }
            }
        }
    }
}

/// In place of a picture that would show what is withheld or not there.
pub(super) fn none(title: &str, why: &str) -> Markup {
    html! { p class="none" { b { (title) ". " } (why) } }
}

/// Where a row lies in its picture, in whole px.
pub(super) fn place(px: f64) -> String {
    format!("{px:.0}")
}
