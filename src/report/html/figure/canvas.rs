//! What is drawn: SVG in the colours of the page.

use std::fmt::Write;

use crate::report::axis::{Axis, Scale, apart, escaped, px, tick};

/// A picture that is being drawn. Colours, dashes and letters are classes of the page's style.
pub(super) struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

/// Appends; writing to a String cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => { let _ = write!($out.body, $($arg)*); };
}

/// Where a plot lies in it.
#[derive(Clone, Copy)]
pub(super) struct Plot {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Plot {
    /// For [`Axis`]: along x.
    pub(super) fn across(&self) -> (f64, f64) {
        (self.left, self.right)
    }

    /// From the bottom up.
    pub(super) fn up(&self) -> (f64, f64) {
        (self.bottom, self.top)
    }
}

impl Canvas {
    pub(super) fn new(width: f64, height: f64) -> Canvas {
        Canvas { width, height, body: String::new() }
    }

    /// Words; `class` is `e` where they end at x, `m` where x is their middle.
    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, words: &str) {
        put!(self, "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>", px(x), px(y), escaped(words));
    }

    /// Words of one kind, each at its place.
    fn texts(&mut self, class: &str, all: impl Iterator<Item = (f64, f64, String)>) {
        let words =
            all.map(|(x, y, words)| format!("<text x=\"{}\" y=\"{}\">{}</text>", px(x), px(y), escaped(&words)));
        let words: String = words.collect();
        if !words.is_empty() {
            put!(self, "<g class=\"{class}\">{words}</g>");
        }
    }

    pub(super) fn path(&mut self, class: &str, d: &str) {
        if !d.is_empty() {
            put!(self, "<path class=\"{class}\" d=\"{d}\"/>");
        }
    }

    pub(super) fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        let (x, y, width, height) = (px(x), px(y), px(width.max(0.0)), px(height.max(0.0)));
        put!(self, "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>");
    }

    /// Lines across a plot at the ticks of its y axis, with their figures and the axis' title above.
    pub(super) fn y_axis(&mut self, plot: &Plot, axis: &Axis, title: &str) {
        let ticks = axis.ticks(26.0);
        let lines: String =
            ticks.iter().map(|v| format!("M{} {}H{}", px(plot.left), px(axis.px(*v)), px(plot.right))).collect();
        self.path("g", &lines);
        self.texts("s e", ticks.into_iter().map(|v| (plot.left - 6.0, axis.px(v) + 4.0, tick(v))));
        self.text(0.0, plot.top - 10.0, "s", title);
    }

    /// Short strokes below a plot with their words; a label that would cover the one before is left out.
    pub(super) fn x_labels(&mut self, plot: &Plot, labels: &[(f64, String)], title: &str) {
        let mut strokes = format!("M{} {}H{}", px(plot.left), px(plot.bottom), px(plot.right));
        let mut taken = f64::NEG_INFINITY;
        let mut shown = Vec::new();
        for (at, words) in labels {
            let half = words.chars().count() as f64 * 3.6;
            if at - half < taken {
                continue;
            }
            taken = at + half + 6.0;
            let _ = write!(strokes, "M{} {}v5", px(*at), px(plot.bottom));
            shown.push((*at, plot.bottom + 18.0, words.clone()));
        }
        self.texts("s m", shown.into_iter());
        self.path("ax", &strokes);
        if !title.is_empty() {
            self.text(plot.right, plot.bottom + 36.0, "s e", title);
        }
    }

    /// Along the time of a window.
    pub(super) fn seconds(&mut self, plot: &Plot, axis: &Axis, title: &str) {
        let labels: Vec<(f64, String)> = axis.ticks(70.0).into_iter().map(|t| (axis.px(t), tick(t))).collect();
        self.x_labels(plot, &labels, title);
    }

    /// A line through points in px, broken where there is None. Steps are relative: most of a page's bytes are here.
    pub(super) fn line(&mut self, class: &str, points: &[Option<(f64, f64)>]) {
        self.path(class, &line(points));
    }

    /// What is drawn on a grid whose cells are `wide` and `high`, from its corner at x, y. `inner` is SVG of our own.
    pub(super) fn group(&mut self, x: f64, y: f64, wide: f64, high: f64, inner: &str) {
        put!(self, "<g transform=\"translate({} {}) scale({wide:.4} {high:.4})\">{inner}</g>", px(x), px(y));
    }

    /// Marks of one series: a circle, a square, a diamond or a triangle.
    pub(super) fn marks(&mut self, series: usize, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let shape =
            ["m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "m-3.5-3.5h7v7h-7z", "m0-5l5 5l-5 5l-5-5z", "m0-4.6l4.4 8h-8.8z"];
        let d: String = points.map(|(x, y)| format!("M{} {}{}", px(x), px(y), shape[series % 4])).collect();
        self.path(&format!("f{} {class}", series % 4), &d);
    }

    /// Words at the ends of lines, `(series, class, x, y, words)`, moved apart where they would cover each other.
    pub(super) fn ends(&mut self, plot: &Plot, mut ends: Vec<(usize, &str, f64, f64, String)>) {
        ends.sort_by(|a, b| a.3.total_cmp(&b.3));
        let wanted: Vec<f64> = ends.iter().map(|e| e.3).collect();
        let places = apart(&wanted, plot.top, plot.bottom);
        for ((series, class, x, y, words), at) in ends.into_iter().zip(places) {
            if (at - y).abs() > 3.0 || plot.right - x > 4.0 {
                let d = format!("M{} {}L{} {}", px(x + 5.0), px(y), px(plot.right + 9.0), px(at));
                self.path(&format!("ld {class}"), &d);
            }
            self.text(plot.right + 11.0, at + 4.0, &format!("t{series} {class}"), &words);
        }
    }

    /// The picture; `title` names it for those who cannot see it, the first sentence of `finding` tells what is to be
    /// seen. The rest stands in the caption.
    pub(super) fn finish(self, title: &str, finding: &str) -> String {
        let first = finding.find(". ").map_or(finding, |at| &finding[..=at]);
        let (title, description) = (escaped(title), escaped(first));
        format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\"><title>{title}</title><desc>{description}</desc>{}</svg>",
            px(self.width),
            px(self.height),
            self.body
        )
    }
}

/// A path through points, broken at None; a lone point is a short stroke.
pub(super) fn line(points: &[Option<(f64, f64)>]) -> String {
    let tenths = |v: f64| (v * 10.0).round() as i64;
    let mut d = String::new();
    let mut before: Option<(i64, i64)> = None;
    for (i, point) in points.iter().enumerate() {
        let Some((x, y)) = point.map(|(x, y)| (tenths(x), tenths(y))) else {
            before = None;
            continue;
        };
        match before {
            None => {
                let _ = write!(d, "M{} {}", tenth(x), tenth(y));
                if points.get(i + 1).is_none_or(|next| next.is_none()) {
                    d.push_str("h1");
                }
            }
            Some((_, was)) if was == y => {
                let _ = write!(d, "h{}", tenth(x - before.map_or(0, |b| b.0)));
            }
            Some((left, was)) => {
                let dy = tenth(y - was);
                let space = if dy.starts_with('-') { "" } else { " " };
                let _ = write!(d, "l{}{space}{dy}", tenth(x - left));
            }
        }
        before = Some((x, y));
    }
    d
}

fn tenth(tenths: i64) -> String {
    px(tenths as f64 / 10.0)
}

/// The words of a percentile axis.
pub(super) fn percentile_labels(axis: &Axis) -> Vec<(f64, String)> {
    debug_assert_eq!(axis.scale, Scale::Percentile);
    let digits = |p: f64| {
        let text = format!("{p:.5}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    axis.ticks(1.0).into_iter().map(|p| (axis.px(p), digits(p))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_short_and_broken_where_nothing_is_known() {
        let points = [Some((10.0, 5.0)), Some((12.0, 5.0)), Some((14.04, 1.25)), None, Some((20.0, 3.0)), None];
        assert_eq!(line(&points), "M10 5h2l2-3.7M20 3h1");
        assert_eq!(line(&[None]), "");
    }

    #[test]
    fn words_are_escaped() {
        let mut canvas = Canvas::new(10.0, 10.0);
        canvas.text(1.0, 2.0, "s", "<script>");
        let svg = canvas.finish("a \"b\" </title>", "d]]>");
        assert!(svg.contains("&lt;script&gt;") && svg.contains("&lt;/title&gt;</title>"), "{svg}");
    }
}
