//! What a reader needs before believing a campaign: the fifteen boxes, and the ledger of every campaign that was started.

pub mod boxes;
pub mod directory;
pub mod ledger;
