//! What the program writes, and the only place where it does. That nobody reads any more, as behind
//! `| head`, ends no command and stops nothing half-way: what was asked for is done. `println!`
//! would panic there, as the runtime ignores SIGPIPE.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use anyhow::Context;

/// Writes what a command was asked to print.
///
/// # Errors
/// When it cannot be written. Who has closed the pipe has read enough: that is none.
pub fn print(text: &str) -> anyhow::Result<()> {
    match put(std::io::stdout(), text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.context("write to standard output"),
    }
}

/// Writes bytes that a command was asked for. Unlike a text, they are of no use in part.
///
/// # Errors
/// When they cannot be written.
pub fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut to = std::io::stdout();
    to.write_all(bytes).and_then(|()| to.flush()).context("write to standard output")
}

/// Shows what is a courtesy: that it cannot be written is no reason not to go on.
pub fn show(text: &str) {
    let _not_shown = put(std::io::stdout(), text);
}

/// Tells in a line what was done, as [`show`].
pub fn tell(line: impl Display) {
    show(&format!("{line}\n"));
}

/// The same on standard error: what went wrong, or is only there to be looked at.
pub fn note(line: impl Display) {
    let _not_shown = put(std::io::stderr(), &format!("{line}\n"));
}

fn put(mut to: impl Write, text: &str) -> std::io::Result<()> {
    to.write_all(text.as_bytes()).and_then(|()| to.flush())
}
