//! Distributions as JSON objects, and what is taken out of them again.

use serde_json::{Map, Value, json};

use crate::analysis::definitions::rules::{Width, width};
use crate::analysis::definitions::{Columns, wording};
use crate::analysis::percentiles::{
    BUCKETED, EXACT, Figures, Moments, PUBLISHED, Percentile, Sample, bucket_middle, figures, percentile_ms,
};
use crate::analysis::statistics::cluster_bootstrap;
use crate::analysis::statistics::order_interval::ranks;
use crate::rundir::row::Row;

/// What the window forbids of a metric.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forbidden {
    pub(super) gross: bool,
    pub(super) due: bool,
    pub(super) net: bool,
    pub(super) percentiles: bool,
}

/// One metric over the ok requests of a window.
pub(super) struct Metric<'a, T> {
    pub(super) name: &'a str,
    pub(super) of: &'a dyn Fn(&Row) -> Vec<Columns<T>>,
    pub(super) two_ended: bool,
    pub(super) forbidden: Forbidden,
}

impl<T: Sample> Metric<'_, T> {
    /// `gross, tare, net`, with classes where asked; verdicts on widths are appended.
    pub(super) fn columns(&self, ok: &[&Row], by_class: bool, verdicts: &mut Vec<Value>) -> Map<String, Value> {
        let coarse = self.coarse(ok);
        let mut gross = self.gross(ok, coarse[0]);
        let tare = self.distribution(ok, |c| c.tare, coarse[1]);
        let mut net = self.net(ok, self.name, coarse[2], verdicts);
        let mut classes: Vec<&str> = ok.iter().map(|row| row.class.as_str()).collect();
        classes.sort_unstable();
        classes.dedup();
        for class in classes.into_iter().filter(|_| by_class) {
            let rows: Vec<&Row> = ok.iter().copied().filter(|row| row.class == class).collect();
            add_class(&mut gross, class, self.gross(&rows, coarse[0]));
            add_class(&mut net, class, self.net(&rows, &format!("{}/{class}", self.name), coarse[2], verdicts));
        }
        [("gross", gross), ("tare", tare), ("net", net)].into_iter().map(|(k, v)| (k.to_string(), v)).collect()
    }

    pub(super) fn with_due(&self, ok: &[&Row], by_class: bool, verdicts: &mut Vec<Value>) -> Map<String, Value> {
        let mut columns = self.columns(ok, by_class, verdicts);
        let mut due = distribution(self.values(ok, |c| c.due));
        if let (true, Value::Object(due)) = (self.forbidden.due, &mut due) {
            blank(due);
        }
        columns.insert("due".into(), due);
        columns.insert("calibrated".into(), Value::Null);
        columns
    }

    /// Whether gross, tare, net of all classes together are too many for each to be counted as it is.
    fn coarse(&self, ok: &[&Row]) -> [bool; 3] {
        let mut n = [0; 3];
        for columns in ok.iter().flat_map(|row| (self.of)(row)) {
            let there = [columns.gross.is_some(), columns.tare.is_some(), columns.net.is_some()];
            n.iter_mut().zip(there).for_each(|(n, there)| *n += usize::from(there));
        }
        n.map(|n| n > EXACT)
    }

    fn values(&self, rows: &[&Row], column: impl Fn(&Columns<T>) -> Option<T>) -> Vec<T> {
        rows.iter().flat_map(|row| (self.of)(row)).filter_map(|c| column(&c)).collect()
    }

    /// The figures of a column. A request's gaps hang together, so their intervals are those of clusters.
    fn distribution(&self, rows: &[&Row], column: impl Fn(&Columns<T>) -> Option<T>, coarse: bool) -> Value {
        let mut found = counted(self.values(rows, &column), coarse);
        if self.name == "gap" && found.is_object() {
            if coarse {
                found["ci_ms"] = json!({});
                return found;
            }
            let by_request: Vec<(u64, Vec<T>)> =
                rows.iter().map(|row| (row.trace_id, self.values(&[*row], &column))).collect();
            let clusters: Vec<_> = by_request.iter().map(|(trace_id, values)| (*trace_id, values.as_slice())).collect();
            found["ci_ms"] = intervals(cluster_bootstrap::intervals(&clusters));
        }
        found
    }

    fn gross(&self, rows: &[&Row], coarse: bool) -> Value {
        let mut gross = self.distribution(rows, |c| c.gross, coarse);
        if let (true, Value::Object(gross)) = (self.forbidden.gross, &mut gross) {
            blank(gross);
        }
        if self.forbidden.percentiles && gross.is_object() {
            PUBLISHED.iter().for_each(|p| gross[format!("{}_ms", p.name)] = Value::Null);
            gross["ci_ms"] = json!({});
        }
        gross
    }

    fn net(&self, rows: &[&Row], name: &str, coarse: bool, verdicts: &mut Vec<Value>) -> Value {
        let Value::Object(mut net) = self.distribution(rows, |c| c.net.as_ref().map(|n| n.at), coarse) else {
            return Value::Null;
        };
        let lo = percentiles(self.values(rows, |c| c.net.as_ref().map(|n| n.lo)), coarse);
        let hi = percentiles(self.values(rows, |c| c.net.as_ref().map(|n| n.hi)), coarse);
        if self.forbidden.net {
            blank(&mut net);
        }
        let buckets = net.shift_remove("buckets");
        let per_class = net.shift_remove("per_class");
        let (mut shown_lo, mut shown_hi) = (Map::new(), Map::new());
        for (i, p) in PUBLISHED.iter().enumerate() {
            let judged = lo[i].zip(hi[i]).map_or(Width::Narrow, |(lo, hi)| width(lo, hi));
            let banned = self.forbidden.net || self.forbidden.percentiles;
            if let (false, Some((lo, hi))) = (banned || judged == Width::Narrow, lo[i].zip(hi[i])) {
                verdicts.push(on_width(name, p.name, judged, lo, hi));
            }
            let shown = !banned && judged != Width::Withheld;
            if !shown {
                net.insert(format!("{}_ms", p.name), Value::Null);
                net["ci_ms"].as_object_mut().and_then(|ci| ci.shift_remove(p.name));
            }
            shown_lo.insert(p.name.into(), json!(lo[i].filter(|_| shown)));
            shown_hi.insert(p.name.into(), json!(hi[i].filter(|_| shown)));
        }
        net.insert("lo_ms".into(), Value::Object(shown_lo));
        if self.two_ended {
            net.insert("hi_ms".into(), Value::Object(shown_hi));
        }
        buckets.into_iter().for_each(|named| drop(net.insert("buckets".into(), named)));
        net.insert("per_class".into(), per_class.unwrap_or_default());
        Value::Object(net)
    }
}

/// The figures of some values; null of none.
pub(super) fn distribution<T: Sample>(values: Vec<T>) -> Value {
    let coarse = values.len() > EXACT;
    counted(values, coarse)
}

/// The same, each value counted as it is or as the middle of its bucket.
fn counted<T: Sample>(mut values: Vec<T>, coarse: bool) -> Value {
    if coarse {
        return in_buckets(values);
    }
    let Some(f) = figures(&mut values) else { return Value::Null };
    let ends = PUBLISHED
        .map(|p| ranks(values.len(), p.per_mille).map(|r| [at(&mut values, r.lower), at(&mut values, r.upper)]));
    shown(&f, ends, false)
}

/// Of more values than each is kept of: moments and ends of whole ns, percentiles of middles.
fn in_buckets<T: Sample>(values: Vec<T>) -> Value {
    let mut whole: Vec<i64> = values.into_iter().map(Sample::whole_ns).collect();
    let mut moments = Moments::default();
    whole.iter().for_each(|ns| moments.take(*ns));
    let Some(mean) = moments.mean_ns() else { return Value::Null };
    let middles = middles(&mut whole);
    let f = Figures {
        n: whole.len(),
        mean_ms: mean / 1e6,
        sd_ms: moments.sd_ns().map(|ns| ns / 1e6),
        min_ms: whole[0] as f64 / 1e6,
        max_ms: whole[whole.len() - 1] as f64 / 1e6,
        percentiles_ms: PUBLISHED.map(|p| percentile_ms(&middles, p)),
    };
    let rank = |rank: usize| middles[rank - 1] as f64 / 1e6;
    let ends = PUBLISHED.map(|p| ranks(middles.len(), p.per_mille).map(|r| [rank(r.lower), rank(r.upper)]));
    shown(&f, ends, true)
}

/// Sorts values; each as the middle of its bucket, which lies between the smallest and the largest of them.
fn middles(values: &mut [i64]) -> Vec<i64> {
    values.sort_unstable();
    let (least, most) = (values.first().copied().unwrap_or(0), values.last().copied().unwrap_or(0));
    values.iter().map(|ns| bucket_middle(*ns).max(least).min(most)).collect()
}

fn shown(f: &Figures, ends: [Option<[f64; 2]>; 5], coarse: bool) -> Value {
    let mut object = Map::new();
    object.insert("n".into(), json!(f.n));
    for (key, value) in
        [("mean_ms", Some(f.mean_ms)), ("sd_ms", f.sd_ms), ("min_ms", Some(f.min_ms)), ("max_ms", Some(f.max_ms))]
    {
        object.insert(key.into(), json!(value));
    }
    for (p, value) in PUBLISHED.iter().zip(f.percentiles_ms) {
        object.insert(format!("{}_ms", p.name), json!(value));
    }
    object.insert("ci_ms".into(), intervals(ends));
    if coarse {
        object.insert("buckets".into(), json!(BUCKETED));
    }
    object.insert("per_class".into(), json!({}));
    Value::Object(object)
}

/// A percentile of sorted values: of so many that they are counted in buckets, of these.
pub(super) fn percentile_of_sorted(sorted: &mut [i64], p: Percentile) -> Option<f64> {
    match sorted.len() > EXACT {
        true => percentile_ms(&middles(sorted), p),
        false => percentile_ms(sorted, p),
    }
}

/// The value of that rank, from 1, in ms.
fn at<T: Sample>(values: &mut [T], rank: usize) -> f64 {
    let (_, value, _) = values.select_nth_unstable_by(rank - 1, |a, b| a.ns().total_cmp(&b.ns()));
    value.ns() / 1e6
}

/// Intervals by name, those that there are.
fn intervals(ends: [Option<[f64; 2]>; 5]) -> Value {
    let named = PUBLISHED.iter().zip(ends).filter_map(|(p, ends)| Some((p.name.to_string(), json!(ends?))));
    Value::Object(named.collect())
}

/// Takes out every figure but the number of values.
fn blank(column: &mut Map<String, Value>) {
    for (key, value) in column.iter_mut().filter(|(key, _)| key.ends_with("_ms")) {
        *value = if key == "ci_ms" { json!({}) } else { Value::Null };
    }
}

/// The same of a column that is a value of its own.
pub(super) fn blank_all(column: &mut Value) {
    column.as_object_mut().into_iter().for_each(blank);
}

/// What is published of values.
pub(super) fn percentiles<T: Sample>(mut values: Vec<T>, coarse: bool) -> [Option<f64>; 5] {
    if coarse {
        let middles = middles(&mut values.into_iter().map(Sample::whole_ns).collect::<Vec<_>>());
        return PUBLISHED.map(|p| percentile_ms(&middles, p));
    }
    figures(&mut values).map_or([None; 5], |f| f.percentiles_ms)
}

fn add_class(column: &mut Value, class: &str, of_class: Value) {
    if column.is_object() && of_class.is_object() {
        column["per_class"][class] = of_class;
    }
}

fn on_width(metric: &str, percentile: &str, judged: Width, lo: f64, hi: f64) -> Value {
    let (kind, text) = match judged {
        Width::Withheld => ("withheld", wording::too_wide(lo, hi)),
        Width::Both | Width::Narrow => ("both", wording::both(lo, hi)),
    };
    json!({"metric": metric, "column": "net", "percentile": percentile, "kind": kind, "figure": hi - lo, "text": text})
}
