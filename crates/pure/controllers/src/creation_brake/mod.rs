//! The brake on creations: no controller creates the same object again and again without a growing
//! pause, whatever the cause (P18).
//!
//! Every plan passes [`hold_back`] before it is carried out. What has become of the objects that
//! were created before follows from what the view sees, and from the answers to our own writes; the
//! controllers need not know of it.
//!
//! ```text
//!   View: a pod failed, was deleted or changed hands early ─┐
//!         one that has a place for itself is created again ─┴─► strike (`streak`) ─► pause ─► hold_back: the plan without it,
//!                                                                                             an event once, the next look then
//! ```
//!
//! What is never braked: any number of objects that are created for the first time, what is scaled
//! down and up, what an edited template makes new, the pods of a Job that succeed, and objects that
//! lived for ten minutes.
//!
//! After a change of leaders failed pods count as before, since they are still there. What was
//! deleted before it is forgotten.

mod early_ends;
mod growing_pause;
mod ledger;
mod series;
mod streak;

pub(crate) use growing_pause::AFTER_FAILURES;
pub(crate) use ledger::CreationLedger;
pub use series::CreationSeries;
pub(crate) use streak::CreationPause;

use std::collections::BTreeMap;

use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, Tick, span};

use crate::events::{EventNote, EventSubject};
use crate::plan::PlannedWrite;
use crate::{ClusterView, ObjectId, ResourceKind, ViewObject, WritePlan};
use series::SeriesMeasure;

/// `source.component` of its events where the write tells no other.
const COMPONENT: &str = "rekindle-controllers";

/// The plan for an object without the creations that have to wait, and without what depends on
/// them.
pub fn hold_back(view: &ClusterView, of: &ObjectId, plan: &mut WritePlan, now: Tick) {
    let mut paused: BTreeMap<CreationSeries, (CreationPause, usize)> = BTreeMap::new();
    for step in plan.batches.iter().flatten() {
        if let Some((series, pause)) = pause_of(view, step, now) {
            paused.entry(series).or_insert((pause, 0)).1 += 1;
        }
    }
    if paused.is_empty() {
        return;
    }
    // of those that stand for one another, as many go on as are not held back
    let mut room: BTreeMap<&CreationSeries, usize> = paused
        .iter()
        .map(|(series, (pause, planned))| (series, planned.saturating_sub(pause.held)))
        .collect();
    let mut held = Vec::new();
    let mut last_batch = plan.batches.len();
    for (index, batch) in plan.batches.iter_mut().enumerate() {
        let steps = std::mem::take(batch);
        for step in steps {
            match CreationSeries::of_step(&step).and_then(|series| room.get_mut(&series)) {
                None => batch.push(step),
                Some(0) => {
                    if has_dependents(&step) {
                        last_batch = last_batch.min(index);
                    }
                    held.push(step);
                }
                Some(left) => {
                    *left -= 1;
                    batch.push(step);
                }
            }
        }
    }
    plan.batches.truncate(last_batch + 1);
    plan.batches.retain(|batch| !batch.is_empty());
    for (series, (pause, _)) in paused {
        let step = held.iter().find(|step| CreationSeries::of_step(step).as_ref() == Some(&series));
        let report = step.and_then(|step| step.report.as_ref()).map(|report| &report.failure);
        let about = report
            .map(|note| note.about.clone())
            .or_else(|| view.get(of).map(EventSubject::from_object));
        announce(series, pause, about, report.map_or(COMPONENT, |note| note.component), plan, now);
    }
}

/// The pause that holds an object's place in a series, for a controller that has to know of it
/// before it clears the place.
pub(crate) fn pause_for(
    view: &ClusterView,
    object: &ViewObject,
    now: Tick,
) -> Option<CreationPause> {
    view.memories().creations.pause(&CreationSeries::of_object(object), now)
}

/// Looks again when the pause is over, and says once that there is one.
pub(crate) fn announce(
    series: CreationSeries,
    pause: CreationPause,
    about: Option<EventSubject>,
    component: &'static str,
    plan: &mut WritePlan,
    now: Tick,
) {
    plan.look_again(pause.until);
    let Some(about) = about.filter(|_| !pause.is_told) else { return };
    let (wait, kind, strikes) = (span::show(pause.until.since(now)), series.kind, pause.strikes);
    let message = match series.counted_by {
        SeriesMeasure::EarlyEnds => format!(
            "waiting {wait} before the next {kind} is created: {strikes} in a row failed or were deleted soon after their creation"
        ),
        SeriesMeasure::Creations => format!(
            "waiting {wait} before the {kind} is created again: it was created {} times in a row",
            strikes.saturating_add(1)
        ),
    };
    let (severity, reason) = (EventSeverity::Warning, event::CREATION_PAUSED);
    plan.notes.push(EventNote { about, severity, reason, message, component, kind: None });
    plan.paused.push(series);
}

fn pause_of(
    view: &ClusterView,
    step: &PlannedWrite,
    now: Tick,
) -> Option<(CreationSeries, CreationPause)> {
    if view.memories().creations.is_empty() {
        return None;
    }
    let series = CreationSeries::of_step(step)?;
    let pause = view.memories().creations.pause(&series, now)?;
    Some((series, pause))
}

/// True when later batches rely on the object: a claim comes before its pod, a slice before the end
/// of an older one. Pods of a controller rely on nothing but themselves.
fn has_dependents(step: &PlannedWrite) -> bool {
    let series = CreationSeries::of_step(step);
    series
        .is_some_and(|series| series.is_counted_by_creations() || series.kind != ResourceKind::Pod)
}
