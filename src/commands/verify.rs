//! `tarebench verify`.

use crate::FAILED;
use crate::commands::console::tell;
use tarebench::cli::VerifyArgs;
use tarebench::verify;

/// Rebuilds every figure of a run; the exit status.
pub fn verify(args: &VerifyArgs) -> u8 {
    match verify::verify(&args.dir) {
        Ok(verified) => match tarebench::evidence::verify(&args.dir, verified.published) {
            Ok(comparisons) => {
                tell(&format!("{}\n", verify::Verified { comparisons, ..verified }));
                0
            }
            Err(difference) => {
                tell(&format!("{difference:#}\n"));
                FAILED
            }
        },
        Err(difference) => {
            tell(&format!("{difference}\n"));
            FAILED
        }
    }
}
