//! What a candidate does, case by case, and what no number of them does, whatever is lost or late.

use k8s_openapi::api::coordination::v1::Lease;
use proptest::prelude::*;

use super::*;
use crate::NewObject;

const START: Tick = Tick::from_secs(1_000);

fn at(millis: u64) -> Tick {
    START + TickDuration::from_millis(millis)
}

fn candidate(identity: &str) -> ElectionCandidate {
    ElectionCandidate::new(Candidacy {
        lease: NamespacedName::new("kube-system", "leader"),
        identity: identity.to_owned(),
        timing: ElectionTiming::default(),
    })
}

/// The Lease as the API has it, with the API's compare-and-swap.
#[derive(Default)]
struct Api {
    lease: Option<Lease>,
    version: u64,
    made: u64,
}

impl Api {
    fn write(&mut self, write: &WriteOperation) -> WriteResult {
        let (WriteOperation::Create(NewObject::Object(ViewObject::Lease(wanted)))
        | WriteOperation::Update(ViewObject::Lease(wanted))) = write
        else {
            panic!("{write:?}")
        };
        let mut wanted = Lease::clone(wanted);
        let refused =
            |refusal| WriteResult::Refused { refusal, message: "somebody was faster".to_owned() };
        match (write, &self.lease) {
            (WriteOperation::Create(_), Some(_)) => return refused(WriteRefusal::AlreadyExists),
            (WriteOperation::Create(_), None) => {
                self.made += 1;
                wanted.metadata.uid = Some(format!("uid-{}", self.made));
            }
            (_, None) => return WriteResult::Gone,
            (_, Some(there))
                if there.metadata.resource_version != wanted.metadata.resource_version =>
            {
                return refused(WriteRefusal::Conflict);
            }
            (_, Some(_)) => {}
        }
        self.version += 1;
        wanted.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(wanted.clone());
        WriteResult::Stored(ViewObject::from(wanted))
    }

    /// Does at once what a candidate asks, until it waits.
    fn serve(&mut self, candidate: &mut ElectionCandidate, now: Tick) -> Tick {
        for _ in 0..10 {
            match candidate.poll(now) {
                ElectionTask::Read => candidate.has_read(Ok(self.lease.as_ref()), now),
                ElectionTask::Write(write) => {
                    let outcome = self.write(&write);
                    candidate.has_written(&outcome, now);
                }
                ElectionTask::Wait(until) => return until,
            }
        }
        panic!("it never waits")
    }
}

fn transitions_of(candidate: &ElectionCandidate, now: Tick) -> Option<i32> {
    candidate.leads(now).map(|term| term.transitions)
}

#[test]
fn whoever_is_alone_leads_at_once_and_renews_in_half_its_deadline() {
    let (mut api, mut one) = (Api::default(), candidate("one"));
    assert_eq!(api.serve(&mut one, START), at(5_000));
    assert_eq!(transitions_of(&one, START), Some(0));
    assert_eq!(api.serve(&mut one, at(5_000)), at(10_000));
    assert_eq!(transitions_of(&one, at(14_999)), Some(0));
    assert_eq!(one.leads(at(15_000)), None, "not renewed within the deadline");
}

#[test]
fn a_lease_of_its_own_earlier_life_is_taken_at_once_in_a_new_term() {
    let mut api = Api::default();
    api.serve(&mut candidate("one"), START);
    let mut next_life = candidate("one");
    api.serve(&mut next_life, at(10));
    assert_eq!(transitions_of(&next_life, at(10)), Some(1));
}

#[test]
fn another_ones_lease_is_waited_for_from_when_it_was_seen_to_change() {
    let (mut api, mut one, mut two) = (Api::default(), candidate("one"), candidate("two"));
    api.serve(&mut one, START);
    assert_eq!(api.serve(&mut two, at(3_000)), at(18_000), "whatever times the lease carries");
    api.serve(&mut one, at(5_000));
    two.sees(api.lease.as_ref(), at(5_001));
    assert_eq!(api.serve(&mut two, at(18_000)), at(20_001));
    assert_eq!(api.serve(&mut two, at(20_001)), at(25_001));
    assert_eq!(transitions_of(&two, at(20_001)), Some(1));
    assert_eq!(one.leads(at(20_001)), None);
}

#[test]
fn a_renewal_that_was_not_seen_makes_the_attempt_fail_and_the_wait_begin_anew() {
    let (mut api, mut one, mut two) = (Api::default(), candidate("one"), candidate("two"));
    api.serve(&mut one, START);
    api.serve(&mut two, at(1));
    for renewal in 1..=3 {
        api.serve(&mut one, at(renewal * 5_000));
    }
    assert_eq!(api.serve(&mut two, at(15_001)), at(30_001), "refused, read, and seen alive");
    assert_eq!(transitions_of(&one, at(15_001)), Some(0));
}

#[test]
fn a_lease_that_was_given_back_is_taken_at_once() {
    let (mut api, mut one, mut two) = (Api::default(), candidate("one"), candidate("two"));
    api.serve(&mut one, START);
    api.serve(&mut two, at(1));
    let release = one.release(at(2)).expect("it leads");
    assert_eq!(one.leads(at(2)), None);
    assert_eq!(one.release(at(2)), None);
    api.write(&release);
    let spec = api.lease.as_ref().and_then(|lease| lease.spec.clone()).expect("a lease");
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some(""), Some(1)));
    two.sees(api.lease.as_ref(), at(3));
    api.serve(&mut two, at(3));
    assert_eq!(transitions_of(&two, at(3)), Some(1));
}

#[test]
fn who_is_deposed_follows_as_soon_as_it_sees_so_and_does_not_lead_again_for_an_older_version() {
    let (mut api, mut one, mut two) = (Api::default(), candidate("one"), candidate("two"));
    api.serve(&mut one, START);
    let old = api.lease.clone();
    api.serve(&mut two, START);
    api.serve(&mut two, at(15_000));
    let mut late = candidate("one");
    late.has_read(Ok(old.as_ref()), START);
    let ElectionTask::Write(write) = late.poll(START) else { panic!("it takes its own") };
    late.sees(api.lease.as_ref(), at(15_001));
    late.sees(old.as_ref(), at(15_002));
    assert_eq!(late.holder(), Some("two"));
    late.has_written(&api.write(&write), at(15_003));
    assert_eq!(late.leads(at(15_003)), None);
    assert_eq!(api.serve(&mut late, at(15_003)), at(30_003), "it waits as everybody");
}

#[test]
fn a_lease_that_somebody_deletes_ends_the_term_and_the_next_one_is_another() {
    let (mut api, mut one) = (Api::default(), candidate("one"));
    api.serve(&mut one, START);
    let before = one.leads(START).cloned();
    api.lease = None;
    one.sees(None, at(10));
    assert_eq!(one.leads(at(10)), None);
    api.serve(&mut one, at(10));
    let after = one.leads(at(10)).cloned();
    assert!(after.is_some() && after != before, "{before:?} {after:?}");
}

#[test]
fn a_renewal_that_is_answered_after_the_deadline_begins_no_old_term_again() {
    let (mut api, mut one) = (Api::default(), candidate("one"));
    api.serve(&mut one, START);
    let ElectionTask::Write(renewal) = one.poll(at(9_000)) else { panic!("a renewal is due") };
    let outcome = api.write(&renewal);
    assert_eq!(one.poll(at(9_000)), ElectionTask::Wait(at(10_000)), "until it has to give up");
    assert!(matches!(one.poll(at(10_000)), ElectionTask::Wait(_)));
    one.has_written(&outcome, at(11_000));
    assert_eq!(one.leads(at(11_000)), None);
    api.serve(&mut one, at(11_000));
    assert_eq!(transitions_of(&one, at(11_000)), Some(1));
}

#[test]
fn what_went_nobody_knows_how_is_looked_at_after_a_pause() {
    let (mut api, mut one) = (Api::default(), candidate("one"));
    let unknown = WriteResult::Unknown { message: "no answer".to_owned() };
    one.has_read(Ok(None), START);
    let ElectionTask::Write(write) = one.poll(START) else { panic!("nobody holds it") };
    api.write(&write);
    one.has_written(&unknown, START);
    assert_eq!(one.poll(START), ElectionTask::Wait(at(2_000)));
    assert_eq!(one.poll(at(2_000)), ElectionTask::Read);
    one.has_read(Err(UnansweredRequest), at(2_000));
    assert_eq!(one.poll(at(2_000)), ElectionTask::Wait(at(4_000)));
    api.serve(&mut one, at(4_000));
    assert_eq!(transitions_of(&one, at(4_000)), Some(1), "it was its own, of a term never begun");
}

#[test]
fn periods_that_do_not_fit_together_are_refused() {
    let timing = |lease, deadline, retry| {
        let millis = TickDuration::from_millis;
        ElectionTiming {
            lease_duration: millis(lease),
            renew_deadline: millis(deadline),
            retry_period: millis(retry),
        }
        .check()
        .map(drop)
    };
    assert_eq!(timing(15_000, 10_000, 2_000), Ok(()));
    assert_eq!(timing(10_000, 10_000, 2_000), Err(ElectionTimingError::DurationTooShort));
    assert_eq!(timing(15_000, 2_400, 2_000), Err(ElectionTimingError::DeadlineTooShort));
    assert_eq!(timing(15_000, 10_000, 99), Err(ElectionTimingError::PeriodTooShort));
    assert_eq!(timing(999, 900, 200), Err(ElectionTimingError::PeriodTooShort));
}

/// Requests on their way, with what becomes of them.
enum Post {
    Read,
    Write(Box<WriteOperation>),
}

/// One candidate with its clock, which runs at its own pace, and what it waits for.
struct Seat {
    candidate: ElectionCandidate,
    offset: u64,
    pace_percent: u64,
    asleep_until: u64,
    asked: Option<(Post, Late)>,
    answer: Option<(u64, Answer)>,
}

enum Answer {
    Read(Result<Option<Box<Lease>>, UnansweredRequest>),
    Written(WriteResult),
}

/// When a request arrives and its answer does, in steps; either may be lost.
#[derive(Clone, Copy)]
struct Late {
    arrives: Option<u64>,
    answered: Option<u64>,
}

impl Seat {
    fn now(&self, step: u64) -> Tick {
        START
            + TickDuration::from_millis(self.offset + step * STEP_MILLIS * self.pace_percent / 100)
    }
}

const STEP_MILLIS: u64 = 200;
/// After this nothing that is sent is lost or late any more.
const FAULTS_END: u64 = 1_500;
/// How late a request may arrive, and its answer after that.
const LATE_MAX: u64 = 80;
/// What was sent under faults has been answered.
const CALM: u64 = FAULTS_END + 2 * LATE_MAX;
/// How fast clocks go, of a hundred.
const PACES: std::ops::RangeInclusive<u64> = 90..=110;
/// The longest time in which nobody may lead after that: a lease, and attempts before and after it,
/// by the slowest clock.
const QUIET_WITHIN: u64 = 24_000 * 100 / *PACES.start() / STEP_MILLIS;

/// A small generator; what it draws follows from the seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn late(&mut self, step: u64) -> Late {
        if step >= FAULTS_END {
            return Late { arrives: Some(step), answered: Some(step) };
        }
        let delay = |chance: &mut Self| match chance.below(10) {
            0 => None,
            1 | 2 => Some(chance.below(LATE_MAX)),
            _ => Some(chance.below(3)),
        };
        let arrives = delay(self).map(|delay| step + delay);
        let answered = arrives.and_then(|at| delay(self).map(|delay| at + delay));
        Late { arrives, answered }
    }
}

fn step(seat: &mut Seat, api: &mut Api, chance: &mut Chance, step: u64) {
    // what is on its way arrives whether its sender lives or not
    if let Some((post, late)) = seat.asked.take() {
        match late.arrives {
            Some(at) if at <= step => {
                let answer = match post {
                    Post::Read => Answer::Read(Ok(api.lease.clone().map(Box::new))),
                    Post::Write(write) => Answer::Written(api.write(&write)),
                };
                seat.answer = match (late.answered, answer) {
                    (Some(at), answer) => Some((at.max(step), answer)),
                    (None, answer) => Some((step + 40, unknown(&answer))),
                };
            }
            Some(_) => seat.asked = Some((post, late)),
            None => {
                let lost = match post {
                    Post::Read => Answer::Read(Err(UnansweredRequest)),
                    Post::Write(_) => unknown(&Answer::Written(WriteResult::Done)),
                };
                seat.answer = Some((step + 40, lost));
            }
        }
    }
    if step < seat.asleep_until {
        return;
    }
    let now = seat.now(step);
    if let Some((at, answer)) = seat.answer.take() {
        if at > step {
            seat.answer = Some((at, answer));
        } else {
            match answer {
                Answer::Read(lease) => {
                    seat.candidate
                        .has_read(lease.as_ref().map(Option::as_deref).map_err(|e| *e), now);
                }
                Answer::Written(outcome) => seat.candidate.has_written(&outcome, now),
            }
        }
    }
    if chance.below(3) == 0 {
        seat.candidate.sees(api.lease.as_ref(), now);
    }
    match seat.candidate.poll(now) {
        ElectionTask::Read => seat.asked = Some((Post::Read, chance.late(step))),
        ElectionTask::Write(write) => seat.asked = Some((Post::Write(write), chance.late(step))),
        ElectionTask::Wait(_) => {}
    }
}

fn unknown(answer: &Answer) -> Answer {
    match answer {
        Answer::Read(_) => Answer::Read(Err(UnansweredRequest)),
        Answer::Written(_) => {
            Answer::Written(WriteResult::Unknown { message: "no answer".to_owned() })
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Clocks that differ by hours and run a tenth too fast or too slow; requests and answers that
    /// are lost or 16 s late; candidates that stand still for a minute.
    #[test]
    fn never_do_two_lead_and_somebody_does_once_faults_stop(
        seed in any::<u64>(),
        count in 2_usize..5,
        paces in proptest::collection::vec(PACES, 5),
    ) {
        let (mut api, mut chance) = (Api::default(), Chance(seed));
        let mut seats: Vec<Seat> = (0..count)
            .map(|number| Seat {
                candidate: candidate(&format!("c{number}")),
                offset: chance.below(36_000_000),
                pace_percent: paces[number],
                asleep_until: 0,
                asked: None,
                answer: None,
            })
            .collect();
        let (mut leaderless, mut last_term) = (0_u64, None);
        for now in 0..FAULTS_END + 600 {
            let faulty = now < FAULTS_END;
            if faulty && chance.below(200) == 0 {
                let picked = chance.below(count as u64) as usize;
                seats[picked].asleep_until = now + chance.below(300);
            }
            if !faulty {
                seats.iter_mut().for_each(|seat| seat.asleep_until = 0);
            }
            for seat in &mut seats {
                step(seat, &mut api, &mut chance, now);
            }
            let leading: Vec<&Term> =
                seats.iter().filter_map(|seat| seat.candidate.leads(seat.now(now))).collect();
            prop_assert!(leading.len() <= 1, "step {now}: {leading:?}");
            match leading.first() {
                Some(term) => {
                    let number = term.transitions;
                    prop_assert!(last_term.is_none_or(|last| last <= number), "terms only rise");
                    last_term = Some(number);
                    leaderless = 0;
                }
                None if now < CALM => leaderless = 0,
                None => leaderless += 1,
            }
            prop_assert!(leaderless <= QUIET_WITHIN, "nobody leads since {leaderless} steps");
        }
    }
}
