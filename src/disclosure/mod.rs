//! What a reader needs before believing a campaign: the fifteen boxes.

pub mod boxes;
pub mod directory;
