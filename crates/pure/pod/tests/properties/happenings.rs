//! What can happen to a pod, and lets it happen.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use proptest::prelude::*;
use rekindle_pod::{
    ActionErrorKind, ActionOutcome, CoreAction, CoreEvent, EvictionCause, PodEviction,
    ResourceDecision, RestartRequest, Series,
};
use rekindle_types::v1alpha1::{EmptyDirPolicy, Rung};
use rekindle_types::{ContainerName, ExitStatus, TickDuration};

use crate::shapes::role_of;
use crate::world::runtime::Says;
use crate::world::{Disk, Processes, Telling, World, runtime};

/// One thing that happens. Numbers choose among what is there.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// The driver polls one action.
    Poll,
    /// It polls all there are.
    PollAll,
    /// A waiting action is carried out, whichever.
    CarryOut(usize),
    /// And its answer is given twice.
    AnswerTwice(usize),
    Fail(usize),
    /// One of the waiting starts cannot be prepared.
    NotMade(usize),
    /// One of them is prepared, and nobody knows of more.
    StartHalfway(usize),
    /// A running container ends by itself.
    Exit(usize, ExitStatus),
    /// And nobody tells.
    ExitUnseen(usize),
    ReportExits,
    Wait(u64),
    Wake,
    AgentCrash,
    AgentCrashWithoutJournal,
    /// The journal can be written from now on, or not.
    Disk(Disk),
    Reboot,
    /// The agent ends the containers, to go with its node. The next one comes with a crash, or when
    /// all heals.
    NodeStops(u64),
    Snapshot,
    SandboxDies(Processes),
    Restart(u8, Rung, EmptyDirPolicy),
    /// A container is to be restarted by itself, which the pod may have or not.
    RestartOne(u8, &'static str),
    LateExit(u32),
    Delete(u64),
    Evict(u64),
    ImageChange(u8),
    /// A container is to have other resources.
    Resize(usize, u8),
    /// The node decides on what the pod asked for last.
    Decide(ResourceDecision),
    /// An ephemeral container is added, which sees the processes of a container of this number or
    /// its own.
    Debug(Option<u8>),
    /// What a probe or a hook comes to from now on.
    Says(usize, usize, Says),
}

/// Every probe and every hook.
pub(crate) const KINDS: [&str; 5] = ["Startup", "Readiness", "Liveness", "PostStart", "PreStop"];

pub(crate) fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        12 => Just(Happening::Poll),
        8 => Just(Happening::PollAll),
        20 => any::<usize>().prop_map(Happening::CarryOut),
        1 => any::<usize>().prop_map(Happening::AnswerTwice),
        3 => any::<usize>().prop_map(Happening::Fail),
        1 => any::<usize>().prop_map(Happening::NotMade),
        1 => any::<usize>().prop_map(Happening::StartHalfway),
        6 => (any::<usize>(), exit_status()).prop_map(|(place, status)| Happening::Exit(place, status)),
        1 => any::<usize>().prop_map(Happening::ExitUnseen),
        4 => Just(Happening::ReportExits),
        2 => (0u64..1_000).prop_map(Happening::Wait),
        6 => Just(Happening::Wake),
        2 => Just(Happening::AgentCrash),
        2 => prop_oneof![Just(Disk::HasRoom), Just(Disk::Full)].prop_map(Happening::Disk),
        1 => Just(Happening::Reboot),
        1 => (0u64..40).prop_map(Happening::NodeStops),
        1 => Just(Happening::Snapshot),
        1 => prop_oneof![Just(Processes::DieToo), Just(Processes::LiveOn)].prop_map(Happening::SandboxDies),
        2 => (0u8..6, rung(), empty_dirs()).prop_map(|(id, rung, empty_dirs)| Happening::Restart(id, rung, empty_dirs)),
        2 => (0u8..6, name()).prop_map(|(id, name)| Happening::RestartOne(id, name)),
        1 => (0u32..4).prop_map(Happening::LateExit),
        1 => (0u8..3).prop_map(Happening::ImageChange),
        3 => (any::<usize>(), 1u8..4).prop_map(|(place, amount)| Happening::Resize(place, amount)),
        3 => decision().prop_map(Happening::Decide),
        2 => prop::option::of(0u8..3).prop_map(Happening::Debug),
        4 => (any::<usize>(), 0..KINDS.len(), says()).prop_map(|(place, kind, says)| {
            Happening::Says(place, kind, says)
        }),
    ]
}

pub(crate) fn decision() -> impl Strategy<Value = ResourceDecision> {
    let message = || "no room".to_owned();
    prop_oneof![
        4 => Just(ResourceDecision::Granted),
        1 => Just(ResourceDecision::Deferred { message: message() }),
        1 => Just(ResourceDecision::Infeasible { message: message() }),
    ]
}

pub(crate) fn says() -> impl Strategy<Value = Says> {
    prop_oneof![
        2 => Just(Says::Success),
        1 => Just(Says::Warning),
        3 => Just(Says::Failure),
        1 => Just(Says::NotListening),
        1 => Just(Says::Error),
        1 => Just(Says::Hangs),
    ]
}

/// As above, with what ends the pod.
pub(crate) fn any_happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        40 => happening(),
        1 => (0u64..40).prop_map(Happening::Delete),
        1 => (0u64..40).prop_map(Happening::Evict),
    ]
}

pub(crate) fn exit_status() -> impl Strategy<Value = ExitStatus> {
    prop_oneof![
        Just(ExitStatus::Code { code: 0 }),
        Just(ExitStatus::Code { code: 1 }),
        Just(ExitStatus::Code { code: 42 }),
        Just(ExitStatus::Code { code: 88 }),
        Just(ExitStatus::Signal { signal: 11 }),
        Just(ExitStatus::OomKilled),
    ]
}

pub(crate) fn rung() -> impl Strategy<Value = Rung> {
    prop_oneof![
        1 => Just(Rung::Container),
        1 => Just(Rung::Containers),
        3 => Just(Rung::Pod),
        1 => Just(Rung::Reschedule)
    ]
}

/// Containers of all roles, and one that there never is.
pub(crate) fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["main0", "main1", "side0", "side1", "init0", "debug0", "stranger"])
}

pub(crate) fn empty_dirs() -> impl Strategy<Value = EmptyDirPolicy> {
    prop::sample::select(vec![EmptyDirPolicy::Clear, EmptyDirPolicy::Keep])
}

/// What can go wrong with an action.
pub(crate) fn fault(action: &CoreAction) -> ActionErrorKind {
    match action {
        CoreAction::MountVolumes | CoreAction::RefreshVolumes => ActionErrorKind::Volume,
        CoreAction::SetUpSandbox { .. } => ActionErrorKind::Sandbox,
        CoreAction::FindImage { .. } | CoreAction::PullImage { .. } => ActionErrorKind::ImagePull,
        CoreAction::StartContainer { .. } => ActionErrorKind::ContainerStart,
        _ => ActionErrorKind::Other,
    }
}

fn waiting_start(world: &World, place: usize) -> Option<usize> {
    let starts: Vec<usize> = (0..world.waiting.len())
        .filter(|place| matches!(world.waiting[*place].1, CoreAction::StartContainer { .. }))
        .collect();
    chosen(place, starts.len()).map(|chosen| starts[chosen])
}

pub(crate) fn happen(world: &mut World, happening: &Happening) {
    if world.is_gone() {
        return;
    }
    match happening {
        Happening::Poll => {
            world.poll();
        }
        Happening::PollAll => world.poll_all(),
        Happening::CarryOut(place) => {
            if let Some(place) = chosen(*place, world.waiting.len()) {
                world.carry_out(place);
            }
        }
        Happening::AnswerTwice(place) => answer_twice(world, *place),
        Happening::Fail(place) => {
            if let Some(place) = chosen(*place, world.waiting.len()) {
                let kind = fault(&world.waiting[place].1);
                world.fail(place, kind, "a fault");
            }
        }
        Happening::NotMade(place) => {
            if let Some(place) = waiting_start(world, *place) {
                world.fail(place, ActionErrorKind::ContainerCreate, "a fault");
            }
        }
        Happening::StartHalfway(place) => {
            if let Some(place) = waiting_start(world, *place) {
                world.start_halfway(place, "a fault");
            }
        }
        Happening::Exit(place, status) => {
            if let Some(name) = running(world, *place) {
                world.exit(&name, *status);
            }
        }
        Happening::ExitUnseen(place) => {
            if let Some(name) = running(world, *place) {
                let now = world.now;
                world.runtime.exit(now, &name, ExitStatus::Code { code: 3 });
                world.runtime.forget_exits();
            }
        }
        Happening::ReportExits => world.report_exits(),
        Happening::Wait(millis) => {
            world.now = world.now + TickDuration::from_millis(*millis);
            world.core.handle_timeout(world.now);
        }
        Happening::Wake => {
            world.wake();
        }
        Happening::AgentCrash => crash(world),
        Happening::AgentCrashWithoutJournal => {
            world.journal = None;
            world.journal_was_lost = true;
            crash(world);
        }
        Happening::Disk(disk) => world.disk = *disk,
        Happening::Reboot => {
            world.disk = Disk::HasRoom;
            // Double faults within the moment before the status is written are beyond any promise.
            // While the node stops none is written.
            match world.telling {
                Telling::All => world.poll_all(),
                Telling::JournalOnly => world.obey(),
            }
            if !world.is_gone() {
                world.reboot();
                world.snapshot();
                world.tell_again();
            }
        }
        Happening::NodeStops(grace) => {
            world.poll_all();
            world.tell(CoreEvent::NodeStops { grace: TickDuration::from_secs(*grace) });
        }
        Happening::Snapshot => {
            // A driver asks for it when nothing is in flight.
            if world.waiting.is_empty() {
                world.snapshot();
            }
        }
        Happening::SandboxDies(processes) => world.sandbox_dies(*processes),
        Happening::Restart(id, rung, empty_dirs) => request_restart(world, *id, *rung, *empty_dirs),
        Happening::RestartOne(id, name) => restart_one(world, *id, name),
        Happening::LateExit(number) => {
            world.late_exit(runtime::key(99, "main0", *number));
        }
        Happening::Delete(grace) => {
            world.tell(CoreEvent::DeleteRequested { grace: TickDuration::from_secs(*grace) });
        }
        Happening::Evict(grace) => world.tell(CoreEvent::Eviction(PodEviction {
            cause: EvictionCause::NodePressure,
            message: "low on memory".to_owned(),
            grace: TickDuration::from_secs(*grace),
        })),
        Happening::ImageChange(number) => change_image(world, *number),
        Happening::Resize(place, amount) => resize(world, *place, *amount),
        Happening::Decide(decision) => world.decide(decision.clone()),
        Happening::Debug(target) => debug(world, *target),
        Happening::Says(place, kind, says) => {
            if let Some(name) = running(world, *place) {
                world.runtime.answers.insert(format!("{name} {}", KINDS[*kind]), *says);
            }
        }
    }
}

pub(crate) fn request_restart(world: &mut World, id: u8, rung: Rung, empty_dirs: EmptyDirPolicy) {
    request(world, RestartRequest { empty_dirs, ..asked(id, rung) });
}

pub(crate) fn restart_one(world: &mut World, id: u8, name: &str) {
    let container = Some(ContainerName(name.to_owned()));
    request(world, RestartRequest { container, ..asked(id, Rung::Container) });
}

fn asked(id: u8, rung: Rung) -> RestartRequest {
    RestartRequest {
        id: format!("id{id}"),
        name: format!("restart-{id}"),
        rung,
        container: None,
        empty_dirs: EmptyDirPolicy::Keep,
        grace: None,
        reason: String::new(),
        is_fast: false,
        series: if id.is_multiple_of(2) { Series::Anew } else { Series::GoesOn },
        group: None,
    }
}

/// A PodRestart does not change once it is made: the same id is the same request.
fn request(world: &mut World, request: RestartRequest) {
    let request = world.requests.get(&request.id).cloned().unwrap_or(request);
    let done = world.reports.get(&request.id).is_some_and(|phase| phase.is_final());
    if done && (world.journal_was_lost || world.finishes > 0) {
        return; // the object in the API says so, and no agent asks
    }
    world.tell(CoreEvent::RestartRequested(request));
}

pub(crate) fn crash(world: &mut World) {
    world.crash_agent();
    world.runtime.forget_exits();
    world.snapshot();
    world.tell_again();
}

pub(crate) fn answer_twice(world: &mut World, place: usize) {
    if let Some(place) = chosen(place, world.waiting.len()) {
        let (id, _) = world.waiting[place];
        world.carry_out(place);
        world.answer(id, Ok(ActionOutcome::Done));
    }
}

/// A few of them; who debugs more often has a bug in his debugger.
pub(crate) fn debug(world: &mut World, target: Option<u8>) {
    const EPHEMERAL_MAX: usize = 3;
    let spec = world.pod.spec.as_ref().expect("a spec");
    let number = spec.ephemeral_containers.as_ref().map_or(0, Vec::len);
    let target = target
        .and_then(|number| spec.containers.get(usize::from(number)))
        .map(|container| container.name.clone());
    if number < EPHEMERAL_MAX {
        let volume = (number % 2 == 1).then_some("data");
        world.debug(&format!("debug{number}"), target.as_deref(), volume);
    }
}

pub(crate) fn change_image(world: &mut World, number: u8) {
    let mut pod = Pod::clone(&world.pod);
    let spec = pod.spec.as_mut().expect("a spec");
    spec.containers[0].image = Some(format!("demo:{number}"));
    world.pod = Arc::new(pod);
    let pod = world.pod.clone();
    world.tell(CoreEvent::SpecChanged(pod));
}

/// CPU and memory of a regular container or a sidecar, in one of a few sizes.
pub(crate) fn resize(world: &mut World, place: usize, amount: u8) {
    let mut pod = Pod::clone(&world.pod);
    pod.metadata.generation = pod.metadata.generation.map(|generation| generation + 1);
    let spec = pod.spec.as_mut().expect("a spec");
    let init = spec.init_containers.iter_mut().flatten();
    let sidecars = init.filter(|container| role_of(&container.name) == "side");
    let mut containers: Vec<&mut Container> = sidecars.chain(&mut spec.containers).collect();
    let place = chosen(place, containers.len()).expect("a pod has a container");
    let list = |name: &str, amount: String| Some([(name.to_owned(), Quantity(amount))].into());
    containers[place].resources = Some(ResourceRequirements {
        requests: list("cpu", format!("{amount}00m")),
        limits: list("memory", format!("{amount}Mi")),
        ..ResourceRequirements::default()
    });
    world.pod = Arc::new(pod);
    let pod = world.pod.clone();
    world.tell(CoreEvent::SpecChanged(pod));
}

pub(crate) fn chosen(place: usize, len: usize) -> Option<usize> {
    place.checked_rem(len)
}

pub(crate) fn running(world: &World, place: usize) -> Option<String> {
    let names: Vec<String> = world.runtime.running_names().into_iter().collect();
    chosen(place, names.len()).map(|place| names[place].clone())
}

/// A pod to which all of that has happened.
pub(crate) fn play(pod: Pod, happenings: &[Happening]) -> World {
    let mut world = World::new(pod);
    world.snapshot();
    for step in happenings {
        happen(&mut world, step);
    }
    world
}
