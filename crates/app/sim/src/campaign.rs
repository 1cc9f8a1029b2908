//! A campaign: a workload, users who change it, and faults, all made from one seed. First
//! everything goes wrong that can (safety: no promise may break), then nothing does any more
//! (liveness: everything must come to rest as it was asked for).

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rekindle_pod::PodConfig;
use rekindle_reconcile::NodeLifecycleSettings;
use rekindle_types::TickDuration;
use serde_json::Value;

use crate::agent::AgentTally;
use crate::behaviour::Behaviour;
use crate::error::SimError;
use crate::faults::{FaultRates, Faults, WorldEvent};
use crate::known_bugs::KnownBug;
use crate::pace::{RuntimeAnswerTimes, RuntimePace};
use crate::world::World;
use crate::written::WriteCounts;

/// When faults stop.
pub const FAULTS_END: TickDuration = TickDuration::from_secs(20 * 60);
/// Everything must have come to rest so long after faults stopped: the longest backoff is five
/// minutes, that of a Job ten, and a ladder counts attempts for ten more.
pub const REST_WITHIN: TickDuration = TickDuration::from_secs(60 * 60);

/// What is done in one run.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// What it was made from.
    pub seed: u64,
    /// Nodes of the world.
    pub nodes: usize,
    /// How long the controllers are patient with nodes.
    pub patience: NodeLifecycleSettings,
    /// The workload.
    pub objects: Vec<Value>,
    /// What its containers do.
    pub behaviours: Vec<Behaviour>,
    /// What users and fate do, and when.
    pub deeds: Vec<(TickDuration, WorldEvent)>,
    /// How often calls go wrong.
    pub rates: FaultRates,
    /// Before these actions the agent that is to carry them out dies.
    pub crashes: BTreeSet<u64>,
    /// A bug of the fake parts.
    pub bug: Option<KnownBug>,
}

/// What came of a campaign in which every promise held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignSummary {
    /// Of everything that happened.
    pub trace_hash: u64,
    /// How many lines the trace had.
    pub steps: u64,
    /// How many actions agents began.
    pub actions: u64,
    /// How often containers were started.
    pub starts: usize,
    /// What was done to pods.
    pub tally: AgentTally,
    /// What was written to each object.
    pub written: WriteCounts,
    /// Each workload as it is at the end.
    pub end_state: BTreeMap<String, String>,
}

/// A promise that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignFailure {
    /// The seed of the campaign.
    pub seed: u64,
    /// `P1` to `P9`; `error`, when the run itself failed; or `panic`, when something in it did.
    pub promise: String,
    /// What happened.
    pub message: String,
    /// How many lines the trace had, the one that tells of it included.
    pub step: u64,
    /// The last of them, up to that one.
    pub trace: Vec<String>,
}

impl CampaignSummary {
    /// What the deaths of so many agents changed: how something ended, or what was done; or what
    /// was written that they do not explain.
    fn differs_from(&self, plain: &Self, deaths: u64) -> Option<String> {
        if let Some(other) = other_end(&self.end_state, &plain.end_state) {
            return Some(format!("agents that die change the end of {other}"));
        }
        if !as_much(self.tally, plain.tally, deaths) {
            let (done, without) = (self.tally, plain.tally);
            return Some(format!(
                "agents that die change what is done: {done}; and without it {without}"
            ));
        }
        self.written.excess_over(&plain.written, deaths)
    }
}

impl Campaign {
    /// Plays it.
    ///
    /// # Errors
    /// The first promise that did not hold.
    pub fn play(&self) -> Result<CampaignSummary, Box<CampaignFailure>> {
        self.play_in_world(RuntimePace::Own).map(|(passed, _)| passed)
    }

    /// The same, with the world as it is at the end.
    fn play_in_world(
        &self,
        pace: RuntimePace,
    ) -> Result<(CampaignSummary, World), Box<CampaignFailure>> {
        let world =
            World::new(self.seed, self.nodes, self.behaviours.clone(), PodConfig::default());
        let mut world = world.map_err(|error| self.unmade(&error))?;
        // a world that panicked is only looked at for its trace
        let judged = catch_unwind(AssertUnwindSafe(|| self.judge(&mut world, pace)));
        let broken = match judged {
            Ok(Ok(passed)) => return Ok((passed, world)),
            Ok(Err(broken)) => broken,
            Err(panic) => format!("panic: {}", said_by(&*panic)),
        };
        Err(self.failed(&broken, &mut world))
    }

    /// Plays it in a world.
    ///
    /// # Errors
    /// The first promise that did not hold, beginning with its number; or `error: ` and why the run
    /// failed.
    fn judge(&self, world: &mut World, pace: RuntimePace) -> Result<CampaignSummary, String> {
        let went = self.go_through(world, pace);
        if let Some(broken) = world.broken_promise() {
            return Err(broken.to_owned());
        }
        went.map_err(|error| format!("error: {error}"))?;
        if let Some(first) = world.unsettled().first() {
            return Err(format!("P2: {first}"));
        }
        if let Some(first) = world.miscounted().first() {
            return Err(format!("P3: {first}"));
        }
        Ok(CampaignSummary {
            trace_hash: world.trace().hash(),
            steps: world.trace().steps(),
            actions: world.actions(),
            starts: world.starts(),
            tally: world.tally(),
            written: world.written(),
            end_state: world.end_state(),
        })
    }

    /// Plays it, and where nothing goes wrong but that agents die also without that: then all must
    /// end as it does there, and as much must have been done.
    ///
    /// What an agent waited for when it died the next one has some milliseconds later, so that pods
    /// which failed in one moment fail in several: of four replicas, half may then have failed, and
    /// a Job make one pod more. So there is another run without deaths to be equal to, whose
    /// runtime answers when it did in this one ([`crate::pace`]).
    ///
    /// # Errors
    /// The first promise that did not hold.
    pub fn check(&self) -> Result<CampaignSummary, Box<CampaignFailure>> {
        if !self.has_crashes_only() {
            return self.play();
        }
        let (passed, mut world) =
            self.play_in_world(RuntimePace::Noted(RuntimeAnswerTimes::default()))?;
        let without = self.without_faults();
        let deaths = u64::try_from(self.crashes.len()).unwrap_or(u64::MAX);
        let differs = |pace| {
            let plain = without.play_in_world(pace);
            plain.map(|(plain, _)| passed.differs_from(&plain, deaths))
        };
        if differs(RuntimePace::Own)?.is_none() {
            return Ok(passed);
        }
        match differs(world.pace().clone().followed())? {
            None => Ok(passed),
            Some(what) => Err(self.failed(&format!("P1: {what}"), &mut world)),
        }
    }

    fn go_through(&self, world: &mut World, pace: RuntimePace) -> Result<(), SimError> {
        let faults = Faults::new(self.seed ^ 0xfa17, self.rates, self.crashes.clone());
        world.set_faults(faults.with_bug(self.bug).at_pace(pace));
        world.set_patience(self.patience.clone());
        world.count_by_object();
        world.stop_at_breach();
        for (at, deed) in &self.deeds {
            world.do_at(*at, deed.clone());
        }
        for object in &self.objects {
            world.apply(object)?;
        }
        world.run_until(FAULTS_END)?;
        if world.broken_promise().is_some() {
            return Ok(());
        }
        world.heal()?;
        world.run_until(FAULTS_END + REST_WITHIN)
    }

    /// What did not hold is the last line of its trace, unless it was noticed while the world went
    /// on.
    fn failed(&self, broken: &str, world: &mut World) -> Box<CampaignFailure> {
        world.breaks(broken);
        let message = world.broken_promise().unwrap_or_default().to_owned();
        let promise = message.split(':').next().unwrap_or_default().to_owned();
        let (step, trace) = world.trace().up_to_breach();
        Box::new(CampaignFailure { seed: self.seed, promise, message, step, trace })
    }

    /// There is no world.
    fn unmade(&self, error: &SimError) -> Box<CampaignFailure> {
        let (promise, message) = ("error".to_owned(), format!("error: {error}"));
        Box::new(CampaignFailure { seed: self.seed, promise, message, step: 0, trace: Vec::new() })
    }

    /// The same workload and users without any fault.
    #[must_use]
    pub fn without_faults(&self) -> Self {
        let users = self.deeds.iter().filter(|(_, deed)| deed.is_of_a_user());
        Self {
            deeds: users.cloned().collect(),
            rates: FaultRates::default(),
            crashes: BTreeSet::new(),
            ..self.clone()
        }
    }

    /// A smaller campaign in which the same promise breaks: what is not needed for that is left
    /// out, as long as it takes at most so many runs.
    #[must_use]
    pub fn shrink(&self, failure: &CampaignFailure, mut runs: usize) -> Self {
        let mut smallest = self.clone();
        loop {
            let smaller = smallest.smaller().into_iter().find(|candidate| {
                let is_left = runs > 0;
                runs = runs.saturating_sub(1);
                is_left && fails_alike(candidate, failure)
            });
            match smaller {
                Some(smaller) => smallest = smaller,
                None => return smallest,
            }
        }
    }

    /// The same with something left out; what leaves out most comes first.
    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        if self.rates != FaultRates::default() {
            all.push(Self { rates: FaultRates::default(), ..self.clone() });
        }
        let count = self.deeds.len();
        let mut size = count.div_ceil(2);
        while size > 0 {
            for from in (0..count).step_by(size) {
                let mut deeds = self.deeds.clone();
                deeds.drain(from..(from + size).min(count));
                all.push(Self { deeds, ..self.clone() });
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        for crash in &self.crashes {
            let mut crashes = self.crashes.clone();
            crashes.remove(crash);
            all.push(Self { crashes, ..self.clone() });
        }
        for index in 0..self.objects.len() {
            let mut objects = self.objects.clone();
            objects.remove(index);
            all.push(Self { objects, ..self.clone() });
        }
        for index in 0..self.behaviours.len() {
            let mut behaviours = self.behaviours.clone();
            // without it an init container would never end
            if behaviours.remove(index).until.is_some() {
                all.push(Self { behaviours, ..self.clone() });
            }
        }
        all
    }
}

/// Whether as much was done as without agents that die, of which there were so many. One that dies
/// moves what follows by some milliseconds, and what comes in one moment there may come one after
/// the other here, or the other way round. A container that is made when its backoff is over is
/// never started when the whole pod is restarted at that very moment: of such containers there may
/// be fewer. One that is to be started when its Job has failed is started and asked to end, or not:
/// of starts there may be as many more or fewer as of signals.
fn as_much(passed: AgentTally, plain: AgentTally, deaths: u64) -> bool {
    let fewer = plain.starts.saturating_sub(passed.starts);
    let more = passed.starts.saturating_sub(plain.starts);
    let is_moved = fewer.max(more) <= deaths && plain.signals + more == passed.signals + fewer;
    let made = plain.starts.min(plain.containers).saturating_sub(fewer)..=plain.containers + more;
    is_moved
        && made.contains(&passed.containers)
        && (passed.sandboxes, passed.kills) == (plain.sandboxes, plain.kills)
}

/// The first that ended in another way, and how.
fn other_end(
    passed: &BTreeMap<String, String>,
    plain: &BTreeMap<String, String>,
) -> Option<String> {
    let all: BTreeSet<&String> = passed.keys().chain(plain.keys()).collect();
    all.into_iter().find(|of| passed.get(*of) != plain.get(*of)).map(|of| {
        let said = |end: &BTreeMap<String, String>| {
            end.get(of).map_or_else(|| "it is not there".to_owned(), |end| format!("\"{end}\""))
        };
        format!("{of}: {}; and without it {}", said(passed), said(plain))
    })
}

fn fails_alike(candidate: &Campaign, failure: &CampaignFailure) -> bool {
    let kind = kind_of(&failure.message);
    candidate.check().err().is_some_and(|found| kind_of(&found.message) == kind)
}

/// What a message says whatever it is about: its words, without names, numbers and what is quoted.
fn kind_of(message: &str) -> Vec<&str> {
    let (promise, rest) = message.split_once(':').unwrap_or((message, ""));
    let rest = rest.split(['"', '{', '[']).next().unwrap_or_default();
    let words = rest.split_whitespace().map(|word| word.trim_matches([',', ';', ':', '(', ')']));
    let is_word =
        |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    std::iter::once(promise).chain(words.filter(is_word)).collect()
}

/// What a panic says of itself.
fn said_by(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_alike_when_they_say_the_same_of_whatever_it_is() {
        let early = |of: &str, had: u32| {
            kind_of_owned(&format!(
                "P5: Pod default/{of} on node-1: container app (start 2) was killed after {had} ms of its grace"
            ))
        };
        assert_eq!(early("web-5b-x", 3), early("db-0", 17));
        let hook = "P5: Pod default/db-0 on node-1: container app (start 2) got its stop signal before its hook preStop was run";
        assert_ne!(early("db-0", 3), kind_of_owned(hook));
    }

    fn kind_of_owned(message: &str) -> Vec<String> {
        kind_of(message).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn an_end_that_is_another_is_told_by_what_it_is_of() {
        let end = |of: &[(&str, &str)]| {
            of.iter().map(|(of, end)| ((*of).to_owned(), (*end).to_owned())).collect()
        };
        let plain = end(&[("Job default/once", "Complete"), ("Pod default/a", "ready")]);
        assert_eq!(other_end(&plain, &plain), None);
        let other = end(&[("Job default/once", "Complete"), ("Pod default/a", "Failed")]);
        let expected = "Pod default/a: \"Failed\"; and without it \"ready\"";
        assert_eq!(other_end(&other, &plain).as_deref(), Some(expected));
        let gone = end(&[("Pod default/a", "ready")]);
        let expected = "Job default/once: it is not there; and without it \"Complete\"";
        assert_eq!(other_end(&gone, &plain).as_deref(), Some(expected));
    }

    #[test]
    fn agents_that_die_make_no_more_containers_and_no_fewer_than_are_started() {
        let plain =
            AgentTally { sandboxes: 9, containers: 18, starts: 17, ..AgentTally::default() };
        let of = |containers| AgentTally { containers, ..plain };
        assert!(as_much(plain, plain, 1) && as_much(of(17), plain, 1));
        assert!(!as_much(of(16), plain, 1) && !as_much(of(19), plain, 1));
        assert!(!as_much(AgentTally { starts: 16, ..of(17) }, plain, 1));
    }

    #[test]
    fn what_is_started_and_asked_to_end_in_one_moment_need_not_be_started() {
        let plain = AgentTally {
            sandboxes: 9,
            containers: 18,
            starts: 18,
            signals: 3,
            ..AgentTally::default()
        };
        let fewer = AgentTally { containers: 17, starts: 17, signals: 2, ..plain };
        assert!(as_much(fewer, plain, 1) && as_much(plain, fewer, 1));
        assert!(!as_much(fewer, plain, 0), "nobody died");
        assert!(!as_much(AgentTally { signals: 3, ..fewer }, plain, 1), "it was asked to end");
        assert!(
            !as_much(AgentTally { starts: 19, containers: 19, ..plain }, plain, 1),
            "it was not"
        );
        assert!(!as_much(AgentTally { kills: 1, ..fewer }, plain, 1));
    }
}
