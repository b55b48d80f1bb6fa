//! What the rows of a window show of connections behind a reply: whether they carried another request, and what the
//! reply had announced of that.

use crate::rundir::row::Row;
use std::sync::atomic::{AtomicU64, Ordering};

/// As it is counted while the window runs.
#[derive(Debug, Default)]
pub struct AtomicAfterwards {
    replies: AtomicU64,
    closing: AtomicU64,
    reopened: AtomicU64,
    retried: AtomicU64,
}

impl AtomicAfterwards {
    /// Before a window.
    pub(super) fn clear(&self) {
        [&self.replies, &self.closing, &self.reopened, &self.retried]
            .iter()
            .for_each(|n| n.store(0, Ordering::Relaxed));
    }

    /// A row; `lets_go_on` is what its reply announced, see [`crate::reading::FinishedRow`].
    pub(super) fn count(&self, row: &Row, lets_go_on: Option<bool>) {
        let add = |n: &AtomicU64, is_so: bool| n.fetch_add(u64::from(is_so), Ordering::Relaxed);
        add(&self.replies, lets_go_on.is_some());
        add(&self.closing, lets_go_on == Some(false));
        add(&self.reopened, row.flags.iter().any(|flag| flag == "reopened"));
        add(&self.retried, row.retries > 0);
    }

    /// As it stands.
    pub(super) fn so_far(&self) -> Afterwards {
        let [replies, closing, reopened, retried] =
            [&self.replies, &self.closing, &self.reopened, &self.retried].map(|n| n.load(Ordering::Relaxed));
        Afterwards { replies, closing, reopened, retried }
    }
}

/// What came behind the replies of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Afterwards {
    /// Replies with a head.
    replies: u64,
    /// Of them those that announced the end of their connection.
    closing: u64,
    /// Requests on a new connection in place of one that had ended.
    reopened: u64,
    /// Requests sent again, since the connection ended before a byte of the reply.
    retried: u64,
}

impl Afterwards {
    /// For people; None where every connection carried whatever was to go over it. `ended_here`: a worker found one ended
    /// that was to stay, and keeps none since.
    pub(super) fn words(&self, ended_here: bool) -> Option<String> {
        let Afterwards { replies, closing, reopened, retried } = self;
        if *reopened == 0 && *retried == 0 {
            return None;
        }
        let announced = match closing {
            0 => "none".to_owned(),
            n => n.to_string(),
        };
        let mut words = format!(
            "connections: {reopened} opened in place of one that had ended (flag reopened); of {replies} replies {announced} \
             had announced it"
        );
        if *retried > 0 {
            let requests = if *retried == 1 { "1 request was" } else { &format!("{retried} requests were") };
            words += &format!("; {requests} sent again, since the old one ended without a byte of the reply");
        }
        if ended_here {
            words += "; after the first such end a worker ends each connection itself, so that not all of these are the \
                      server's doing";
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::request;

    fn of(rows: &[(bool, u32, Option<bool>)], ended_here: bool) -> Option<String> {
        let seen = AtomicAfterwards::default();
        for (reopened, retries, lets_go_on) in rows {
            let flags = reopened.then(|| "reopened".to_owned()).into_iter().collect();
            seen.count(&Row { flags, retries: *retries, ..request(0, 0) }, *lets_go_on);
        }
        let words = seen.so_far().words(ended_here);
        seen.clear();
        assert_eq!(seen.so_far(), Afterwards::default());
        words
    }

    #[test]
    fn only_what_the_rows_show_is_told() {
        let kept = (false, 0, Some(true));
        assert_eq!(of(&[kept, kept], false), None);
        assert_eq!(of(&[(false, 0, Some(false)), (false, 0, None)], false), None, "nothing had to be opened anew");
        let once = of(&[kept, kept, kept, (true, 0, Some(true))], false).expect("told");
        assert!(once.starts_with("connections: 1 opened in place of one that had ended"), "{once}");
        assert!(once.ends_with("(flag reopened); of 4 replies none had announced it"), "{once}");
        // closed when the next request was there, without a byte of a reply to it
        let later = of(&[kept, (true, 1, Some(true)), (true, 0, Some(true))], true).expect("told");
        assert!(
            later.contains("2 opened")
                && later.contains("of 3 replies none")
                && later.contains("; 1 request was sent again, since"),
            "{later}"
        );
        assert!(later.contains("not all of these are the server's doing") && !later.contains("each reply"), "{later}");
        let said = of(&[(false, 0, Some(false)), (true, 0, Some(false)), (true, 0, None)], false).expect("told");
        assert!(said.contains("2 opened") && said.ends_with("of 2 replies 2 had announced it"), "{said}");
    }
}
