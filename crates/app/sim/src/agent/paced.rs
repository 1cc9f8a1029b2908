//! What an agent waits for, told to whoever looks at the runtime's pace.

use rekindle_pod::{ActionId, ActionOutcome, ContainerStartKey, CoreAction};
use rekindle_types::{ContainerName, Tick, TickDuration};

use super::{ContainerLife, SimulatedPod, TimedEffect};
use crate::pace::{RuntimeCallName, RuntimePace};

impl SimulatedPod {
    /// What an action asks of the runtime, if anybody looks.
    pub(super) fn asks(&self, action: &CoreAction, pace: &RuntimePace) -> Option<RuntimeCallName> {
        let starts =
            |name: &ContainerName| u64::try_from(self.starts_of(&name.0)).unwrap_or(u64::MAX);
        let asked =
            pace.is_looked_at().then(|| RuntimeCallName::new(action, self.tally.sandboxes, starts));
        asked.flatten()
    }

    /// The answer comes when the pace has it.
    pub(super) fn keep_pace(
        &mut self,
        now: Tick,
        (id, asked): (ActionId, RuntimeCallName),
        pace: &RuntimePace,
        effects: &mut [TimedEffect],
    ) {
        let answer = effects.iter_mut().find_map(|effect| {
            let TimedEffect::Answer(after, of, result) = effect else { return None };
            (*of == id).then_some((after, result))
        });
        if let Some((after, result)) = answer {
            let took = pace.takes(now, self.uid(), &asked, *after);
            let later = took.as_micros().saturating_sub(after.as_micros());
            *after = took;
            if let RuntimeCallName::Start(key) = &asked
                && let Ok(ActionOutcome::ContainerMade { start: Ok(start), .. }) = result
            {
                let later = TickDuration::from_micros(later);
                *start = *start + later;
                self.starts_later(key, later, effects);
            }
        }
        self.asked.insert(id, asked);
    }

    /// A process that the runtime took its time to start, and that ends as long after that as it
    /// would have.
    fn starts_later(
        &mut self,
        key: &ContainerStartKey,
        later: TickDuration,
        effects: &mut [TimedEffect],
    ) {
        if let Some(ContainerLife::Running { started_at, .. }) = self.containers.get_mut(key) {
            *started_at = *started_at + later;
        }
        for effect in effects {
            if let TimedEffect::Ends(after, of, _) = effect
                && of == key
            {
                *after = *after + later;
            }
        }
    }

    /// An answer is here.
    pub(super) fn note_pace(&mut self, now: Tick, id: ActionId, pace: &mut RuntimePace) {
        if let Some(asked) = self.asked.remove(&id) {
            pace.heard(now, self.uid(), asked);
        }
    }

    /// The agent died, and has no answer to what it asked. The next one sees what was done, and
    /// asks for the rest again.
    pub(super) fn nothing_is_asked(&mut self, now: Tick, pace: &mut RuntimePace) {
        for asked in std::mem::take(&mut self.asked).into_values() {
            // how a probe went nobody sees
            if !matches!(asked, RuntimeCallName::Probe(..)) {
                pace.heard(now, self.uid(), asked);
            }
        }
    }

    fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }
}
