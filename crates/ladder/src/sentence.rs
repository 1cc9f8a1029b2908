//! The sentence for a person at 3 a.m.: which container, what it did, what did not help, what is done now.

use rekindle_types::Tick;
use rekindle_types::span::show;
use rekindle_types::v1alpha1::{OnExhausted, RestartLedgerStatus, Rung};

use crate::attempts::{self, Attempts};
use crate::budget::{Room, Scope};
use crate::evidence::Diagnosis;
use crate::failures::{Failure, Part};
use crate::observation::Outcome;
use crate::policy::Step;
use crate::{NodeTrouble, Peers, Policy, RollbackTarget, Trial};

/// After the last rung.
const BACKOFF_GOES_ON: &str = "only the container's own backoff goes on";

/// Of a ledger whose pod no ladder selects.
pub(crate) const UNSELECTED: &str =
    "no ladder selects the pod any more: its containers are left to their own backoff";

/// Of a ledger whose pod is gone for good.
pub(crate) const GONE: &str = "the pod is gone, and no other one takes its place";

/// Of a ledger whose pod has finished.
pub(crate) fn finished(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "the pod has succeeded: nothing of it is restarted any more",
        Outcome::Failed => "the pod has failed: nothing of it is restarted any more",
    }
}

/// Of a ledger that was exhausted by another revision.
pub(crate) const OTHER_REVISION: &str =
    "the pod is of another revision than the one that exhausted the ladder: it is tried anew";

/// What failed, and what was tried against it before this decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Story<'a> {
    pub(crate) now: Tick,
    pub(crate) policy: &'a Policy,
    pub(crate) tried: Attempts<'a>,
    /// When the first of the attempts of Container was, if that is known: those that waited count from later on.
    pub(crate) first_at: Option<Tick>,
    pub(crate) failure: &'a Failure<'a>,
    /// How many failures there are in all containers together.
    pub(crate) failures: u32,
    /// The node that is to be left, because most of its pods fail.
    pub(crate) elsewhere: Option<&'a NodeTrouble>,
    /// What is wrong with the pod's node, as that says itself.
    pub(crate) node_says: Option<&'a str>,
    /// How the last attempt ended without being begun.
    pub(crate) given_up: Option<&'a str>,
    /// Why the last attempt was over before anything was done to the pod.
    pub(crate) not_carried_out: Option<&'a str>,
    pub(crate) quotes: Quotes,
}

/// Whether a sentence has what a container said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quotes {
    Given,
    /// It is told outside of the cluster.
    LeftOut,
}

impl Story<'_> {
    /// `container "app" exited with 1`.
    fn subject(&self) -> String {
        let Diagnosis { what, said, .. } = &self.failure.diagnosis;
        let said = said.as_ref().filter(|_| self.quotes == Quotes::Given);
        let said = said.map(|said| format!(" ({said})")).unwrap_or_default();
        match self.failure.part {
            Part::Container(name) => format!("{}{said}", container(name, what)),
            Part::Pod => format!("the pod {what}"),
        }
    }

    /// The failures that are left to the container's own restart. When that comes is the node's to say.
    pub(crate) fn left_to_container(&self, step: &Step) -> String {
        let times = match self.failures {
            1 => String::new(),
            n => format!(" ({n} failures since it was last seen)"),
        };
        let used = self.tried.count(Rung::Container) + self.failures;
        format!(
            "{}{times}: left to the container's own restart ({used} of {})",
            self.subject(),
            step.attempts
        )
    }

    /// What did not help, up to the colon.
    fn so_far(&self) -> String {
        let subject = self.subject();
        let above = self.tried.highest().filter(|rung| *rung > Rung::Container);
        match (above, self.failure.part) {
            (None, Part::Container(_)) => self.so_far_container(&subject),
            (None, Part::Pod) if self.elsewhere.is_some() => subject,
            (None, Part::Pod) => format!("{subject}; nothing in place would help"),
            (Some(rung), _) => {
                if let Some(why) = self.given_up {
                    return format!("{subject} again; {}", given_up(rung, why));
                }
                if let Some(why) = self.not_carried_out {
                    return format!("{subject} again; {}", not_carried_out(rung, why));
                }
                let ago = self.tried.last(rung).map(|at| self.now.since(at));
                let ago = match ago.filter(|ago| ago.as_secs() > 0) {
                    Some(ago) => format!("{} after", show(ago)),
                    None => "right after".to_owned(),
                };
                format!("{subject} again, {ago} {}", done(self.policy, self.tried, rung))
            }
        }
    }

    fn so_far_container(&self, subject: &str) -> String {
        let used = self.tried.count(Rung::Container);
        let total = used + self.failures;
        let times = match total {
            1 => String::new(),
            n => format!(" {}", times(n)),
        };
        let since = self.first_at.map(|at| self.now.since(at));
        let within = match since {
            Some(span) if span.as_secs() > 0 => format!(" in {}", show(span)),
            Some(_) | None => String::new(),
        };
        let container = self.policy.step(Rung::Container);
        let verdict = match (self.failure.diagnosis.verdict, container) {
            (_, _) if self.elsewhere.is_some() => String::new(),
            (crate::evidence::Verdict::Helps { from }, _) if from > Rung::Container => {
                " together with its sandbox; restarting the container cannot help".to_owned()
            }
            (_, Some(step)) => format!(
                "; restarting the container did not help ({} of {} attempts used)",
                step.attempts, step.attempts
            ),
            (_, None) => String::new(),
        };
        format!("{subject}{times}{within}{verdict}")
    }

    /// A restart above Container, the `number`th of its rung.
    pub(crate) fn restart(
        &self,
        step: &Step,
        number: u32,
        rollback: Option<&RollbackTarget>,
    ) -> String {
        let doing = match (step.rung, rollback) {
            (Rung::Rollback, Some(target)) => rolling_back(target),
            (rung, _) => doing(rung).to_owned(),
        };
        let node = self.elsewhere.map(|node| {
            let NodeTrouble { name, pods, failing } = node;
            format!("; {failing} of {pods} pods of node {name} fail, nothing in place would help")
        });
        let says = self.node_says.map(|says| format!("; its node says {says}"));
        let node = node.into_iter().chain(says).collect::<String>();
        format!("{}{node}: {doing} ({number} of {})", self.so_far(), step.attempts)
    }

    /// Most pods of the revision fail alike.
    pub(crate) fn common(&self, peers: &Peers, rung: Rung) -> String {
        format!("{}; {}", self.so_far(), held_for_all(peers, rung))
    }

    /// Most pods of the revision fail alike, and the rung is being tried on one of them.
    pub(crate) fn awaits(&self, peers: &Peers, trial: &Trial) -> String {
        format!("{}; {}", self.so_far(), awaits_trial(peers, trial))
    }

    /// The same of what is a state: the same words however long it lasts.
    pub(crate) fn common_state(&self, peers: &Peers, rung: Rung) -> String {
        format!("{}; {}", self.subject(), held_for_all(peers, rung))
    }

    /// Nothing is left to try, in these words.
    pub(crate) fn exhausted(&self, left: &str) -> String {
        let story = Story { quotes: Quotes::LeftOut, ..*self }; // a webhook may carry it far away
        format!("{}; {left}: {}", story.so_far(), after_the_last(self.policy))
    }

    /// No restart helps.
    pub(crate) fn futile(&self, because: &str) -> String {
        format!("{}: the ladder holds, no restart helps: {because}", self.subject())
    }

    /// No restart helps, but the revision before was healthy.
    pub(crate) fn futile_rollback(&self, target: &RollbackTarget) -> String {
        format!("{}, which no restart helps against: {}", self.subject(), rolling_back(target))
    }

    /// Another restart is coming anyway.
    pub(crate) fn on_its_way(&self, restart: &str) -> String {
        format!("{}: PodRestart {restart} is on its way already", self.subject())
    }

    /// It failed and has been running since long enough.
    pub(crate) fn runs_again(&self, since: Tick) -> String {
        format!(
            "{} and has been running again since {}: nothing is restarted, the next failure climbs",
            self.subject(),
            clock(since)
        )
    }

    /// After the end of the ladder.
    pub(crate) fn still(&self, left: &str) -> String {
        format!("{}; {left}: {BACKOFF_GOES_ON}", self.subject())
    }
}

/// What comes after the last rung.
fn after_the_last(policy: &Policy) -> &'static str {
    match policy.on_exhausted {
        OnExhausted::Hold => BACKOFF_GOES_ON,
        OnExhausted::Fail => "the pod is ended as Failed",
    }
}

/// A request was held back until it was given up.
pub(crate) fn given_up(rung: Rung, why: &str) -> String {
    format!("{} was {why}", doing(rung))
}

/// A request was over before anything was done to the pod.
fn not_carried_out(rung: Rung, why: &str) -> String {
    format!("{} was not carried out: {why}", doing(rung))
}

/// … which is told when it is over.
pub(crate) fn over_undone(rung: Rung, request: &str, why: &str) -> String {
    format!("{} (PodRestart {request}, which counts as an attempt)", not_carried_out(rung, why))
}

/// … and the revision before was healthy.
pub(crate) fn rollback_after(given_up: &str, target: &RollbackTarget) -> String {
    format!("{given_up}: {}", rolling_back(target))
}

/// … and nothing is left to try.
pub(crate) fn exhausted_after(given_up: &str, policy: &Policy, left: &str) -> String {
    format!("{given_up}; {left}: {}", after_the_last(policy))
}

/// A request that was held back is not any more.
pub(crate) fn goes_on(request: Option<(Rung, &str)>) -> String {
    match request {
        Some((rung, name)) => format!("{} goes on: evicting (PodRestart {name})", doing(rung)),
        None => "the restart that was held back has gone on".to_owned(),
    }
}

fn alike(peers: &Peers) -> String {
    let Peers { revision, replicas, failing_alike, .. } = peers;
    format!("{failing_alike} of {replicas} pods of {revision} fail in the same way")
}

/// Most pods of the revision fail alike, and the rung does not help against it.
pub(crate) fn held_for_all(peers: &Peers, rung: Rung) -> String {
    let why = match rung {
        Rung::Recreate | Rung::Reschedule => "a new pod would be the same".to_owned(),
        Rung::Container | Rung::Containers | Rung::Pod | Rung::Rollback => {
            format!("{} did not help", doing(rung))
        }
    };
    format!(
        "{}: the ladder holds, {why}. It looks like a bad rollout, or something they all depend on; the container's own \
         backoff goes on",
        alike(peers)
    )
}

/// Most pods of the revision fail alike, and the rung is being tried on one of them.
pub(crate) fn awaits_trial(peers: &Peers, trial: &Trial) -> String {
    format!(
        "{}: {} is tried on pod {} first; the container's own backoff goes on",
        alike(peers),
        doing(trial.rung),
        trial.pod
    )
}

/// A pod waited for what came of a trial.
pub(crate) fn after_trial(peers: &Peers, step: &Step, number: u32) -> String {
    let why = match peers.helped {
        Some(rung) => format!("{} helped another pod of {}", doing(rung), peers.revision),
        None => "nothing came of trying it on another pod".to_owned(),
    };
    format!("{why}: {} ({number} of {})", doing(step.rung), step.attempts)
}

/// A budget holds a restart back.
pub(crate) fn held(policy: &Policy, step: &Step, room: Room, due: &str) -> String {
    let budget = match room {
        Room::Free => return due.to_owned(),
        Room::Concurrent { limit, .. } => {
            format!(
                "maxConcurrent {limit} of ladder {:?}: it waits for another pod's restart",
                policy.name
            )
        }
        Room::Workload { limit, .. } => format!(
            "the limit of {limit} pods of a workload at once: it waits for another pod's restart"
        ),
        Room::Bucket { scope, bucket, free_at } => {
            let whose = match scope {
                Scope::Namespace => "the namespace",
                Scope::Cluster => "the cluster",
            };
            format!(
                "the limit of {whose}, {} restarts at once and {} a minute: it waits until {}",
                bucket.burst(),
                bucket.per_minute(),
                clock(free_at)
            )
        }
        Room::Rate { limit, free_at } => {
            format!(
                "perMinute {limit} of ladder {:?}: it waits until {}",
                policy.name,
                clock(free_at)
            )
        }
    };
    format!("{} is due, held back by {budget} ({due})", doing(step.rung))
}

/// A budget lets a request that was held back not go on yet.
pub(crate) fn waits_for_room(room: Room) -> String {
    let which = match room {
        Room::Free => return "it goes on".to_owned(),
        Room::Concurrent { limit, .. } => format!("maxConcurrent {limit} of the ladder"),
        Room::Rate { limit, .. } => format!("perMinute {limit} of the ladder"),
        Room::Workload { limit, .. } => format!("the limit of {limit} pods of a workload at once"),
        Room::Bucket { scope: Scope::Namespace, .. } => "the limit of the namespace".to_owned(),
        Room::Bucket { scope: Scope::Cluster, .. } => "the limit of the cluster".to_owned(),
    };
    format!("it could go on, and waits for its turn: {which}")
}

/// A new revision's containers cannot be started.
pub(crate) fn stuck_rollback(subject: &str, target: &RollbackTarget) -> String {
    format!("{subject}: {}", rolling_back(target))
}

fn rolling_back(target: &RollbackTarget) -> String {
    let RollbackTarget { deployment, revision } = target;
    format!("rolling Deployment {deployment} back to revision {revision}, which was healthy")
}

/// A disruption budget, or the lack of another node, holds a request back that is made already.
pub(crate) fn held_request(rung: Rung, request: &str, why: &str) -> String {
    format!("{} is held back: {why} (PodRestart {request} waits)", doing(rung))
}

/// A request of the ladder was not begun, and will not be.
pub(crate) fn withdrawn(rung: Rung, request: &str, why: &str) -> String {
    format!(
        "{} was not begun: {why} (PodRestart {request} was withdrawn, and is not counted)",
        doing(rung)
    )
}

/// A request of the ladder was not made yet, and the ladder is another one by now.
pub(crate) fn unlisted(rung: Rung, request: &str) -> String {
    format!(
        "{} was not begun: the ladder does not list it any more (PodRestart {request} is not made, and is not counted)",
        doing(rung)
    )
}

/// A budget held a restart back, and there is room now.
pub(crate) fn held_restart(step: &Step, number: u32) -> String {
    format!("there is room in the budget: {} ({number} of {})", doing(step.rung), step.attempts)
}

/// No rung of the ladder helps a pod that its node cannot make a sandbox for.
pub(crate) fn no_sandbox(what: &str, node_says: Option<&str>) -> String {
    let says = node_says.map(|says| format!("; its node says {says}")).unwrap_or_default();
    format!(
        "the pod {what}{says}: the ladder holds, a restart in place would not help, and it lists no rung that does; the node \
         tries again by itself"
    )
}

/// `container "app" exited with 1`.
pub(crate) fn container(name: &str, what: &str) -> String {
    format!("container {name:?} {what}")
}

/// What keeps a container from starting.
pub(crate) fn cannot_start(name: &str, what: &str, because: &str) -> String {
    format!("{}: the ladder holds, no restart helps: {because}", container(name, what))
}

/// Everything runs again: what was not carried out has no part in it.
pub(crate) fn running(policy: &Policy, ledger: &RestartLedgerStatus, since: Tick) -> String {
    let tried = Attempts::of(ledger);
    let untried = attempts::last_untried(ledger);
    let rung = tried.highest().filter(|rung| *rung > Rung::Container && Some(*rung) != untried);
    let after = match rung {
        None => String::new(),
        Some(rung) => format!(", after {}", done(policy, tried, rung)),
    };
    format!("running since {}{after}; cleared at {}", clock(since), clock(since + policy.window))
}

/// The window has passed without a failure.
pub(crate) fn cleared(policy: &Policy, since: Tick) -> String {
    format!(
        "running since {}, {} without a failure: the ladder begins at the bottom again",
        clock(since),
        show(policy.window)
    )
}

/// What was tried, and what was not because it would not have helped. Of what has left the window the decisions tell, without a number.
/// Rollback is not missed: it is possible on few pods.
pub(crate) fn nothing_left(policy: &Policy, ledger: &RestartLedgerStatus) -> String {
    let attempts = Attempts::of(ledger);
    let decided = |rung| ledger.decisions.iter().flatten().any(|d| d.rung == Some(rung));
    let (mut tried, mut passed_over) = (Vec::new(), Vec::new());
    for rung in policy.steps.iter().map(|step| step.rung) {
        match attempts.count(rung) {
            0 if decided(rung) => tried.push(rung.name().to_owned()),
            0 if rung == Rung::Rollback => {}
            0 => passed_over.push(rung.name()),
            count => tried.push(format!("{rung} {count}")),
        }
    }
    match (tried.join(", "), passed_over.join(" and ")) {
        (tried, _) if tried.is_empty() => "no rung of the ladder can be tried on it".to_owned(),
        (tried, passed) if passed.is_empty() => format!("every rung was tried ({tried})"),
        (tried, passed) => {
            format!("every rung that may help was tried ({tried}), {passed} would not have helped")
        }
    }
}

/// What a rung did, and how often of how many times. The ladder may have been edited since, or be another one.
fn done(policy: &Policy, tried: Attempts<'_>, rung: Rung) -> String {
    let (doing, used) = (doing(rung), tried.count(rung));
    match policy.step(rung).map(|step| step.attempts) {
        Some(of) if used <= of => format!("{doing} ({used} of {of})"),
        Some(of) => format!("{doing} ({used}, of which the ladder lists {of} now)"),
        None => format!("{doing} ({used}, and the ladder does not list it now)"),
    }
}

/// As a sentence names what a rung does.
fn doing(rung: Rung) -> &'static str {
    match rung {
        Rung::Container => "restarting the container",
        Rung::Containers => "restarting all containers",
        Rung::Pod => "restarting the whole pod",
        Rung::Recreate => "replacing the pod by a new one",
        Rung::Reschedule => "replacing the pod by one on another node",
        Rung::Rollback => "rolling back to the revision before",
    }
}

fn times(n: u32) -> String {
    const WORDS: [&str; 10] =
        ["never", "once", "twice", "three", "four", "five", "six", "seven", "eight", "nine"];
    match usize::try_from(n).ok().and_then(|n| WORDS.get(n)) {
        Some(word) if n > 2 => format!("{word} times"),
        Some(word) => (*word).to_owned(),
        None => format!("{n} times"),
    }
}

/// The time of day: `04:11:02 UTC`.
fn clock(at: Tick) -> String {
    let secs = at.as_micros() / 1_000_000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", secs / 3600, secs / 60 % 60, secs % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_is_of_the_day_in_utc() {
        assert_eq!(clock(Tick::from_secs(86_400 * 20_000 + 15_062)), "04:11:02 UTC");
    }
}
