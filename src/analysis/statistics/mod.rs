//! Statistics without a window or a run around them: values in, figures out, the same bits on every machine.

pub mod token_counts;
