//! A chart of points over two log axes, as SVG: error and tare against load.
//!
//! Light and dark by `prefers-color-scheme`, no script, a text alternative in `<title>` and `<desc>`. A value below
//! the floor of the y axis is drawn hollow on the floor, whose label then reads `<0.1`: it is neither left out nor
//! taken for a larger one.

use std::fmt::Write;

use super::axis::{Axis, apart, escaped, px, tick};

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Above it, and its name for those who cannot see it.
    pub title: String,
    /// What is to be seen, for those who cannot see it.
    pub description: String,
    /// Along x, with the unit: `events/s`.
    pub x_title: String,
    /// Along y, with the unit: `us`.
    pub y_title: String,
    /// Where the y axis begins, above 0. Smaller values lie on it.
    pub floor: f64,
    /// What is drawn, at most [`COLOURS`] colours.
    pub series: Vec<Series>,
}

/// A line of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// In the legend: `gross error p99`.
    pub name: String,
    /// At its last point: `gross p99`.
    pub label: String,
    /// Which colour and mark, from 0; beyond [`COLOURS`] they begin again. Lines of colour 2 are dashed.
    pub colour: usize,
    /// Drawn thin: a median beside its p99.
    pub thin: bool,
    /// `(x, y)`. An x outside 1e-12 to 1e15, and a y that is no number or above 1e15, has no place and is left out.
    pub points: Vec<(f64, f64)>,
}

/// Colours that differ for every kind of colour vision, each with a mark of its own.
pub const COLOURS: usize = 4;

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 652.0;
const BOTTOM: f64 = 416.0;
const TITLE_Y: f64 = 26.0;
const LEGEND_Y: f64 = 50.0;
const LEGEND_ROW: f64 = 18.0;
/// The colour whose lines are dashed.
const DASHED: usize = 2;
/// Smallest and largest value that an axis has a place for.
const SMALLEST: f64 = 1e-12;
const LARGEST: f64 = 1e15;
/// Width of a character, on the safe side for sans-serif at 12 px.
const CHARACTER: f64 = 6.6;

/// No CSS variables: readers that know none of them paint everything black.
const STYLE: &str = "\
svg{font:12px system-ui,sans-serif}.title{font-size:15px;font-weight:600}\
.line{fill:none;stroke-width:2.4;stroke-linejoin:round}.line.thin{stroke-width:1.1}.mark{stroke-width:1.4}\
.paper,.clipped{fill:#ffffff}text{fill:#1b1f24}.soft{fill:#57606a}.grid{stroke:#d8dee4}.faint{stroke:#eff2f5}\
.axis{stroke:#57606a}.s0{stroke:#c2410c}.s1{stroke:#0969da}.s2{stroke:#1a7f37}.s3{stroke:#8250df}\
.f0{fill:#c2410c}.f1{fill:#0969da}.f2{fill:#1a7f37}.f3{fill:#8250df}\
@media(prefers-color-scheme:dark){\
.paper,.clipped{fill:#0d1117}text{fill:#e6edf3}.soft{fill:#9da7b1}.grid{stroke:#30363d}.faint{stroke:#1b2129}\
.axis{stroke:#9da7b1}.s0{stroke:#fb8f44}.s1{stroke:#6cb6ff}.s2{stroke:#57d364}.s3{stroke:#c297ff}\
.f0{fill:#fb8f44}.f1{fill:#6cb6ff}.f2{fill:#57d364}.f3{fill:#c297ff}}";

/// The colours of a light page, for readers that know nothing of CSS.
const PLAIN: [&str; COLOURS] = ["#c2410c", "#0969da", "#1a7f37", "#8250df"];

impl Picture {
    /// The SVG document.
    pub fn svg(&self) -> String {
        let legend = Legend::of(&self.series);
        let top = LEGEND_Y + legend.rows as f64 * LEGEND_ROW + 8.0;
        let floor = if (SMALLEST..=LARGEST).contains(&self.floor) { self.floor } else { 0.1 };
        let placed: Vec<Placed> = self.series.iter().map(|s| Placed::of(s, floor)).collect();
        let points = || placed.iter().flat_map(|p| &p.points);
        let x = Axis::over(points().map(|p| p.x), (LEFT, RIGHT), None);
        let y = Axis::over(points().map(|p| p.y), (BOTTOM, top), Some(floor));
        let clipped = points().any(|p| p.clipped);
        let mut out = Svg::default();
        out.open(&self.title, &self.description);
        out.grid(&x, &y, top);
        out.ticks(&x, &y, clipped.then_some(floor));
        out.titles(&self.x_title, &self.y_title, top);
        legend.draw(&mut out, &self.series);
        for (series, placed) in self.series.iter().zip(&placed) {
            out.series(series, placed, &x, &y);
        }
        out.labels(&self.series, &placed, &x, &y, top);
        if points().next().is_none() {
            let middle = f64::midpoint(LEFT, RIGHT);
            out.text(middle, f64::midpoint(top, BOTTOM), "middle", "soft", "no points to draw");
        }
        out.text.push_str("</svg>\n");
        out.text
    }
}

#[derive(Clone, Copy, Debug)]
struct Point {
    x: f64,
    y: f64,
    clipped: bool,
}

/// The points of a series that have a place.
#[derive(Debug)]
struct Placed {
    points: Vec<Point>,
}

impl Placed {
    fn of(series: &Series, floor: f64) -> Placed {
        let has_place = |(x, y): &&(f64, f64)| (SMALLEST..=LARGEST).contains(x) && y.is_finite() && *y <= LARGEST;
        let place = |&(x, y): &(f64, f64)| Point { x, y: y.max(floor), clipped: y < floor };
        let mut points: Vec<Point> = series.points.iter().filter(has_place).map(place).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Placed { points }
    }
}

/// Names in rows, as many in each as have room.
#[derive(Debug)]
struct Legend {
    places: Vec<(f64, usize)>,
    rows: usize,
}

impl Legend {
    fn of(series: &[Series]) -> Legend {
        let (mut x, mut row, mut places) = (LEFT, 0, Vec::new());
        for s in series {
            let width = 27.0 + s.name.chars().count() as f64 * CHARACTER + 10.0;
            if x + width > WIDTH && x > LEFT {
                (x, row) = (LEFT, row + 1);
            }
            places.push((x, row));
            x += width;
        }
        Legend { places, rows: row + 1 }
    }

    fn draw(&self, out: &mut Svg, series: &[Series]) {
        for (&(x, row), s) in self.places.iter().zip(series) {
            let y = LEGEND_Y + row as f64 * LEGEND_ROW;
            out.line(s, &format!("M{} {}H{}", px(x), px(y - 4.0), px(x + 20.0)));
            out.mark(s, x + 10.0, y - 4.0, false, None);
            out.text(x + 27.0, y, "start", "", &s.name);
        }
    }
}

#[derive(Default)]
struct Svg {
    text: String,
}

/// Appends; writing to a String cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => { let _ = writeln!($out.text, $($arg)*); };
}

impl Svg {
    fn open(&mut self, title: &str, description: &str) {
        let (title, description) = (escaped(title), escaped(description));
        put!(
            self,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
             height=\"{HEIGHT}\" role=\"img\" aria-labelledby=\"title desc\" font-family=\"sans-serif\" font-size=\"12\">"
        );
        put!(self, "<title id=\"title\">{title}</title>\n<desc id=\"desc\">{description}</desc>");
        put!(self, "<style>{STYLE}</style>");
        put!(self, "<rect class=\"paper\" fill=\"#ffffff\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>");
        put!(self, "<text class=\"title\" x=\"{}\" y=\"{}\">{title}</text>", px(LEFT), px(TITLE_Y));
    }

    fn grid(&mut self, x: &Axis, y: &Axis, top: f64) {
        for (class, faint) in [("faint", true), ("grid", false)] {
            let mut path = String::new();
            let steps: &[f64] = if faint { &[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0] } else { &[1.0] };
            for (axis, across) in [(x, true), (y, false)] {
                let inside = |v: f64| v.log10() >= axis.from - 1e-9 && v.log10() <= axis.to + 1e-9;
                let first = axis.from.floor() as i32;
                let decades = if faint { first..=axis.to as i32 } else { first..=axis.to.floor() as i32 };
                let lines = decades.flat_map(|d| steps.iter().map(move |s| s * 10_f64.powi(d))).filter(|v| inside(*v));
                for at in lines.map(|v| px(axis.px(v))) {
                    let _ = match across {
                        true => write!(path, "M{at} {}V{}", px(top), px(BOTTOM)),
                        false => write!(path, "M{} {at}H{}", px(LEFT), px(RIGHT)),
                    };
                }
            }
            let colour = if faint { "#eff2f5" } else { "#d8dee4" };
            put!(self, "<path class=\"{class}\" stroke=\"{colour}\" fill=\"none\" d=\"{path}\"/>");
        }
        let frame = format!("M{} {}V{}H{}", px(LEFT), px(top), px(BOTTOM), px(RIGHT));
        put!(self, "<path class=\"axis\" stroke=\"#57606a\" fill=\"none\" d=\"{frame}\"/>");
    }

    fn ticks(&mut self, x: &Axis, y: &Axis, clipped_at: Option<f64>) {
        let every = x.label_every(64.0);
        for d in x.decades().filter(|d| d.rem_euclid(every) == 0) {
            self.text(x.px(10_f64.powi(d)), BOTTOM + 18.0, "middle", "soft", &tick(10_f64.powi(d)));
        }
        let every = y.label_every(16.0);
        let floor_px = clipped_at.map(|floor| y.px(floor));
        for d in y.decades().filter(|d| d.rem_euclid(every) == 0) {
            let at = y.px(10_f64.powi(d));
            // the floor's own label takes precedence
            if floor_px.is_none_or(|floor| (floor - at).abs() > 12.0) {
                self.text(LEFT - 8.0, at + 4.0, "end", "soft", &tick(10_f64.powi(d)));
            }
        }
        if let Some(floor) = clipped_at {
            self.text(LEFT - 8.0, y.px(floor) + 4.0, "end", "soft", &format!("<{}", tick(floor)));
        }
    }

    fn titles(&mut self, x_title: &str, y_title: &str, top: f64) {
        self.text(f64::midpoint(LEFT, RIGHT), BOTTOM + 42.0, "middle", "", x_title);
        let (x, y) = (px(18.0), px(f64::midpoint(top, BOTTOM)));
        let title = escaped(y_title);
        put!(self, "<text transform=\"translate({x} {y}) rotate(-90)\" text-anchor=\"middle\">{title}</text>");
    }

    fn series(&mut self, s: &Series, placed: &Placed, x: &Axis, y: &Axis) {
        let mut path = String::new();
        for (i, p) in placed.points.iter().enumerate() {
            let _ = write!(path, "{}{} {}", if i == 0 { 'M' } else { 'L' }, px(x.px(p.x)), px(y.px(p.y)));
        }
        if placed.points.len() > 1 {
            self.line(s, &path);
        }
        for p in &placed.points {
            let value = if p.clipped { format!("<{}", tick(p.y)) } else { tick(p.y) };
            self.mark(s, x.px(p.x), y.px(p.y), p.clipped, Some(&format!("{}: {value} at {}", s.name, tick(p.x))));
        }
    }

    /// Each series' label beside its last point, moved apart where they would cover each other.
    fn labels(&mut self, series: &[Series], placed: &[Placed], x: &Axis, y: &Axis, top: f64) {
        let last = |(s, p): (usize, &Placed)| p.points.last().map(|p| (s, x.px(p.x), y.px(p.y)));
        let mut ends: Vec<(usize, f64, f64)> = placed.iter().enumerate().filter_map(last).collect();
        ends.sort_by(|a, b| a.2.total_cmp(&b.2));
        let wanted: Vec<f64> = ends.iter().map(|e| e.2).collect();
        for ((at, from_x, from_y), label_y) in ends.iter().zip(apart(&wanted, top, BOTTOM)) {
            let s = &series[*at];
            let (colour, plain) = (s.colour % COLOURS, PLAIN[s.colour % COLOURS]);
            // a hair line leads from the point to a label that stands elsewhere
            let leader = format!("M{} {}L{} {}", px(from_x + 6.0), px(*from_y), px(RIGHT + 8.0), px(label_y));
            put!(
                self,
                "<path class=\"s{colour}\" stroke=\"{plain}\" stroke-width=\"0.6\" stroke-dasharray=\"2 2\" \
                 fill=\"none\" d=\"{leader}\"/>"
            );
            put!(
                self,
                "<text class=\"f{colour}\" fill=\"{plain}\" x=\"{}\" y=\"{}\">{}</text>",
                px(RIGHT + 11.0),
                px(label_y + 4.0),
                escaped(&s.label)
            );
        }
    }

    fn line(&mut self, s: &Series, path: &str) {
        let colour = s.colour % COLOURS;
        let (thin, width) = if s.thin { (" thin", 1.1) } else { ("", 2.4) };
        // dashed, so that tare does not hide the gross error it explains
        let dashes = if colour == DASHED { " stroke-dasharray=\"7 5\"" } else { "" };
        put!(
            self,
            "<path class=\"line s{colour}{thin}\" stroke=\"{}\" stroke-width=\"{width}\"{dashes} fill=\"none\" d=\"{path}\"/>",
            PLAIN[colour]
        );
    }

    fn mark(&mut self, s: &Series, x: f64, y: f64, clipped: bool, words: Option<&str>) {
        let colour = s.colour % COLOURS;
        let r = if s.thin { 2.6 } else { 4.0 };
        let at = |dx: f64, dy: f64| format!("{} {}", px(x + dx * r), px(y + dy * r));
        let shape = match colour {
            0 => {
                let corners = [at(-0.9, -0.9), at(0.9, -0.9), at(0.9, 0.9), at(-0.9, 0.9)];
                format!("M{}Z", corners.join("L"))
            }
            1 => format!("M{}A{r} {r} 0 1 1 {}A{r} {r} 0 1 1 {}Z", at(-1.0, 0.0), at(1.0, 0.0), at(-1.0, 0.0)),
            2 => format!("M{}Z", [at(0.0, -1.2), at(1.1, 0.9), at(-1.1, 0.9)].join("L")),
            _ => format!("M{}Z", [at(0.0, -1.3), at(1.3, 0.0), at(0.0, 1.3), at(-1.3, 0.0)].join("L")),
        };
        let plain = PLAIN[colour];
        let (class, fill) = if clipped { (" clipped".to_owned(), "#ffffff") } else { (format!(" f{colour}"), plain) };
        let words = words.map_or_else(String::new, |w| format!("<title>{}</title>", escaped(w)));
        put!(
            self,
            "<path class=\"mark s{colour}{class}\" stroke=\"{plain}\" fill=\"{fill}\" d=\"{shape}\">{words}</path>"
        );
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, class: &str, words: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let (x, y, words) = (px(x), px(y), escaped(words));
        put!(self, "<text{class} x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{words}</text>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series(name: &str, colour: usize, thin: bool, points: &[(f64, f64)]) -> Series {
        Series { name: name.into(), label: name.into(), colour, thin, points: points.to_vec() }
    }

    fn picture(series: Vec<Series>) -> Picture {
        Picture {
            title: "Error against load".into(),
            description: "Gross rises, net stays.".into(),
            x_title: "events/s".into(),
            y_title: "|error| (us)".into(),
            floor: 0.1,
            series,
        }
    }

    /// Opened and closed in order, every value quoted: what an XML reader asks for.
    fn assert_well_formed(svg: &str) {
        let (mut open, mut rest) = (Vec::new(), svg);
        while let Some(at) = rest.find('<') {
            assert!(!rest[..at].contains('>'), "{rest}");
            let end = at + rest[at..].find('>').expect("a tag ends");
            let tag = &rest[at + 1..end];
            let name = tag.trim_start_matches('/').split([' ', '/']).next().expect("a name").to_owned();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(name);
            }
            assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn points_lie_at_the_logarithm_of_their_values() {
        let svg = picture(vec![series("a", 0, false, &[(10.0, 1.0), (1_000.0, 100.0), (100.0, 10.0)])]).svg();
        // x from 10 to 1,000 over 580 px; y from 0.1 to 100 over 340 px; in order of x
        assert!(svg.contains("d=\"M72 302.7L362 189.3L652 76\""), "{svg}");
        for words in [">10</text>", ">100</text>", ">1k</text>", ">0.1</text>", "<title>a: 10 at 100</title>"] {
            assert!(svg.contains(words), "{words} in {svg}");
        }
        assert_well_formed(&svg);
    }

    #[test]
    fn what_is_below_the_floor_is_drawn_hollow_on_it() {
        let points = [(10.0, 0.0), (100.0, -5.0), (1_000.0, 30.0)];
        let svg = picture(vec![series("net p50", 1, true, &points)]).svg();
        assert_eq!(svg.matches("clipped\"").count(), 2, "{svg}");
        assert!(svg.contains("end\">&lt;0.1</text>") && svg.contains("<title>net p50: &lt;0.1 at 10</title>"), "{svg}");
        let none = picture(vec![series("net p50", 1, true, &points[2..])]).svg();
        assert!(!none.contains("clipped\"") && !none.contains("&lt;0.1"), "{none}");
    }

    #[test]
    fn what_has_no_place_is_left_out() {
        let points = [(0.0, 1.0), (-1.0, 1.0), (10.0, f64::NAN), (f64::INFINITY, 1.0), (20.0, f64::INFINITY)];
        let svg = picture(vec![series("a", 0, false, &points)]).svg();
        assert!(svg.contains("no points to draw") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_well_formed(&svg);
        assert_well_formed(&picture(vec![]).svg());
    }

    #[test]
    fn it_has_a_text_alternative_both_schemes_and_no_script() {
        let svg = picture(vec![series("a", 0, false, &[(1.0, 1.0)])]).svg();
        for words in ["<title id=\"title\">Error against load</title>", "<desc id=\"desc\">Gross rises", "role=\"img\""]
        {
            assert!(svg.contains(words), "{words}");
        }
        assert!(svg.contains("prefers-color-scheme:dark"));
        assert!(!svg.contains("<script") && !svg.contains("href"));
    }

    proptest! {
        #[test]
        fn any_data_and_any_words_give_a_document(
            data in prop::collection::vec((".{0,12}", 0_usize..6, any::<bool>(), prop::collection::vec((any::<f64>(), any::<f64>()), 0..6)), 0..6),
            words in ".{0,20}", floor in any::<f64>(),
        ) {
            let data = data.iter().map(|(name, colour, thin, points)| series(name, *colour, *thin, points)).collect();
            let svg = Picture { title: words.clone(), y_title: words, floor, ..picture(data) }.svg();
            assert_well_formed(&svg);
            prop_assert!(!svg.contains("NaN"));
            prop_assert!(!svg.contains(|c: char| c < ' ' && c != '\n'));
        }
    }
}
