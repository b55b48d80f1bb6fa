//! The subcommands, each in the file of its name: arguments in, exit status out.

pub mod calibrate;
pub mod campaign_report;
pub mod compare;
pub mod config_file;
pub mod console;
pub mod decode;
pub mod export;
pub mod import;
pub mod ledger;
pub mod mock;
pub mod probe;
pub mod report;
pub mod run;
pub mod saturate;
pub mod shell;
pub mod verify;
