//! What people read. Reports are functions of files.
