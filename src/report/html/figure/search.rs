//! What a search saw, over load: time to first token, share within the goals, throughput. A mark is a window; the line
//! joins the means of the windows of each load.

use maud::{Markup, html};

use super::canvas::{Canvas, Plot};
use super::{Figure, none, place};
use crate::analysis::saturation::search::Answer;
use crate::cli::saturate::Over;
use crate::goals::RequestMetric;
use crate::report::axis::{Axis, Scale, px};
use crate::report::quantity::{latency, percent, rate};
use crate::report::saturation;
use crate::saturate::document::Document;
use crate::saturate::window::Figures;

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 330.0;
const PLOT: Plot = Plot { left: 52.0, right: 490.0, top: 46.0, bottom: 282.0 };
/// Line of the names of loads, above the title of the upright axis.
const NAMES: f64 = 18.0;

/// Windows on one axis of loads.
struct Curve<'a> {
    document: &'a Document,
    /// Those that speak of the server, ascending by load.
    windows: Vec<(f64, &'a Figures)>,
    x: Axis,
}

/// The pictures of a search.
pub(in crate::report::html) fn of_search(document: &Document) -> Markup {
    let Some(curve) = Curve::of(document) else {
        return none("Over load", "No window in which the client was fit had a load of its own.");
    };
    html! {
        div class="pair" {
            (curve.within_goals())
            (curve.time_to_first_token())
            (curve.throughput())
        }
    }
}

impl<'a> Curve<'a> {
    fn of(document: &'a Document) -> Option<Curve<'a>> {
        let all = document.steps.iter().chain(&document.points);
        let fit = all.filter(|f| !matches!(f.answer, Answer::Client(_)));
        let mut windows: Vec<(f64, &Figures)> = fit.filter_map(|f| Some((f.load?, f))).collect();
        windows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (first, last) = (windows.first()?.0, windows.last()?.0);
        let inner = (PLOT.left + 20.0, PLOT.right - 20.0);
        let x = Axis::of_loads(first, last, inner);
        Some(Curve { document, windows, x })
    }

    /// x, in px, of each window that has the figure, and the figure.
    fn points(&self, of: impl Fn(&Figures) -> Option<f64>) -> Vec<(f64, f64)> {
        let known = self.windows.iter().filter_map(|(load, f)| Some((*load, of(f).filter(|v| v.is_finite())?)));
        known.collect()
    }

    /// The mean of the windows of each load.
    fn means(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let mut means: Vec<(f64, f64, f64)> = Vec::new();
        for (load, value) in points {
            match means.last_mut().filter(|(known, _, _)| known == load) {
                Some((_, sum, n)) => (*sum, *n) = (*sum + value, *n + 1.0),
                None => means.push((*load, *value, 1.0)),
            }
        }
        means.into_iter().map(|(load, sum, n)| (load, sum / n)).collect()
    }

    fn series(&self, canvas: &mut Canvas, series: usize, points: &[(f64, f64)], y: &Axis) {
        let line: Vec<_> = Self::means(points).iter().map(|(load, v)| Some((self.x.px(*load), y.px(*v)))).collect();
        canvas.line(&format!("l l{series}"), &line);
        canvas.marks(series, "", points.iter().map(|(load, v)| (self.x.px(*load), y.px(*v))));
    }

    /// Loads below the plot, and the named ones as upright lines with their names above it.
    fn loads(&self, canvas: &mut Canvas) {
        let mut loads: Vec<f64> = self.windows.iter().map(|(load, _)| *load).collect();
        loads.dedup();
        let labels: Vec<(f64, String)> = loads.iter().map(|l| (self.x.px(*l), format!("{l}"))).collect();
        let log = if self.x.scale == Scale::Log { ", log scale" } else { "" };
        let title = match self.document.settings.over {
            Over::Rate => "requests/s offered".to_owned(),
            Over::Concurrency => {
                saturation::raised(&self.document.settings).split(',').next().unwrap_or_default().to_owned()
            }
        };
        canvas.x_labels(&PLOT, &labels, &format!("{title}{log}"));
        let named = [
            ("knee", self.document.knee.as_ref().map(|k| k.load)),
            ("optimum", self.document.optimum.as_ref().map(|o| o.load)),
        ];
        for ((name, load), class) in named.into_iter().zip(["s e", "s"]) {
            let Some(load) = load else { continue };
            let at = self.x.px(load);
            canvas.path("done", &format!("M{} {}V{}", px(at), px(PLOT.top), px(PLOT.bottom)));
            // one on either side: the two often stand close to each other
            canvas.text(if class == "s" { at + 3.0 } else { at - 3.0 }, NAMES, class, name);
        }
    }

    fn figure(&self, title: &str, finding: String, canvas: Canvas) -> Markup {
        let svg = canvas.finish(title, &finding);
        Figure { title: title.to_owned(), finding, svg, table: self.table(), rows_lie_along_y: false }.markup()
    }

    fn within_goals(&self) -> Markup {
        let title = "Requests within the goals over load";
        let points = self.points(|f| f.goodput);
        if points.is_empty() {
            return none(title, "No goal of a request was asked for, or it is withheld in every window.");
        }
        let goals = &self.document.settings.goals;
        let y = Axis::between(0.0, 100.0, PLOT.up());
        let mut canvas = Canvas::new(WIDTH, HEIGHT);
        canvas.y_axis(&PLOT, &y, "% of kept requests");
        self.loads(&mut canvas);
        canvas.path("warn", &format!("M{} {}H{}", px(PLOT.left), px(y.px(goals.share * 100.0)), px(PLOT.right)));
        let whiskers = self.windows.iter().filter_map(|(load, f)| {
            let [lo, hi] = f.goodput_ci?;
            Some(format!("M{} {}V{}", px(self.x.px(*load)), px(y.px(lo * 100.0)), px(y.px(hi * 100.0))))
        });
        let whiskers: String = whiskers.collect();
        canvas.path("w w0", &whiskers);
        let points: Vec<(f64, f64)> = points.into_iter().map(|(load, share)| (load, share * 100.0)).collect();
        self.series(&mut canvas, 0, &points, &y);
        let needed = percent(Some(goals.share));
        canvas.ends(&PLOT, vec![(0, "", PLOT.right, y.px(goals.share * 100.0), format!("goal {needed}"))]);
        let optimum = match &self.document.optimum {
            Some(found) => format!("The highest load known to meet the goals is {} (dashed, upright)", found.load),
            None => "No load is known to meet the goals".to_owned(),
        };
        let finding = format!("{optimum}. {needed} must be within them; whiskers are 95 % intervals of one window.");
        self.figure(title, finding, canvas)
    }

    fn time_to_first_token(&self) -> Markup {
        let column = match self.document.settings.over {
            Over::Rate => "from due",
            Over::Concurrency => "gross",
        };
        let title = format!("Time to first token ({column}) over load");
        let drawn = [("p50", 0), ("p95", 1), ("p99", 2)];
        let of = |name: &str| {
            self.points(|f| match name {
                "p50" => f.ttft.p50_ms,
                "p95" => f.ttft.p95_ms,
                _ => f.ttft.p99_ms,
            })
        };
        let all = drawn.map(|(name, series)| (series, name, of(name)));
        if all.iter().all(|(_, _, points)| points.is_empty()) {
            return none(&title, "Withheld, or too few values, in every window: there is nothing that may be drawn.");
        }
        let limit = self.document.settings.goals.request.get(&RequestMetric::Ttft).copied();
        let y = Axis::fitting(all.iter().flat_map(|(_, _, p)| p).map(|p| p.1).chain(limit), PLOT.up());
        let mut canvas = Canvas::new(WIDTH, HEIGHT);
        let log = if y.scale == Scale::Log { "ms, log scale" } else { "ms" };
        canvas.y_axis(&PLOT, &y, log);
        self.loads(&mut canvas);
        let mut ends = Vec::new();
        if let Some(ms) = limit {
            canvas.path("warn", &format!("M{} {}H{}", px(PLOT.left), px(y.px(ms)), px(PLOT.right)));
            ends.push((0, "", PLOT.right, y.px(ms), format!("goal {}", latency(ms))));
        }
        for (series, name, points) in &all {
            self.series(&mut canvas, *series, points, &y);
            let last = Self::means(points).last().copied();
            ends.extend(
                last.map(|(load, ms)| (*series, "", self.x.px(load), y.px(ms), format!("{name} {}", latency(ms)))),
            );
        }
        canvas.ends(&PLOT, ends);
        let over = self.windows.iter().filter(|(_, f)| f.over_saturated.is_some()).count();
        let said = match over {
            0 => String::new(),
            1 => " In 1 window the load was over-saturated: there latency is a lower bound, it grows for as long as the load \
                  lasts."
                .to_owned(),
            n => format!(
                " In {n} windows the load was over-saturated: there latency is a lower bound, it grows for as long as the load lasts."
            ),
        };
        let median = Self::means(&all[0].2);
        let finding = match (median.first(), median.last()) {
            (Some((low, a)), Some((high, b))) if low < high => match (latency(*a), latency(*b)) {
                (from, to) if from == to => format!("The median is {from} at {low} and at {high}.{said}"),
                (from, to) => format!("The median goes from {from} at {low} to {to} at {high}.{said}"),
            },
            _ => format!("Windows of one load alone.{said}"),
        };
        self.figure(&title, finding, canvas)
    }

    fn throughput(&self) -> Markup {
        let title = "Throughput over load";
        let points = self.points(|f| f.requests_per_s);
        if points.is_empty() {
            return none(title, "No window tells how much was done per second.");
        }
        let most = points.iter().map(|p| p.1).fold(0.0, f64::max);
        let y = Axis::from_zero(most, PLOT.up());
        let mut canvas = Canvas::new(WIDTH, HEIGHT);
        canvas.y_axis(&PLOT, &y, "ok requests/s");
        self.loads(&mut canvas);
        let mut ends = Vec::new();
        if let Some(found) = &self.document.saturation {
            let at = y.px(found.requests_per_s.min(y.to));
            canvas.path("warn", &format!("M{} {}H{}", px(PLOT.left), px(at), px(PLOT.right)));
            let words = if found.plateau { "saturation" } else { "at least" };
            ends.push((0, "", PLOT.right, at, format!("{words} {}", rate(Some(found.requests_per_s)))));
        }
        canvas.ends(&PLOT, ends);
        self.series(&mut canvas, 0, &points, &y);
        let finding = match &self.document.saturation {
            Some(found) if found.plateau => format!(
                "The server finishes at most {} ok requests/s, from a load of {} on.",
                rate(Some(found.requests_per_s)),
                found.load
            ),
            Some(found) => format!(
                "{} ok requests/s were reached and no plateau was seen: the server may do more.",
                rate(Some(found.requests_per_s))
            ),
            None => "How much the server can do is not known.".to_owned(),
        };
        self.figure(title, finding, canvas)
    }

    fn table(&self) -> Markup {
        let ms = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), latency);
        html! {
            table class="sort" {
                thead { tr { th scope="col" { "load" } th scope="col" { "within goals" } th scope="col" { "ttft p50" } th scope="col" { "p95" } th scope="col" { "p99" } th scope="col" { "ok/s" } th scope="col" class="l" { "window" } } }
                tbody {
                    @for (load, f) in &self.windows {
                        tr data-x=(place(self.x.px(*load))) {
                            th scope="row" { (load) }
                            td { (percent(f.goodput)) }
                            td { (ms(f.ttft.p50_ms)) } td { (ms(f.ttft.p95_ms)) } td { (ms(f.ttft.p99_ms)) }
                            td { (rate(f.requests_per_s)) }
                            td class="l" { code { (f.dir) } }
                        }
                    }
                }
            }
        }
    }
}
