//! Rebuilds every published number.
