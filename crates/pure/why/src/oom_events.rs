//! Processes that were killed for lack of memory in a container that runs on: its exit code tells
//! nothing, for it has none.

use rekindle_types::Tick;
use rekindle_types::reasons::event;

use crate::events::SeenEvent;
use crate::subject::ContainerSubject;
use crate::words::{show_time, times};

/// What is told of a pod that is well, and what would help.
pub(crate) struct OomKilling {
    /// As a sentence goes on.
    pub(crate) sentence: String,
    pub(crate) advice: String,
}

/// The last one of a run that still goes on.
pub(crate) fn oom_of_running(
    subjects: &[ContainerSubject<'_>],
    seen: &[SeenEvent],
) -> Option<OomKilling> {
    let runs_since = |name: &str| {
        let subject = subjects.iter().find(|subject| subject.name == name)?;
        let running = subject.status.state.as_ref()?.running.as_ref()?;
        running.started_at.as_ref().map(Tick::from)
    };
    let is_of_run = |seen: &&SeenEvent| {
        let since = seen.container.as_deref().and_then(runs_since);
        seen.reason == event::OOM_KILLING && since.is_some_and(|since| seen.last >= since)
    };
    let seen = seen.iter().rev().find(is_of_run)?;
    let container = seen.container.as_deref()?;
    let (times, last) = (times(seen.count), show_time(&seen.last.to_time()));
    Some(OomKilling {
        sentence: format!(
            "processes of container {container:?} were killed for lack of memory {times}, last at {last}, and it runs on"
        ),
        advice: format!(
            "raise resources.limits.memory of container {container:?}, or make it use less: what was killed in it may be missing"
        ),
    })
}
