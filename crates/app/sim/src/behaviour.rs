//! How the containers of a scenario behave.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, Pod};
use rekindle_types::{ExitStatus, SandboxAttempt, TickDuration};
use serde::{Deserialize, Deserializer};

use crate::spoken::spoken;

/// As the kernel's SIGKILL shows in a shell.
const OOM_CODE: u8 = 137;

/// What containers do that are chosen; the first that chooses a start decides. One that none
/// chooses runs until it is told to end.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a behaviour: a map of fields")]
pub struct Behaviour {
    /// Pods in this namespace; in all when it is absent.
    pub namespace: Option<String>,
    /// Pods with these labels; all when it is empty.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
    /// The container; all when it is absent.
    pub container: Option<String>,
    /// The image; all when it is absent.
    pub image: Option<String>,
    /// Pods on these nodes; on all when it is empty.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Starts not before this time of the run.
    #[serde(default, deserialize_with = "duration")]
    pub from: TickDuration,
    /// Starts before this time of the run; all later ones, too, when it is absent.
    #[serde(default, deserialize_with = "some_duration")]
    pub until: Option<TickDuration>,
    /// What helps.
    #[serde(default)]
    pub mended_by: BehaviourRemedy,
    /// It ends by itself.
    pub exits: Option<ExitRule>,
    /// It neither answers probes nor obeys its stop signal.
    #[serde(default)]
    pub hangs: bool,
    /// Its readiness probe fails until so long after its start.
    #[serde(default, deserialize_with = "some_duration")]
    pub ready_after: Option<TickDuration>,
    /// Its readiness probe fails.
    #[serde(default)]
    pub unready: bool,
}

/// How a container ends.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ExitRuleText")]
pub struct ExitRule {
    /// The exit code, 0 to 255.
    pub code: u8,
    /// So long after its start, or after the time of the behaviour began when it ran already.
    pub after: TickDuration,
    /// By the kernel, for want of memory: the code is 137.
    pub oom: bool,
}

/// The same as people write it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExitRuleText {
    code: Option<u8>,
    #[serde(default, deserialize_with = "duration")]
    after: TickDuration,
    #[serde(default)]
    oom: bool,
}

impl TryFrom<ExitRuleText> for ExitRule {
    type Error = &'static str;

    fn try_from(ExitRuleText { code, after, oom }: ExitRuleText) -> Result<Self, Self::Error> {
        match (code, oom) {
            (None | Some(OOM_CODE), true) => Ok(Self { code: OOM_CODE, after, oom }),
            (Some(_), true) => Err("the code of oom: true is 137; leave it out"),
            (Some(code), false) => Ok(Self { code, after, oom }),
            (None, false) => Err("give code, or oom: true"),
        }
    }
}

/// After what a container behaves well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum BehaviourRemedy {
    /// Nothing but time.
    #[default]
    Nothing,
    /// Another start in the same sandbox.
    Container,
    /// A new sandbox, or what throws away more.
    Pod,
    /// A new pod in the place of one that went.
    Recreate,
}

impl ExitRule {
    /// As the runtime tells it.
    pub fn status(&self) -> ExitStatus {
        match self.oom {
            true => ExitStatus::OomKilled,
            false => ExitStatus::Code { code: i32::from(self.code) },
        }
    }
}

/// What the containers of a world do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Behaviours {
    pub(crate) all: Vec<Behaviour>,
    pub(crate) unchosen: DefaultBehaviour,
}

impl Behaviours {
    /// The number of the behaviour that decides about a start.
    pub(crate) fn choose(&self, start: &ContainerStart<'_>) -> Option<usize> {
        self.all.iter().position(|behaviour| behaviour.chooses(start))
    }

    /// How such a start ends by itself; none when it runs on.
    pub(crate) fn exits(
        &self,
        chosen: Option<usize>,
        start: &ContainerStart<'_>,
    ) -> Option<ExitRule> {
        match chosen {
            Some(index) => self.all[index].exits.clone(),
            None => self.unchosen.exits(start.pod, start.container),
        }
    }

    /// Whether what was chosen hangs.
    pub(crate) fn hangs(&self, chosen: Option<usize>) -> bool {
        chosen.is_some_and(|index| self.all[index].hangs)
    }

    /// Whether the readiness probe of what was chosen succeeds so long after its start.
    pub(crate) fn is_ready(&self, chosen: Option<usize>, runs: TickDuration) -> bool {
        let Some(behaviour) = chosen.map(|index| &self.all[index]) else { return true };
        !behaviour.unready && behaviour.ready_after.is_none_or(|after| runs >= after)
    }

    /// What is to be done about a container that runs, now that another behaviour would choose its
    /// start.
    pub(crate) fn turn(&self, before: Option<usize>, now: Option<usize>) -> BehaviourChange {
        let lasts = |behaviour: &Behaviour| behaviour.hangs || behaviour.concerns_readiness();
        match before.map(|index| &self.all[index]) {
            _ if before == now => BehaviourChange::None,
            Some(behaviour) if now.is_none() && !lasts(behaviour) => BehaviourChange::None,
            Some(_) | None => BehaviourChange::ToNow,
        }
    }

    /// When something may turn, since the run began.
    pub(crate) fn turns(&self) -> BTreeSet<TickDuration> {
        let from = self.all.iter().map(|behaviour| behaviour.from);
        from.chain(self.all.iter().filter_map(|behaviour| behaviour.until)).collect()
    }
}

/// Whether a container that runs does something else from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BehaviourChange {
    /// It goes on as it is.
    None,
    /// It does what is chosen now.
    ToNow,
}

/// What a container does that no behaviour chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultBehaviour {
    /// It runs until it is told to end.
    #[default]
    Runs,
    /// One that is there to end does so, well and soon: an init container, and one that is not
    /// restarted after a success.
    EndsWhereItShould,
}

/// So long one runs that is there to end.
const SOON: TickDuration = TickDuration::from_secs(1);

impl DefaultBehaviour {
    /// How such a container of a pod ends by itself; none when it runs on.
    pub(crate) fn exits(self, pod: &Pod, container: &str) -> Option<ExitRule> {
        match self {
            Self::Runs => None,
            Self::EndsWhereItShould if !is_there_to_end(pod, container) => None,
            Self::EndsWhereItShould => Some(ExitRule { code: 0, after: SOON, oom: false }),
        }
    }
}

/// Init containers but for sidecars, and those whose restart policy is not Always: their own one
/// (KEP-5307), or the pod's.
fn is_there_to_end(pod: &Pod, name: &str) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let of_name = |containers: &[Container]| {
        containers.iter().find(|container| container.name == name).cloned()
    };
    let is_always = |policy: Option<&str>| policy == Some("Always");
    if let Some(init) = spec.init_containers.as_deref().and_then(of_name) {
        return !is_always(init.restart_policy.as_deref());
    }
    let own = of_name(&spec.containers).and_then(|container| container.restart_policy);
    !is_always(Some(own.or_else(|| spec.restart_policy.clone()).as_deref().unwrap_or("Always")))
}

/// Which start of a container it is in its sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartOrder {
    First,
    Later,
}

/// Why there is a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PodOrigin {
    /// It was wanted.
    #[default]
    Wanted,
    /// Another one of its owner, or of its name, went before.
    Replaces,
}

/// One start of a container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContainerStart<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) node: &'a str,
    pub(crate) container: &'a str,
    pub(crate) image: &'a str,
    pub(crate) sandbox: SandboxAttempt,
    pub(crate) order: StartOrder,
    pub(crate) origin: PodOrigin,
    /// Since the run began.
    pub(crate) time: TickDuration,
}

impl Behaviour {
    pub(crate) fn chooses(&self, start: &ContainerStart<'_>) -> bool {
        let labels = start.pod.metadata.labels.as_ref();
        let has = |key: &String, value: &String| labels.and_then(|l| l.get(key)) == Some(value);
        let mended = match self.mended_by {
            BehaviourRemedy::Nothing => false,
            BehaviourRemedy::Container => start.order == StartOrder::Later,
            BehaviourRemedy::Pod => start.sandbox.0 > 0 || start.origin == PodOrigin::Replaces,
            BehaviourRemedy::Recreate => start.origin == PodOrigin::Replaces,
        };
        !mended
            && (self.namespace.is_none() || self.namespace == start.pod.metadata.namespace)
            && self.match_labels.iter().all(|(key, value)| has(key, value))
            && self.container.as_ref().is_none_or(|container| container == start.container)
            && self.image.as_ref().is_none_or(|image| image == start.image)
            && (self.nodes.is_empty() || self.nodes.iter().any(|node| node == start.node))
            && self.from <= start.time
            && self.until.is_none_or(|until| start.time < until)
    }
}

impl Behaviour {
    /// Whether it says when a container is ready.
    pub(crate) const fn concerns_readiness(&self) -> bool {
        self.unready || self.ready_after.is_some()
    }

    /// Which containers it is about and what these do, for people.
    pub(crate) fn in_words(&self) -> (String, String) {
        let labels = self.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let named = |what: &str, name: &Option<String>| {
            name.iter().map(|name| format!("{what} {name}")).collect::<Vec<_>>()
        };
        let which = labels
            .chain(named("namespace", &self.namespace))
            .chain(named("container", &self.container))
            .chain(named("image", &self.image))
            .chain(self.nodes.iter().cloned());
        let which = match which.collect::<Vec<_>>().join(", ") {
            all if all.is_empty() => "all containers".to_owned(),
            which => which,
        };
        let ends = self.exits.as_ref().map(|exits| match exits.oom {
            true => "ends for want of memory".to_owned(),
            false => format!("exits with {}", exits.code),
        });
        let what = [
            ends,
            self.hangs.then(|| "hangs".to_owned()),
            self.unready.then(|| "is not ready".to_owned()),
            self.ready_after.map(|after| format!("is ready after {}", spoken(after))),
        ];
        let what = match what.into_iter().flatten().collect::<Vec<_>>().join(", ") {
            nothing if nothing.is_empty() => "runs".to_owned(),
            what => what,
        };
        (which, what)
    }
}

/// A duration as people write it: `10m`, `1h 30m`, `20d`.
pub(crate) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<TickDuration, D::Error> {
    let text = String::deserialize(from)?;
    let parsed = humantime::parse_duration(&text).map_err(|error| {
        serde::de::Error::custom(format!(
            "{text:?} is no duration such as 30s, 10m or 20d: {error}"
        ))
    })?;
    Ok(TickDuration::from_micros(u64::try_from(parsed.as_micros()).unwrap_or(u64::MAX)))
}

pub(crate) fn some_duration<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<TickDuration>, D::Error> {
    duration(from).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn init_containers_and_those_that_are_not_restarted_are_there_to_end() {
        let pod = |policy: &str| -> Pod {
            let written = json!({
                "metadata": {},
                "spec": {
                    "restartPolicy": policy,
                    "initContainers": [{"name": "setup"}, {"name": "sidecar", "restartPolicy": "Always"}],
                    "containers": [
                        {"name": "app"}, {"name": "once", "restartPolicy": "Never"},
                        {"name": "stays", "restartPolicy": "Always"},
                    ],
                },
            });
            serde_json::from_value(written).expect("it is one")
        };
        let cases = [
            ("Always", ["setup", "once"].as_slice()),
            ("OnFailure", &["setup", "app", "once"]),
            ("Never", &["setup", "app", "once"]),
        ];
        for (policy, expected) in cases {
            let all = ["setup", "sidecar", "app", "once", "stays"];
            let ends = all.into_iter().filter(|name| is_there_to_end(&pod(policy), name));
            assert_eq!(ends.collect::<Vec<_>>(), expected, "{policy}");
        }
        assert!(DefaultBehaviour::Runs.exits(&pod("Never"), "app").is_none());
    }

    #[test]
    fn an_end_for_want_of_memory_needs_no_code_and_any_other_does() {
        let read = |written| serde_json::from_value::<ExitRule>(written);
        assert_eq!(read(json!({"oom": true})).expect("it is one").code, 137);
        assert_eq!(read(json!({"code": 2})).expect("it is one").code, 2);
        let error = read(json!({"after": "1s"})).unwrap_err().to_string();
        assert!(error.starts_with("give code, or oom: true"), "{error}");
        assert!(read(json!({"oom": true, "code": 2})).is_err());
    }

    #[test]
    fn a_behaviour_is_told_by_what_it_chooses_and_what_that_does() {
        let words = |written| {
            let (which, what) =
                serde_json::from_value::<Behaviour>(written).expect("it is one").in_words();
            format!("{which}: {what}")
        };
        assert_eq!(words(json!({})), "all containers: runs");
        assert_eq!(
            words(json!({"matchLabels": {"app": "web"}, "image": "web:2", "exits": {"code": 1}})),
            "app=web, image web:2: exits with 1"
        );
        assert_eq!(
            words(json!({"container": "a", "readyAfter": "30s"})),
            "container a: is ready after 30s"
        );
    }

    #[test]
    fn a_behaviour_is_read_as_people_write_it_and_a_bad_duration_is_named() {
        let written =
            json!({"container": "app", "until": "1h", "exits": {"code": 1, "after": "2s"}});
        let read: Behaviour = serde_json::from_value(written).expect("it is one");
        assert_eq!(read.until, Some(TickDuration::from_secs(3_600)));
        assert_eq!(read.exits.expect("it exits").after, TickDuration::from_secs(2));
        let error = serde_json::from_value::<Behaviour>(json!({"from": "soon"})).unwrap_err();
        assert!(error.to_string().contains("\"soon\" is no duration such as 30s"), "{error}");
    }
}
