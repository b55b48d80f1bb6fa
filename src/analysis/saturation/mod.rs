//! How much a server can carry: the search for the highest load that keeps to the goals, whether a load is more than
//! the server can do, and the three points that are named of it.

pub mod growth;
pub mod points;
#[cfg(test)]
mod queue;
pub mod search;
#[cfg(test)]
mod tests;
