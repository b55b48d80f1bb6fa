//! What is told of a campaign while it runs.
