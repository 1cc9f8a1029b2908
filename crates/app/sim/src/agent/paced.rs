//! What an agent waits for, told to whoever looks at the runtime's pace.

use rekindle_pod::{Action, ActionId, ContainerKey, Outcome};
use rekindle_types::{ContainerName, Tick, TickDuration};

use super::{Effect, Life, PodOnNode};
use crate::pace::{Asked, Pace};

impl PodOnNode {
    /// What an action asks of the runtime, if anybody looks.
    pub(super) fn asks(&self, action: &Action, pace: &Pace) -> Option<Asked> {
        let starts =
            |name: &ContainerName| u64::try_from(self.starts_of(&name.0)).unwrap_or(u64::MAX);
        let asked = pace.is_looked_at().then(|| Asked::of(action, self.tally.sandboxes, starts));
        asked.flatten()
    }

    /// The answer comes when the pace has it.
    pub(super) fn keep_pace(
        &mut self,
        now: Tick,
        (id, asked): (ActionId, Asked),
        pace: &Pace,
        effects: &mut [Effect],
    ) {
        let answer = effects.iter_mut().find_map(|effect| {
            let Effect::Answer(after, of, result) = effect else { return None };
            (*of == id).then_some((after, result))
        });
        if let Some((after, result)) = answer {
            let took = pace.takes(now, self.uid(), &asked, *after);
            let later = took.as_micros().saturating_sub(after.as_micros());
            *after = took;
            if let Asked::Start(key) = &asked
                && let Ok(Outcome::ContainerMade { start: Ok(start), .. }) = result
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
    fn starts_later(&mut self, key: &ContainerKey, later: TickDuration, effects: &mut [Effect]) {
        if let Some(Life::Running { started_at, .. }) = self.containers.get_mut(key) {
            *started_at = *started_at + later;
        }
        for effect in effects {
            if let Effect::Ends(after, of, _) = effect
                && of == key
            {
                *after = *after + later;
            }
        }
    }

    /// An answer is here.
    pub(super) fn note_pace(&mut self, now: Tick, id: ActionId, pace: &mut Pace) {
        if let Some(asked) = self.asked.remove(&id) {
            pace.heard(now, self.uid(), asked);
        }
    }

    /// The agent died, and has no answer to what it asked. The next one sees what was done, and
    /// asks for the rest again.
    pub(super) fn nothing_is_asked(&mut self, now: Tick, pace: &mut Pace) {
        for asked in std::mem::take(&mut self.asked).into_values() {
            // how a probe went nobody sees
            if !matches!(asked, Asked::Probe(..)) {
                pace.heard(now, self.uid(), asked);
            }
        }
    }

    fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }
}
