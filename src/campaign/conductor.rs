//! Carries out sessions, on the control core, in place of the feeder: makes each turn's request when the reply that it
//! needs is there, shortly before its due. Whose turn it is says `Conduct`.

use super::conduct::{Conduct, NextTurn, Reply, Shapes};
use super::feeder::{Tickets, Unsent};
use super::{RowFile, Ticket};
use crate::reading::Asked;
use crate::reading::turns::PlannedTurn;
use crate::rundir::row::{Outcome, Phase};
use crate::session_load::SessionLoad;
use crate::target::openai::BodyTemplate;
use crate::workload::conversation::Conversation;
use crate::workload::prompt::PromptMaker;
use crate::workload::sessions::Pause;
use bench_engine::clock::{Clock, SystemClock};
use bench_engine::conn::Job;
use bench_engine::units::{Instant, Nanos};
use bench_engine::wire::request::RequestTemplate;
use bench_engine::worker::{Message, Shared};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// A turn is made so long before its due: what lies in the supply keeps a worker's slot.
const AHEAD: Nanos = Nanos::from_millis(20);
/// How late a stop is noticed at most.
const LONGEST_WAIT: Duration = Duration::from_millis(20);
/// Between looks at a supply that is full.
const FULL_WAIT: Duration = Duration::from_micros(300);

/// What the record reader tells of a request at once, before its row is made.
#[derive(Clone, Debug)]
pub struct Replied {
    /// Session.
    pub session: u64,
    /// As its row will say.
    pub outcome: Outcome,
    /// When its reply ended: as it arrived, else as it was seen.
    pub ended: Instant,
    /// Answer text of choice 0.
    pub text: String,
    /// Server's usage.
    pub prompt_tokens: Option<u64>,
    /// Server's usage, else token ids.
    pub completion_tokens: Option<u64>,
}

/// Of one window.
pub struct Conductor<'a> {
    /// Head.
    pub request: &'a RequestTemplate,
    /// Body.
    pub body: &'a BodyTemplate,
    /// Messages.
    pub prompts: &'a PromptMaker,
    /// Load point.
    pub load: &'a SessionLoad,
    /// Its number.
    pub index: u32,
    /// Window.
    pub window: u32,
    /// Window number of the run.
    pub serial: u64,
    /// Turns with a smaller trace id are warm-up.
    pub drop: u64,
    /// Users go on past the planned sessions until the window has lasted so long.
    pub min_duration: Nanos,
    /// When the window opened, in ns; 0 before that.
    pub opened: &'a AtomicU64,
    /// Where the requests go.
    pub shared: &'a Shared,
    /// What is known of them.
    pub tickets: &'a Tickets,
    /// The first turns are in the supply.
    pub primed: &'a AtomicBool,
}

/// The sessions of a window while they go on, and what its end leaves of them.
pub struct Conducting<'a> {
    of: Conductor<'a>,
    conduct: Conduct<'a>,
    replies: Receiver<Replied>,
    talks: HashMap<u64, Talk>,
    made: u64,
    /// Made requests that are over.
    over: u64,
    /// First turns of arriving sessions that were made after their due.
    late: u64,
    /// Made, and found no room before the window was stopped.
    left: Option<Job>,
}

/// What was said in a session.
#[derive(Default)]
struct Talk {
    said: Conversation,
    /// Length of all of it, in tokens, as far as it was answered.
    tokens: u64,
    /// Lengths that the last turn asked for, in tokens: prompt, reply.
    asked: (u64, u64),
}

impl<'a> Conductor<'a> {
    /// Ready to begin. `replies` comes from the record reader, one for each request that is made here and taken by a
    /// worker.
    ///
    /// # Errors
    /// The schedule cannot be read.
    pub fn with(self, shapes: Shapes<'a>, replies: Receiver<Replied>) -> io::Result<Conducting<'a>> {
        let conduct = Conduct::new(self.load, shapes, self.min_duration)?;
        Ok(Conducting { of: self, conduct, replies, talks: HashMap::new(), made: 0, over: 0, late: 0, left: None })
    }
}

impl Conducting<'_> {
    /// Until every session is over, or the window is stopped. Gives the number of requests made.
    ///
    /// # Errors
    /// The file that sessions come from can be read no more.
    pub fn run(&mut self) -> io::Result<u64> {
        // waits end when they should, not up to 50 us later (prctl(2), PR_SET_TIMERSLACK)
        let _ = nix::sys::prctl::set_timerslack(1);
        let ended = self.go_on();
        self.of.shared.supply_over.store(true, Ordering::Release);
        ended.map(|()| self.made)
    }

    /// First turns of arriving sessions that were made only after they were due.
    pub fn late(&self) -> u64 {
        self.late
    }

    fn go_on(&mut self) -> io::Result<()> {
        loop {
            while let Ok(replied) = self.replies.try_recv() {
                self.hear(replied);
            }
            let until = self.now() + AHEAD;
            while let Some(turn) = self.conduct.next(until)? {
                let job = self.make(&turn);
                if !self.push(job) {
                    return Ok(());
                }
                self.late += u64::from(turn.user.is_none() && turn.turn == 0 && turn.due < self.now());
            }
            self.of.primed.store(true, Ordering::Release);
            if self.conduct.is_over() || self.is_stopped() {
                return Ok(());
            }
            let idle = self.conduct.next_due().map_or(LONGEST_WAIT, |due| {
                let before_due = (Instant::default() + due).saturating_since(Instant::default() + AHEAD + self.now());
                Duration::from_nanos(before_due.ns()).min(LONGEST_WAIT)
            });
            if let Ok(replied) = self.replies.recv_timeout(idle) {
                self.hear(replied);
            }
        }
    }

    /// After a window that was stopped at `at`, of whose requests workers had `in_hand` when their dues had not come:
    /// turns that had become due and that no worker took, made or not, go to the record reader as not sent.
    ///
    /// # Errors
    /// As for [`Conducting::run`].
    pub fn leave_unsent(&mut self, opened: Instant, at: Instant, in_hand: u64) -> io::Result<Unsent> {
        let mut unsent = Unsent::default();
        let left: Vec<Job> = std::iter::from_fn(|| self.of.shared.supply.pop()).chain(self.left.take()).collect();
        // a reply that ended before the stop may have made another turn due
        while self.over + left.len() as u64 + in_hand < self.made {
            let Ok(replied) = self.replies.recv() else { break };
            self.hear(replied);
        }
        for job in left {
            match job.due {
                Some(due) if opened + due <= at => self.not_sent(job, opened, at, &mut unsent),
                _ => unsent.never_due += 1,
            }
        }
        while let Some(turn) = self.conduct.next(at.saturating_since(opened))? {
            let job = self.make(&turn);
            unsent.not_made += 1;
            self.not_sent(job, opened, at, &mut unsent);
        }
        Ok(unsent)
    }

    fn not_sent(&self, job: Job, opened: Instant, at: Instant, unsent: &mut Unsent) {
        unsent.rows += 1;
        // no worker had it: it is recorded under the first one
        self.of.shared.post(Message::Finished(0, job.not_sent(opened, at)));
    }

    /// From the opening of the window; nothing before it.
    fn now(&self) -> Nanos {
        match self.of.opened.load(Ordering::Acquire) {
            0 => Nanos::ZERO,
            opened => SystemClock.now().saturating_since(Instant::from_ns(opened)),
        }
    }

    fn is_stopped(&self) -> bool {
        self.of.shared.stop.load(Ordering::Relaxed)
    }

    /// A request is over.
    fn hear(&mut self, replied: Replied) {
        self.over += 1;
        let Replied { session, outcome, ended, text, prompt_tokens, completion_tokens } = replied;
        let reply = match outcome {
            Outcome::Ok => Reply::Ok,
            Outcome::Failed => Reply::Failed,
            Outcome::Censored | Outcome::NotSent => Reply::Cut,
        };
        let opened = Instant::from_ns(self.of.opened.load(Ordering::Acquire));
        self.conduct.ended(session, reply, ended.saturating_since(opened));
        if !self.conduct.is_under_way(session) {
            self.talks.remove(&session);
        } else if let Some(talk) = self.talks.get_mut(&session) {
            talk.said.answered(text);
            let (prompt, output) = talk.asked;
            talk.tokens = prompt_tokens.unwrap_or(prompt).saturating_add(completion_tokens.unwrap_or(output));
        }
    }

    fn make(&mut self, turn: &NextTurn) -> Job {
        let Conductor { request, body, prompts, load, index, window, serial, drop, tickets, .. } = self.of;
        let talk = self.talks.entry(turn.session).or_default();
        let made = talk.said.ask(prompts, serial, turn.trace_id, &turn.shape);
        let bytes = request.with_json(&body.body_of_turn(talk.said.messages(), &made));
        talk.asked = (talk.tokens.saturating_add(made.prompt_tokens), made.output_tokens);
        let asked = Asked {
            trace_id: turn.trace_id,
            class: turn.shape.shape.class.clone(),
            phase: if turn.trace_id < drop { Phase::Warmup } else { Phase::Measured },
            prompt_tokens: talk.asked.0,
            output_tokens: made.output_tokens,
            nonce: made.nonce,
            begins: made.begins,
            prompt_sha256: made.sha256,
            streamed: body.stream,
        };
        let job_id = |trace_id: u64| serial << 24 | trace_id;
        let place = PlannedTurn {
            id: turn.session,
            turn: turn.turn,
            turns: turn.turns,
            user: turn.user,
            needs: turn.needs.map(job_id),
            paced: matches!(load.law.pause, Pause::Every { .. }),
            pause: turn.shape.pause,
            message_tokens: made.prompt_tokens,
        };
        let id = job_id(turn.trace_id);
        if let Ok(mut tickets) = tickets.lock() {
            tickets.insert(id, Ticket { cell: index, window, file: RowFile::Requests, asked, turn: Some(place) });
        }
        self.made += 1;
        Job::new(id, bytes).due_at(turn.due)
    }

    /// Waits for room; false when the window was stopped.
    fn push(&mut self, job: Job) -> bool {
        let mut job = job;
        loop {
            if self.is_stopped() {
                self.left = Some(job);
                return false;
            }
            match self.of.shared.supply.push(job) {
                Ok(()) => return true,
                Err(back) => job = back,
            }
            std::thread::sleep(FULL_WAIT);
        }
    }
}
