//! A search that never was.

use super::*;
use crate::analysis::saturation::points::{Knee, Saturation};
use crate::analysis::saturation::search::Bounds;
use crate::goals::Goals;

fn settings() -> Settings {
    let goals = Goals::new(None, &["ttft:500".to_owned()]).expect("goals").expect("goals");
    let bounds = Bounds { from: None, to: None, factor: 2.0, resolution: 0.05, whole: false, max_steps: 40 };
    Settings {
        sessions: None,
        over: Over::Rate,
        bounds,
        goals,
        num_prompts: 400,
        drop: 10,
        step_duration_s: 11.0,
        budget_s: 1800.0,
        seed: 7,
        points: Vec::new(),
        price: None,
    }
}

pub(in crate::report) fn figures(load: f64, answer: Answer) -> Figures {
    let column = |name: &str, p50_ms: Option<f64>| Percentiles {
        column: name.to_owned(),
        n: 400,
        p50_ms,
        p95_ms: p50_ms.map(|ms| ms * 2.0),
        p99_ms: p50_ms.map(|ms| ms * 3.0),
    };
    Figures {
        dir: format!("steps/00-climb-{load}"),
        cell: 0,
        window: 0,
        purpose: Some(Purpose::Climb),
        load: Some(load),
        attempt: 0,
        offered_rps: Some(load),
        achieved_rps: Some(load),
        requests_per_s: Some(load),
        output_tokens_per_s: Some(load * 25.0),
        total_tokens_per_s: Some(load * 75.0),
        in_flight_max: 12,
        kept: 400,
        ok: 400,
        ttft: column("due", Some(40.0)),
        ttft_net: column("net", Some(39.0)),
        tpot: column("gross", None),
        e2e_mean_ms: Some(100.0),
        goodput: Some(1.0),
        goodput_ci: Some([0.9908, 1.0]),
        answer,
        why: String::new(),
        over_saturated: None,
        ended_early: false,
        client: Vec::new(),
    }
}

pub(in crate::report) fn document() -> Document {
    Document {
        schema: String::new(),
        tarebench: "0".to_owned(),
        started_at: "then".to_owned(),
        server: Some("https://gpu-7:8000".to_owned()),
        model: Some("m".to_owned()),
        labels: vec!["SERVER NOT VERIFIED".to_owned()],
        settings: settings(),
        steps: vec![figures(64.0, Answer::Meets)],
        points: Vec::new(),
        optimum: Some(Optimum {
            load: 76.2,
            windows: 2,
            missed_at: Some(79.1),
            open_at: Vec::new(),
            requests_per_s: Some(76.0),
            output_tokens_per_s: Some(1_900.0),
            total_tokens_per_s: None,
        }),
        saturation: Some(Saturation { requests_per_s: 80.1, load: 79.1, plateau: true, further: vec![128.0, 166.4] }),
        knee: Some(Knee { load: 64.0, power: 612.0, between: [Some(32.0), None], near: [64.0, 76.2] }),
        cost: None,
        ended: End::Complete,
        conclusive: true,
        not_monotone: None,
        client_above: None,
        definitions: std::collections::BTreeMap::new(),
    }
}
