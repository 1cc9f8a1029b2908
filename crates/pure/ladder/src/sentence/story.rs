//! Containers that failed or do not start: what did not help, and what is done now.

use rekindle_diagnosis::{Diagnosis, Prognosis};
use rekindle_types::Tick;
use rekindle_types::span::show;
use rekindle_types::v1alpha1::{LadderScope, Rung};

use super::authority::without_agent;
use super::{
    BACKOFF_GOES_ON, after_the_last, alike, attempt, clock, done_or_noted, requests, rolling_back,
    short_name,
};
use crate::attempts::LedgerAttempts;
use crate::explanation::{DecisionText, Phrase};
use crate::failures::{CountedFailure, FailedPart};
use crate::policy::RungPolicy;
use crate::{LadderPolicy, NodeOutage, NodeTrouble, RevisionPeers, RollbackTarget, Trial};

/// Where no restart helps.
const HOLDING: &str = "holding, no restart helps";

/// What failed, and what was tried against it before this decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailureStory<'a> {
    pub(crate) now: Tick,
    pub(crate) policy: &'a LadderPolicy,
    /// The pod's name.
    pub(crate) pod: &'a str,
    /// The pod's only container beside those that initialize it or stand by: a summary does not
    /// name it.
    pub(crate) only: Option<&'a str>,
    pub(crate) tried: LedgerAttempts<'a>,
    /// When the first of the attempts of Container was, if that is known: those that waited count
    /// from later on.
    pub(crate) first_at: Option<Tick>,
    pub(crate) failure: &'a CountedFailure<'a>,
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
    /// Rungs of the ladder that the pod's node has no agent for.
    pub(crate) passed_over: &'a [Rung],
    /// Since when attempts above Container were only noted.
    pub(crate) dry_run_since: Option<Tick>,
    pub(crate) quotes: QuotedOutput,
}

/// Whether a sentence has what a container said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuotedOutput {
    Given,
    /// It is told outside of the cluster.
    LeftOut,
}

/// What a sentence is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailureSubject<'a> {
    pub(crate) container: &'a str,
    /// The pod's only container beside those that initialize it or stand by.
    pub(crate) only: Option<&'a str>,
    /// What happened to it.
    pub(crate) what: &'a Phrase,
}

impl FailureSubject<'_> {
    /// `container "app" exited with 1`, in brief `exit 1`, or `app: exit 1` where it could be
    /// another's.
    fn phrase(self, said: &str) -> Phrase {
        let FailureSubject { container, only, what } = self;
        let name = if only == Some(container) {
            String::new()
        } else {
            format!("{}: ", short_name(container))
        };
        Phrase::new(
            format!("container {container:?} {what}{said}"),
            format!("{name}{}", what.brief),
        )
    }
}

impl FailureStory<'_> {
    fn subject(&self) -> Phrase {
        let Diagnosis { what, said, .. } = &self.failure.diagnosis;
        let said = said.as_ref().filter(|_| self.quotes == QuotedOutput::Given);
        let said = said.map(|said| format!(" ({said})")).unwrap_or_default();
        match self.failure.part {
            FailedPart::Container(container) => {
                FailureSubject { container, only: self.only, what }.phrase(&said)
            }
            FailedPart::Pod => Phrase::new(format!("the pod {what}"), what.brief.clone()),
        }
    }

    /// How often it has failed, with what was left to the container's own restart.
    fn failures_in_all(&self) -> u32 {
        self.tried.count(Rung::Container).saturating_add(self.failures)
    }

    /// The failures that are left to the container's own restart. When that comes is the node's to
    /// say.
    pub(crate) fn left_to_container(&self, step: &RungPolicy) -> DecisionText {
        let times = match self.failures {
            1 => String::new(),
            n => format!(" ({n} failures since it was last seen)"),
        };
        let (subject, used) = (self.subject(), self.failures_in_all());
        DecisionText::new(
            format!(
                "{subject}{times}: left to the container's own restart ({used} of {})",
                step.attempts
            ),
            &format!("{}{}", subject.brief, times_in_brief(used)),
            &attempt(step, used).brief,
        )
    }

    /// What did not help, up to the colon.
    fn so_far(&self) -> Phrase {
        let subject = self.subject();
        let above = self.tried.highest().filter(|rung| *rung > Rung::Container);
        match (above, self.failure.part) {
            (None, FailedPart::Container(_)) => self.so_far_container(&subject),
            (None, FailedPart::Pod) if self.elsewhere.is_some() => subject,
            (None, FailedPart::Pod) => {
                Phrase::new(format!("{subject}; nothing in place would help"), subject.brief)
            }
            (Some(rung), _) => self.so_far_above(&subject, rung),
        }
    }

    fn so_far_container(&self, subject: &Phrase) -> Phrase {
        let total = self.failures_in_all();
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
        let verdict = match (self.failure.diagnosis.prognosis, container) {
            (_, _) if self.elsewhere.is_some() => String::new(),
            (Prognosis::Helps { from }, _) if from > Rung::Container => {
                " together with its sandbox; restarting the container cannot help".to_owned()
            }
            (_, Some(step)) => format!(
                "; restarting the container did not help ({} of {} attempts used)",
                step.attempts, step.attempts
            ),
            (_, None) => String::new(),
        };
        Phrase::new(
            format!("{subject}{times}{within}{verdict}"),
            format!("{}{}{within}", subject.brief, times_in_brief(total)),
        )
    }

    /// A rung above Container was tried.
    fn so_far_above(&self, subject: &Phrase, rung: Rung) -> Phrase {
        let again = format!("{} again", subject.brief);
        let undone = match (self.given_up, self.not_carried_out) {
            (Some(why), _) => Some(requests::was_given_up(rung, why)),
            (None, Some(why)) => Some(requests::not_carried_out(rung, why)),
            (None, None) => None,
        };
        if let Some(undone) = undone {
            return Phrase::new(format!("{subject} again; {undone}"), again);
        }
        let done = done_or_noted(self.policy, self.tried, rung, self.dry_run_since);
        let ago = self.tried.last(rung).map(|at| self.now.since(at));
        match ago.filter(|ago| ago.as_secs() > 0).map(show) {
            Some(ago) => Phrase::new(
                format!("{subject} again, {ago} after {done}"),
                format!("{again} after {ago}"),
            ),
            None => Phrase::new(format!("{subject} again, right after {done}"), again),
        }
    }

    /// The rungs that would have had their turn before this one, if there were an agent.
    fn passed_over_before(&self, next: Option<Rung>) -> String {
        let tried = self.tried.highest().unwrap_or(Rung::Container);
        let is_due = |rung: &Rung| *rung >= tried && next.is_none_or(|next| *rung < next);
        let due: Vec<Rung> = self.passed_over.iter().copied().filter(is_due).collect();
        without_agent(&due, self.policy.scope)
    }

    /// Of a group, that it is done to all of its pods.
    fn of_all(&self, doing: Phrase) -> Phrase {
        match self.policy.scope {
            LadderScope::Pod => doing,
            LadderScope::Group => {
                Phrase::new(format!("{} in all pods of the group, as one", doing.full), doing.brief)
            }
        }
    }

    /// A restart above Container, the `number`th of its rung.
    pub(crate) fn restart(
        &self,
        step: &RungPolicy,
        number: u32,
        rollback: Option<&RollbackTarget>,
    ) -> DecisionText {
        let doing = match (step.rung, rollback) {
            (Rung::Rollback, Some(target)) => {
                let Phrase { full, brief } = rolling_back(target);
                Phrase::new(format!("{full} ({number} of {})", step.attempts), brief)
            }
            _ => attempt(step, number),
        };
        let doing = self.of_all(doing);
        let Phrase { full, brief } = self.so_far();
        let (node, cause) = match self.elsewhere {
            Some(NodeTrouble { name, pods, failing }) => (
                format!(
                    "; {failing} of {pods} pods of node {name} fail, nothing in place would help"
                ),
                format!("{failing} of {pods} pods fail on node {}", short_name(name)),
            ),
            None => (String::new(), brief),
        };
        let says = self.node_says.map(|says| format!("; its node says {says}")).unwrap_or_default();
        let passed_over = match self.elsewhere {
            Some(_) => String::new(), // nothing in place would help
            None => self.passed_over_before(Some(step.rung)),
        };
        let message = format!("{full}{node}{passed_over}{says}: {doing}");
        DecisionText::new(message, &cause, &doing.brief)
    }

    /// Most pods of the revision fail alike.
    pub(crate) fn common(&self, peers: &RevisionPeers, rung: Rung) -> DecisionText {
        followed_by(&self.so_far(), &alike::all_held(peers, rung))
    }

    /// Most pods of the revision fail alike, and the rung is being tried on one of them.
    pub(crate) fn awaits(&self, peers: &RevisionPeers, trial: &Trial) -> DecisionText {
        followed_by(&self.so_far(), &alike::trial_first(peers, trial, self.pod))
    }

    /// Most pods of the node ended together.
    pub(crate) fn node_outage(&self, outage: &NodeOutage) -> DecisionText {
        let NodeOutage { name, pods, ended, over_at } = outage;
        let until = clock(*over_at);
        let then = Phrase::new(
            format!(
                "{ended} of {pods} pods of node {name} ended together: the ladder waits until {until}, the kubelet starts them again"
            ),
            format!("holding, {ended} of {pods} pods of node ended"),
        );
        followed_by(&self.so_far(), &then)
    }

    /// The same of what is a state: the same words however long it lasts.
    pub(crate) fn common_state(&self, peers: &RevisionPeers, rung: Rung) -> DecisionText {
        followed_by(&self.subject(), &alike::all_held(peers, rung))
    }

    /// Nothing is left to try, in these words.
    pub(crate) fn exhausted(&self, left: &Phrase) -> DecisionText {
        let story = FailureStory { quotes: QuotedOutput::LeftOut, ..*self }; // a webhook may carry it far away
        let (so_far, after) = (story.so_far(), after_the_last(self.policy));
        let action = format!("{}, {}", left.brief, after.brief);
        let passed_over = self.passed_over_before(None);
        let message = format!("{so_far}{passed_over}; {left}: {after}");
        DecisionText::new(message, &so_far.brief, &action)
    }

    /// No restart helps.
    pub(crate) fn futile(&self, because: &str) -> DecisionText {
        holds(&self.subject(), because)
    }

    /// No restart helps, but the revision before was healthy.
    pub(crate) fn futile_rollback(&self, target: &RollbackTarget) -> DecisionText {
        let (subject, rollback) = (self.subject(), rolling_back(target));
        DecisionText::new(
            format!("{subject}; no restart helps against that: {rollback}"),
            &subject.brief,
            &rollback.brief,
        )
    }

    /// Another restart is coming anyway.
    pub(crate) fn on_its_way(&self, restart: &str) -> DecisionText {
        let subject = self.subject();
        DecisionText::new(
            format!("{subject}: PodRestart {restart} is already under way"),
            &subject.brief,
            "a restart is already under way",
        )
    }

    /// It failed and has been running since long enough.
    pub(crate) fn runs_again(&self, since: Tick) -> DecisionText {
        let (subject, since) = (self.subject(), clock(since));
        DecisionText::new(
            format!(
                "{subject} and has been running again since {since}: nothing is restarted, the next failure climbs"
            ),
            &subject.brief,
            &format!("runs again since {}", since.brief),
        )
    }

    /// After the end of the ladder.
    pub(crate) fn still(&self, left: &Phrase) -> DecisionText {
        let subject = self.subject();
        DecisionText::new(
            format!("{subject}; {left}: {BACKOFF_GOES_ON}"),
            &subject.brief,
            &format!("{}, backoff only", left.brief),
        )
    }
}

fn followed_by(cause: &Phrase, then: &Phrase) -> DecisionText {
    DecisionText::new(format!("{cause}; {then}"), &cause.brief, &then.brief)
}

fn holds(subject: &Phrase, because: &str) -> DecisionText {
    let message = format!("{subject}: the ladder holds, because no restart helps: {because}");
    DecisionText::new(message, &subject.brief, HOLDING)
}

/// What keeps a container from starting.
pub(crate) fn cannot_start(subject: FailureSubject<'_>, because: &str) -> DecisionText {
    holds(&subject.phrase(""), because)
}

/// A new revision's containers cannot be started.
pub(crate) fn stuck_rollback(subject: FailureSubject<'_>, target: &RollbackTarget) -> DecisionText {
    let (subject, rollback) = (subject.phrase(""), rolling_back(target));
    DecisionText::new(format!("{subject}: {rollback}"), &subject.brief, &rollback.brief)
}

/// No rung of the ladder helps a pod that its node cannot make a sandbox for.
pub(crate) fn no_sandbox(what: &Phrase, node_says: Option<&str>) -> DecisionText {
    let says = node_says.map(|says| format!("; its node says {says}")).unwrap_or_default();
    DecisionText::new(
        format!(
            "the pod {what}{says}: the ladder holds, because a restart in place would not help and it lists no rung that does; \
             the node tries again by itself"
        ),
        &what.brief,
        "holding, the node tries again",
    )
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

fn times_in_brief(n: u32) -> String {
    if n > 1 { format!(" ×{n}") } else { String::new() }
}
