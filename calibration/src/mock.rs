//! The known-truth server.
