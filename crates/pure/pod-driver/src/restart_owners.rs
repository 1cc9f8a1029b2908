//! Which pod each open PodRestart was given to.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_pod::Journal;
use rekindle_types::PodUid;

/// The pods of one node that have taken up requests, by the requests' UIDs. The object says so too,
/// but not before it is written and seen again. By then another pod may have the name of the first
/// one, and would be restarted a second time.
#[derive(Clone, Debug, Default)]
pub struct RestartOwners {
    by_request: BTreeMap<String, RestartOwner>,
}

#[derive(Clone, Debug)]
struct RestartOwner {
    pod: PodUid,
    known_from: OwnerSource,
}

/// How this agent knows the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerSource {
    /// It gave the request to the pod's driver.
    Driver,
    /// Only a journal of an earlier agent names it.
    Journal,
}

impl RestartOwners {
    /// What the journals of an earlier agent say. Those of pods that the API has forgotten count as
    /// well: that agent may have died before it told the API that it had begun.
    pub fn restore<'a>(journals: impl IntoIterator<Item = (PodUid, &'a Journal)>) -> Self {
        let owned = journals.into_iter().flat_map(|(pod, journal)| {
            let owner = RestartOwner { pod, known_from: OwnerSource::Journal };
            journal.requests().map(move |id| (id.to_owned(), owner.clone()))
        });
        Self { by_request: owned.collect() }
    }

    /// Gives a request to a pod; false when another pod owns it.
    pub fn take(&mut self, id: &str, pod: &PodUid) -> bool {
        let owner = self
            .by_request
            .entry(id.to_owned())
            .or_insert_with(|| RestartOwner { pod: pod.clone(), known_from: OwnerSource::Driver });
        let is_own = owner.pod == *pod;
        if is_own {
            owner.known_from = OwnerSource::Driver;
        }
        is_own
    }

    /// The pod that has taken a request up, if one has.
    pub fn owner(&self, id: &str) -> Option<&PodUid> {
        self.by_request.get(id).map(|owner| &owner.pod)
    }

    /// The same if only an earlier agent's journal says so. When that pod is gone, the request was
    /// lost with it.
    pub fn owner_in_journal(&self, id: &str) -> Option<&PodUid> {
        let owner = self.by_request.get(id)?;
        (owner.known_from == OwnerSource::Journal).then_some(&owner.pod)
    }

    /// Whether no other pod has taken the request up.
    pub fn is_free_for(&self, id: &str, pod: &PodUid) -> bool {
        self.owner(id).is_none_or(|owner| owner == pod)
    }

    /// These are all requests that there are.
    pub fn keep_only(&mut self, listed: &BTreeSet<String>) {
        self.by_request.retain(|id, _| listed.contains(id));
    }

    /// The request is over, or gone.
    pub fn forget(&mut self, id: &str) {
        self.by_request.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn uid(text: &str) -> PodUid {
        PodUid(text.to_owned())
    }

    #[test]
    fn a_request_belongs_to_the_first_pod_that_takes_it() {
        let mut owners = RestartOwners::default();
        assert!(owners.take("r1", &uid("first")));
        assert!(owners.take("r1", &uid("first")));
        assert!(!owners.take("r1", &uid("second")));
        assert!(owners.is_free_for("r1", &uid("first")));
        assert!(!owners.is_free_for("r1", &uid("second")));
        owners.forget("r1");
        assert!(owners.is_free_for("r1", &uid("second")));
    }

    #[test]
    fn what_an_earlier_agent_has_begun_is_known_from_its_journal_until_the_pod_takes_it_again() {
        let over = json!({"id": "r1", "phase": "Succeeded", "message": "running", "at": 7});
        let journal: Journal = serde_json::from_value(json!({"recentRestarts": [over]})).unwrap();
        let mut owners = RestartOwners::restore([(uid("first"), &journal)]);
        assert_eq!(owners.owner_in_journal("r1"), Some(&uid("first")));
        assert!(!owners.take("r1", &uid("second")), "the next pod of that name");
        assert!(owners.take("r1", &uid("first")));
        assert_eq!(owners.owner_in_journal("r1"), None);
        owners.keep_only(&BTreeSet::new());
        assert_eq!(owners.owner("r1"), None);
    }
}
