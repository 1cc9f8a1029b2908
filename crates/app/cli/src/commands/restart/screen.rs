//! What a restart shows while it goes on.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::printed::RestartOutputLines;
use crate::output;

/// How often the sign of life turns.
const TURN: Duration = Duration::from_millis(120);

/// Lines, and on a terminal what is waited for below them.
pub(super) struct ProgressScreen<'a> {
    bar: Option<ProgressBar>,
    /// What takes the lines, and the requests.
    pub(super) printed: &'a RestartOutputLines,
}

impl<'a> ProgressScreen<'a> {
    pub(super) fn new(pods: usize, printed: &'a RestartOutputLines) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {pos}/{len} {msg} ({elapsed})")
                .expect("the template is a constant that a test reads");
            let bar = ProgressBar::new(pods as u64).with_style(style);
            bar.enable_steady_tick(TURN);
            bar
        });
        Self { bar, printed }
    }

    pub(super) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.printed.line(text)),
            None => self.printed.line(text),
        }
    }

    /// What goes wrong meanwhile, on standard error.
    pub(super) fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(text)),
            None => output::note(text),
        }
    }

    pub(super) fn waiting(&self, text: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(text);
        }
    }

    pub(super) fn one_done(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }
}

impl Drop for ProgressScreen<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_template_is_one() {
        assert!(ProgressStyle::with_template("{spinner} {pos}/{len} {msg} ({elapsed})").is_ok());
    }
}
