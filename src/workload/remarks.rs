//! What a workload must say of itself before the first request.

use super::cache::Cache;
use super::dataset::Dataset;
use super::ids::PromptForm;
use super::sessions::SessionLaw;
use super::{Content, Lengths, Workload};
use std::io;

fn entries(n: u64) -> String {
    if n == 1 { "1 entry".to_owned() } else { format!("{n} entries") }
}

impl Workload {
    /// Its name, and by what its lengths are multiplied.
    pub fn words(&self) -> String {
        let name = match &self.lengths {
            Lengths::Histogram(h) => {
                format!("histogram {} ({} requests in {} pairs of lengths)", h.path, h.counted, h.pairs)
            }
            Lengths::ShareGpt(d) | Lengths::Jsonl(d) => {
                format!("{} {} ({})", self.lengths.name(), d.path, entries(d.entries))
            }
            drawn => drawn.name().to_owned(),
        };
        match self.lengths.dataset() {
            None => format!("{name} x {}", self.length_scale),
            Some(_) => name,
        }
    }

    /// As [`Workload::remarks`], where requests are turns of sessions: `drop` and `kept` are numbers of these.
    ///
    /// # Errors
    /// As for [`Workload::sessions`].
    pub fn remarks_of_sessions(
        &self,
        law: &SessionLaw,
        drop: u64,
        kept: u64,
        measured: u64,
    ) -> io::Result<Vec<String>> {
        let mut said = Vec::new();
        if let Some(dataset) = self.lengths.dataset() {
            self.of_entries(dataset, "conversation", [drop, kept, measured], &mut said)?;
        }
        if let Cache::SharedPrefix { tokens } = self.cache {
            let mut cut = 0_u64;
            for session in self.sessions(law, drop, kept)?.take((drop + kept) as usize).skip(drop as usize) {
                let first = session?.turns.swap_remove(0).shape;
                cut += u64::from(first.content == Content::Words && first.prompt_tokens <= tokens);
            }
            if cut > 0 {
                said.push(format!(
                    "WARNING: {cut} of {kept} first messages are not longer than the shared prefix: they are its beginning, and nothing else"
                ));
            }
        }
        Ok(said)
    }

    /// How many entries of a file there are for the `kept` requests or conversations of a window, and its `drop` first.
    fn of_entries(
        &self,
        dataset: &Dataset,
        what: &str,
        [drop, kept, measured]: [u64; 3],
        said: &mut Vec<String>,
    ) -> io::Result<()> {
        if !dataset.dropped.is_empty() {
            let reasons: Vec<String> = dataset.dropped.iter().map(|(why, n)| format!("{n} with {why}")).collect();
            let n = dataset.dropped.values().sum::<u64>();
            let give = if n == 1 { "gives" } else { "give" };
            said.push(format!("{} {give} no {what}: {}", entries(n), reasons.join(", ")));
        }
        let selection = dataset.select(self.seed, drop, kept).map_err(io::Error::other)?;
        let (have, wanted) = (selection.measured.len() as u64, measured.max(kept));
        let warm_up = selection.warm_up.len();
        said.push(format!("{} for the measured {what}s, {warm_up} for the warm-up", entries(have)));
        if wanted > have && self.cache != Cache::Repeat {
            said.push(format!(
                "WARNING: a window wants {wanted} measured {what}s and has {} for them: it starts over after every {have}",
                entries(have)
            ));
        }
        Ok(())
    }

    /// What somebody should know before a window of `drop` warm-up and `kept` measured requests, and of `measured` ones
    /// where its schedule is longer; one line each.
    ///
    /// # Errors
    /// As for [`Workload::shapes`].
    pub fn remarks(&self, drop: u64, kept: u64, measured: u64) -> io::Result<Vec<String>> {
        let mut said = Vec::new();
        if let Some(dataset) = self.lengths.dataset() {
            self.of_entries(dataset, "request", [drop, kept, measured], &mut said)?;
        } else {
            let mut generated = self.generated(drop, kept);
            let lengths = 2 * generated.by_ref().take((drop + kept) as usize).count();
            if generated.drawn_again > 0 {
                said.push(format!(
                    "{} draws fell outside their bounds and were made again, for {lengths} lengths of a window",
                    generated.drawn_again
                ));
            }
        }
        self.of_prompts(drop, kept, &mut said)?;
        Ok(said)
    }

    fn of_prompts(&self, drop: u64, kept: u64, said: &mut Vec<String>) -> io::Result<()> {
        let (mut least, mut most, mut cut, mut short) = (u64::MAX, 0, 0_u64, 0_u64);
        let nonce_ids = match self.prompt_form {
            PromptForm::Text => 0,
            PromptForm::Ids(range) => range.nonce_ids(),
        };
        for shape in self.shapes(drop, kept)?.take((drop + kept) as usize).skip(drop as usize) {
            let shape = shape?;
            (least, most) = (least.min(shape.prompt_tokens), most.max(shape.prompt_tokens));
            if shape.content == Content::Words {
                if let Cache::SharedPrefix { tokens } = self.cache {
                    cut += u64::from(shape.prompt_tokens <= tokens);
                }
                short += u64::from(shape.prompt_tokens < nonce_ids);
            }
        }
        if cut > 0 {
            said.push(format!(
                "WARNING: {cut} of {kept} measured prompts are not longer than the shared prefix: they are its beginning, and nothing else"
            ));
        }
        if short > 0 && self.cache == Cache::Unique {
            said.push(format!(
                "WARNING: {short} of {kept} measured prompts have fewer ids than the nonce's {nonce_ids}: some of them may be equal"
            ));
        }
        if least == most && kept > 1 {
            said.push(format!(
                "WARNING: all measured prompts are {most} tokens long: nothing will show how long and short requests pile up"
            ));
        }
        Ok(())
    }
}
