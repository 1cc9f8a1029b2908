//! What may happen in the world of any workload: watches that lag and list stale, answers that are
//! lost, pods that come up, fail and are deleted in any order. The numbers choose among what there
//! is.

use proptest::prelude::*;
use rekindle_controllers::ResourceKind;
use rekindle_controllers::plan::DependentPolicy;
use serde_json::json;

use crate::world::{Answer, World};

#[derive(Clone, Debug)]
pub(crate) enum Chance {
    WatchShows(u8),
    KeyIsWorked(u8, Answer),
    Relist(u8, u8),
    KubeletAt(u8),
    PodFails(u8),
    UserDeletesPod(u8),
}

use Chance::{KeyIsWorked, KubeletAt, PodFails, Relist, UserDeletesPod, WatchShows};

pub(crate) fn chance() -> impl Strategy<Value = Chance> {
    let answer = prop_oneof![8 => Just(Answer::Arrives), 1 => Just(Answer::IsLost), 1 => Just(Answer::NeverSent)];
    prop_oneof![
        8 => any::<u8>().prop_map(WatchShows),
        8 => (any::<u8>(), answer).prop_map(|(n, answer)| KeyIsWorked(n, answer)),
        1 => (any::<u8>(), 0..4u8).prop_map(|(kind, lag)| Relist(kind, lag)),
        4 => any::<u8>().prop_map(KubeletAt),
        1 => any::<u8>().prop_map(PodFails),
        1 => any::<u8>().prop_map(UserDeletesPod),
    ]
}

impl World {
    pub(crate) fn takes(&mut self, chance: &Chance) {
        let pods = self.api.ids(ResourceKind::Pod, "shop");
        let pod = |n: u8| pods.get(usize::from(n) % pods.len().max(1));
        match chance {
            WatchShows(n) => {
                let kinds = ResourceKind::ALL
                    .into_iter()
                    .cycle()
                    .skip(usize::from(*n) % ResourceKind::ALL.len());
                for kind in kinds.take(ResourceKind::ALL.len()) {
                    if self.watch_next(kind) {
                        break;
                    }
                }
            }
            KeyIsWorked(n, answer) => {
                let place = usize::from(*n) % self.queue.len().max(1);
                if let Some(key) = self.queue.iter().nth(place).cloned() {
                    self.queue.remove(&key);
                    self.work(&key, |_| *answer);
                }
            }
            Relist(n, lag) => {
                self.relist(
                    ResourceKind::ALL[usize::from(*n) % ResourceKind::ALL.len()],
                    usize::from(*lag),
                );
            }
            KubeletAt(n) => {
                if let Some(pod) = pod(*n) {
                    self.kubelet_at(pod);
                }
            }
            PodFails(n) => {
                if let Some(pod) = pod(*n) {
                    self.api.change(pod, |pod| pod["status"]["phase"] = json!("Failed"));
                }
            }
            UserDeletesPod(n) => {
                if let Some(pod) = pod(*n) {
                    self.api.user_deletes(pod, DependentPolicy::Background);
                }
            }
        }
    }
}
