//! Events, whichever of their two forms a recorder used, and which of them an account needs.

use k8s_openapi::api::core::v1::Event;
use rekindle_diagnosis::EventReading;
use rekindle_types::Tick;
use rekindle_types::reasons::event;

use crate::words::line;

/// One event, repeats counted by its recorder.
#[derive(Clone, Debug)]
pub(crate) struct SeenEvent {
    pub(crate) first: Tick,
    pub(crate) last: Tick,
    pub(crate) count: u32,
    pub(crate) reason: String,
    /// The container that it is about.
    pub(crate) container: Option<String>,
    pub(crate) message: String,
}

/// The events in order of when they were seen last.
pub(crate) fn read(events: &[Event]) -> Vec<SeenEvent> {
    let mut seen: Vec<SeenEvent> = events.iter().filter_map(read_one).collect();
    seen.sort_by(|a, b| (a.last, &a.reason, &a.message).cmp(&(b.last, &b.reason, &b.message)));
    seen
}

/// None for one without any time, which no server stores.
fn read_one(event: &Event) -> Option<SeenEvent> {
    let series = event.series.as_ref();
    let first = event
        .first_timestamp
        .as_ref()
        .map(Tick::from)
        .or_else(|| event.event_time.as_ref().map(Tick::from))
        .or_else(|| event.metadata.creation_timestamp.as_ref().map(Tick::from))?;
    let last = series
        .and_then(|series| series.last_observed_time.as_ref().map(Tick::from))
        .or_else(|| event.last_timestamp.as_ref().map(Tick::from))
        .unwrap_or(first);
    let count = series.and_then(|series| series.count).or(event.count).unwrap_or(1);
    Some(SeenEvent {
        first,
        last,
        count: u32::try_from(count).unwrap_or(1).max(1),
        reason: event.reason.clone().unwrap_or_default(),
        container: container_of(event.involved_object.field_path.as_deref().unwrap_or_default()),
        message: line(event.message.as_deref().unwrap_or_default()),
    })
}

/// `spec.containers{app}` → `app`.
fn container_of(field_path: &str) -> Option<String> {
    let (_, rest) = field_path.split_once('{')?;
    Some(rest.strip_suffix('}')?.to_owned())
}

impl SeenEvent {
    /// What it tells, by its reason.
    pub(crate) fn reading(&self) -> EventReading {
        EventReading::parse(&self.reason)
    }

    pub(crate) fn is_of(&self, container: &str) -> bool {
        self.container.as_deref() == Some(container)
    }
}

/// The steps of every start, and what a ledger tells better.
pub(crate) fn is_a_step_of_every_start(seen: &SeenEvent) -> bool {
    matches!(seen.reading(), EventReading::StepOfStart | EventReading::LadderDecision)
}

/// It says that the pod was ended.
pub(crate) fn tells_of_an_end(seen: &SeenEvent) -> bool {
    is_plain_stop(seen) || tells_who_ended_it(seen)
}

/// A container is told to stop, and nothing else is said of it.
fn is_plain_stop(seen: &SeenEvent) -> bool {
    seen.reading() == EventReading::Stop && seen.message.starts_with("Stopping container")
}

/// It says that the pod was ended, and by whom. That its containers are stopped is told after it.
pub(crate) fn tells_who_ended_it(seen: &SeenEvent) -> bool {
    seen.reading() == EventReading::EndOfPod
}

/// The same of a pod whose status is gone: that tells no more what keeps its containers from
/// running.
pub(crate) fn is_routine_of_the_lost(seen: &SeenEvent) -> bool {
    let is_of_status = matches!(seen.reason.as_str(), event::BACK_OFF | event::FAILED);
    is_routine(seen) && !is_of_status
}

/// What goes without saying, or is told from a better source: the steps of every start, and what
/// statuses, ledger and PodRestarts hold.
pub(crate) fn is_routine(seen: &SeenEvent) -> bool {
    match seen.reading() {
        EventReading::StepOfStart
        | EventReading::LadderDecision
        | EventReading::ToldByStatus
        | EventReading::Restart
        | EventReading::ControllerStep => true,
        EventReading::Stop => is_plain_stop(seen),
        // the reason alone, which the container's status tells with its message
        EventReading::Failure => seen.message.starts_with("Error: "),
        EventReading::EndOfPod
        | EventReading::Obstacle(_)
        | EventReading::Probe
        | EventReading::OomKilling
        | EventReading::News
        | EventReading::Unknown => false,
    }
}
