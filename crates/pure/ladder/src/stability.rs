//! Running again: first settled, and not to be disturbed; then for longer than what failed last,
//! which is told; then as long as the window, which clears the ledger.

use rekindle_types::reasons::event::LADDER_RECOVERED;
use rekindle_types::v1alpha1::{LedgerPhase, RestartLedgerStatus, Rung};
use rekindle_types::{EventSeverity, Tick, TickDuration};

use crate::attempts::LedgerAttempts;
use crate::draft::{ConditionStatus, DecisionDraft, EXHAUSTED, RECOVERED};
use crate::explanation::DecisionText;
use crate::observation::ObservedPod;
use crate::{LadderPolicy, sentence};

/// A pod whose containers have all been running this long, and are ready, is left alone. It is the
/// kubelet's first delay between two restarts.
const SETTLED_AFTER: TickDuration = TickDuration::from_secs(10);

/// Whether everything has been running and ready for long enough not to be disturbed.
pub(crate) fn is_settled(view: &ObservedPod<'_>, policy: &LadderPolicy, now: Tick) -> bool {
    has_been_up_for(settled_after(policy), view, now)
}

fn settled_after(policy: &LadderPolicy) -> TickDuration {
    SETTLED_AFTER.min(policy.window)
}

/// Whether it has recovered as well: what fails twenty seconds after each start has not, ten
/// seconds after one.
pub(crate) fn has_outlived(
    view: &ObservedPod<'_>,
    ledger: &RestartLedgerStatus,
    window: TickDuration,
    now: Tick,
) -> bool {
    has_been_up_for(recovers_after(ledger, window), view, now)
}

/// How long everything has to run until it has recovered.
fn recovers_after(ledger: &RestartLedgerStatus, window: TickDuration) -> TickDuration {
    outlives_after(ledger.last_run_seconds.map(TickDuration::of_field)).min(window)
}

/// How long something has to run that ran so long before it failed: until it is settled, and twice
/// as long as that.
pub(crate) fn outlives_after(last_run: Option<TickDuration>) -> TickDuration {
    last_run.map_or(SETTLED_AFTER, |last_run| SETTLED_AFTER.max(last_run.saturating_mul(2)))
}

fn has_been_up_for(enough: TickDuration, view: &ObservedPod<'_>, now: Tick) -> bool {
    view.is_ready() && view.up_since().is_some_and(|since| now.since(since) >= enough)
}

/// Follows up how the pod runs. `undisturbed_since` is absent while something is broken or a
/// restart is under way.
pub(crate) fn follow(
    draft: &mut DecisionDraft,
    view: &ObservedPod<'_>,
    policy: &LadderPolicy,
    undisturbed_since: Option<Tick>,
    now: Tick,
) {
    // Starts are told in whole seconds: what was decided later than one is the better bound.
    let decided = LedgerAttempts::from_ledger(&draft.ledger).latest();
    // a node whose clock is ahead, or was, tells of the future: then it counts from when that was
    // seen
    let noted = draft.ledger.stable_since.as_ref().map_or(now, Tick::from);
    let since = undisturbed_since.map(|since| if since > now { noted } else { since }.max(decided));
    let nothing_to_clear = match draft.ledger.phase {
        None | Some(LedgerPhase::Healthy) => draft.ledger.attempts.is_none(),
        Some(LedgerPhase::Climbing | LedgerPhase::Holding | LedgerPhase::Exhausted) => false,
    };
    if nothing_to_clear {
        draft.ledger.stable_since.take_if(|_| since.is_none());
        return;
    }
    draft.ledger.stable_since = since.map(Tick::to_micro_time);
    let Some(since) = since else { return };
    if now.since(since) >= policy.window {
        return clear(draft, view, policy, since);
    }
    draft.wake(since + policy.window);
    if !is_settled(view, policy, now) {
        draft.wake(since + settled_after(policy));
        return;
    }
    draft.ledger.held_by = None;
    let why = sentence::running(policy, &draft.ledger, since);
    why.write_to(&mut draft.ledger);
    if has_outlived(view, &draft.ledger, policy.window, now) {
        recover(draft, policy, &why);
    } else {
        draft.wake(since + recovers_after(&draft.ledger, policy.window));
    }
}

fn recover(draft: &mut DecisionDraft, policy: &LadderPolicy, why: &DecisionText) {
    tell_recovered(draft, policy, why);
    if draft.ledger.phase == Some(LedgerPhase::Holding) {
        draft.ledger.phase = Some(LedgerPhase::Climbing);
    }
}

/// Told once, and only when the ladder has acted or waited.
fn tell_recovered(draft: &mut DecisionDraft, policy: &LadderPolicy, why: &DecisionText) {
    let has_acted = match draft.ledger.phase {
        Some(LedgerPhase::Exhausted | LedgerPhase::Holding) => true,
        Some(LedgerPhase::Healthy | LedgerPhase::Climbing) | None => {
            LedgerAttempts::from_ledger(&draft.ledger)
                .highest()
                .is_some_and(|rung| rung > Rung::Container)
        }
    };
    if has_acted && !draft.has_condition(RECOVERED) {
        draft.condition(RECOVERED, ConditionStatus::True, policy, &why.message);
        draft.tell(EventSeverity::Normal, LADDER_RECOVERED, why);
    }
}

/// What does not fail for the whole window has its attempts back. That it has recovered is told
/// only when it says that it is ready.
fn clear(draft: &mut DecisionDraft, view: &ObservedPod<'_>, policy: &LadderPolicy, since: Tick) {
    let why = sentence::cleared(policy, since);
    if view.is_ready() {
        tell_recovered(draft, policy, &why);
    }
    draft.condition(EXHAUSTED, ConditionStatus::False, policy, &why.message);
    draft.ledger.attempts = None;
    draft.ledger.rung = None;
    draft.ledger.held_rung = None;
    draft.ledger.in_vain = None;
    draft.ledger.dry_run_since = None;
    draft.ledger.last_run_seconds = None;
    draft.ledger.ladder_uid = None;
    draft.decide(LedgerPhase::Healthy, None, &why);
}
