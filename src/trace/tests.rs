//! Whole traces, read from bytes.
