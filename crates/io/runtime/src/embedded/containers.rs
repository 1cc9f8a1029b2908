//! Making, starting, signalling and removing containers.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rekindle_shim::protocol::{
    ContainerPhase, ContainerPlan, FailureKind, PidNamespacePlan, RootAhead, ShimAnswer,
    ShimFailure, ShimRequest, UserIds,
};
use rekindle_types::{ContainerUser, Tick};

use super::layout;
use super::limits;
use super::link::{AwaitedAnswer, CallError, ShimLink};
use super::oom_watch::{self, KillsBefore};
use super::plan::{self, PlanContext, PlanError};
use super::records::{RecordLine, SlotRecord};
use super::sandbox::{EmbeddedSandbox, SandboxContainer};
use super::{SharedRuntime, ahead, blocking, contact, janitor};
use crate::blocking::may_run_here;
use crate::error::{Cause, ImageErrorKind, RuntimeError};
use crate::image::{ResolvedImage, UpperKind};
use crate::runtime::{CreatedContainer, RunContainerResult, StartedContainer, StopSignal};
use crate::spec::{
    ContainerKey, ContainerSpec, MountSource, ProcMount, ProcessVisibility, SandboxUsers,
};

const CREATE: &str = "create";
const START: &str = "start";

fn failed(key: &ContainerKey, operation: &'static str, source: impl Into<Cause>) -> RuntimeError {
    RuntimeError::Container { key: key.clone(), operation, source: source.into() }
}

fn refused(key: &ContainerKey, operation: &'static str, error: CallError) -> RuntimeError {
    match error {
        CallError::Refused(ShimFailure { kind, problem }) => match kind {
            FailureKind::Config => RuntimeError::Config { key: key.clone(), problem },
            FailureKind::Start => RuntimeError::Start { key: key.clone(), problem },
            FailureKind::Setup | FailureKind::State => failed(key, operation, problem),
        },
        // whether it was done nobody knows
        error @ (CallError::Gone | CallError::Silent(_)) => RuntimeError::Unavailable {
            operation: "ask a shim",
            source: Box::new(failed(key, operation, error)),
        },
    }
}

/// Where a container is made and started: in a sandbox that is ready.
struct SandboxSlot {
    sandbox: Arc<EmbeddedSandbox>,
    link: ShimLink,
    slot: String,
}

impl SandboxSlot {
    fn new(
        shared: &SharedRuntime,
        key: &ContainerKey,
        operation: &'static str,
    ) -> Result<Self, RuntimeError> {
        let ready = shared.find(&key.sandbox).and_then(|sandbox| Some((sandbox.link()?, sandbox)));
        let Some((link, sandbox)) = ready else {
            return Err(failed(key, operation, "its sandbox is not ready"));
        };
        Ok(Self { sandbox, link, slot: layout::slot(key) })
    }

    /// The container as far as it was made before.
    fn found(&self) -> Option<(CreatedContainer, ContainerPhase)> {
        let look = |found: &SandboxContainer| (found.record.created(), found.phase.clone());
        self.sandbox.container(&self.slot, look)
    }
}

/// Prepares the container up to its exec.
pub(crate) async fn create(
    shared: &Arc<SharedRuntime>,
    spec: ContainerSpec,
) -> Result<CreatedContainer, RuntimeError> {
    let home = SandboxSlot::new(shared, &spec.key, CREATE)?;
    let gate = home.sandbox.container_gate(&home.slot);
    let _gate = gate.lock().await;
    if let Some((created, _)) = home.found() {
        return Ok(created);
    }
    let PlannedContainer { plan, record, next } = planned(shared, &home, spec).await?;
    let prepared = home.link.ask(ShimRequest::Create(Box::new(plan)));
    made(shared, &home, record, prepared, next).await
}

/// Prepares the container and lets it go. Its shim has both words at once, so that nothing stands
/// between the two.
pub(crate) async fn run(
    shared: &Arc<SharedRuntime>,
    spec: ContainerSpec,
) -> Result<RunContainerResult, RuntimeError> {
    let key = spec.key.clone();
    let home = SandboxSlot::new(shared, &key, CREATE)?;
    let gate = home.sandbox.container_gate(&home.slot);
    let _gate = gate.lock().await;
    if let Some((created, phase)) = home.found() {
        match phase {
            // its limits may be others since it was made
            ContainerPhase::Created => limits::apply(shared, &key, &spec.resources).await?,
            ContainerPhase::Running { .. } | ContainerPhase::Exited { .. } => {}
        }
        let start = let_go(shared, &home, &key).await;
        return Ok(RunContainerResult { created, start });
    }
    let PlannedContainer { plan, record, next } = planned(shared, &home, spec).await?;
    let prepared = home.link.ask(ShimRequest::Create(Box::new(plan)));
    let started = home.link.ask(ShimRequest::Start { slot: home.slot.clone() });
    let created = made(shared, &home, record, prepared, next).await?;
    let start = match answered(started).await {
        // a shim of an earlier version wants to be asked when it is prepared
        Err(CallError::Refused(ShimFailure { kind: FailureKind::State, .. })) => {
            let_go(shared, &home, &key).await
        }
        answer => start_time(&key, answer),
    };
    Ok(RunContainerResult { created, start })
}

async fn answered(asked: Result<AwaitedAnswer, CallError>) -> Result<ShimAnswer, CallError> {
    asked?.given().await
}

/// A container that is decided upon.
struct PlannedContainer {
    /// All that the shim is to know.
    plan: ContainerPlan,
    /// What is written down.
    record: SlotRecord,
    /// What is to be made for the start after this one.
    next: Option<RootAhead>,
}

async fn planned(
    shared: &Arc<SharedRuntime>,
    home: &SandboxSlot,
    spec: ContainerSpec,
) -> Result<PlannedContainer, RuntimeError> {
    let prepared = if home.sandbox.has_root(&spec.key.name.0) && may_run_here() {
        // A start that everything stands ready for is not worth the way to another thread and back.
        tokio::task::block_in_place(|| prepare(shared, &home.sandbox, &home.slot, &spec))
    } else {
        let (shared, sandbox, slot) = (shared.clone(), home.sandbox.clone(), home.slot.clone());
        blocking(move || prepare(&shared, &sandbox, &slot, &spec)).await
    };
    match prepared {
        Ok(planned) => {
            home.sandbox.insert(&home.slot, planned.record.clone(), ContainerPhase::Created);
            Ok(planned)
        }
        Err(error) => {
            clear(shared, &home.sandbox, &home.slot);
            Err(error)
        }
    }
}

/// Waits until its shim has prepared it.
async fn made(
    shared: &Arc<SharedRuntime>,
    home: &SandboxSlot,
    record: SlotRecord,
    asked: Result<AwaitedAnswer, CallError>,
    next: Option<RootAhead>,
) -> Result<CreatedContainer, RuntimeError> {
    let prepared = answered(asked).await;
    ahead::get_ready(shared, &home.sandbox, &home.slot, record.key.attempt, next);
    match prepared {
        Ok(prepared) => {
            oom_watch::begin(shared, &home.sandbox, &home.slot, KillsBefore::None);
            Ok(identified(home, record, prepared))
        }
        Err(error) => {
            match error {
                CallError::Refused(_) => clear(shared, &home.sandbox, &home.slot),
                // nobody knows how far it is: its root may be in use
                CallError::Gone | CallError::Silent(_) => {}
            }
            Err(refused(&record.key, CREATE, error))
        }
    }
}

/// Writes down who the container's process is, when its shim says so.
fn identified(home: &SandboxSlot, record: SlotRecord, prepared: ShimAnswer) -> CreatedContainer {
    let user = match prepared {
        ShimAnswer::Created(UserIds { uid, gid, groups }) => {
            Some(ContainerUser { uid, gid, groups })
        }
        // it cannot say, or it is of an earlier version
        ShimAnswer::Done | ShimAnswer::Started { .. } | ShimAnswer::State(_) => None,
    };
    let record = SlotRecord { user, ..record };
    let line = RecordLine::Made { slot: home.slot.clone(), record: record.clone() };
    if let Err(error) = home.sandbox.record(&line) {
        let slot = &home.slot;
        tracing::warn!(%error, slot, "failed to record the user of a container");
    }
    home.sandbox.identify(&home.slot, record.user.clone());
    record.created()
}

fn resolve(shared: &SharedRuntime, name: &str) -> Result<ResolvedImage, RuntimeError> {
    let resolved = shared.images.resolve(name).map_err(|e| e.to_runtime(name))?;
    resolved.ok_or_else(|| RuntimeError::Image {
        image: name.to_owned(),
        problem: "not present".to_owned(),
        kind: ImageErrorKind::Pull,
    })
}

/// The images that a container mounts as volumes.
#[derive(Default)]
struct VolumeImages {
    ids: Vec<String>,
    layers: BTreeMap<String, Vec<PathBuf>>,
}

fn volume_images(
    shared: &SharedRuntime,
    spec: &ContainerSpec,
) -> Result<VolumeImages, RuntimeError> {
    let mut found = VolumeImages::default();
    for mount in &spec.mounts {
        let MountSource::Image(name) = &mount.source else { continue };
        let image = resolve(shared, name)?;
        // it is the host's own root file system, of which a container must not see all
        if image.rootfs.public_dir.is_some() {
            let problem = format!("the built-in image {name:?} cannot be a volume");
            return Err(RuntimeError::Config { key: spec.key.clone(), problem });
        }
        found.ids.push(image.id);
        found.layers.insert(name.clone(), image.rootfs.lower_dirs);
    }
    Ok(found)
}

fn prepare(
    shared: &Arc<SharedRuntime>,
    sandbox: &EmbeddedSandbox,
    slot: &str,
    spec: &ContainerSpec,
) -> Result<PlannedContainer, RuntimeError> {
    let key = &spec.key;
    check_proc_mount(spec, sandbox.namespaces.users)?;
    // until the record below says that the image is used
    let _hold = shared.images.hold().map_err(|e| e.to_runtime(&spec.image))?;
    let mut image = resolve(shared, &spec.image)?;
    let volumes = volume_images(shared, spec)?;
    match image.rootfs.upper {
        UpperKind::Tmpfs { .. } => {}
        UpperKind::Directory => {
            image.rootfs.lower_dirs.extend(shared.places.beneath(&spec.mounts));
        }
    }
    let (mut plan, root) = rooted(shared, sandbox, spec, image.rootfs.upper, |dir| {
        let mount_point = sandbox.mount_point();
        let place = PlanContext {
            slot,
            dir,
            mount_point: &mount_point,
            hostname: &sandbox.hostname,
            volume_images: &volumes.layers,
        };
        plan::container(spec, &image, &place, &shared.profiles)
    })?;
    plan.processes = processes(spec, sandbox.namespaces.processes);
    plan.cgroup = shared
        .cgroups
        .create_container(&key.sandbox, slot, &spec.resources)
        .map_err(|error| failed(key, CREATE, error))?;
    let record = SlotRecord {
        key: key.clone(),
        id: shared.layout.container_id(key),
        image_id: image.id.clone(),
        stop_signal: plan::stop_signal(&image.config),
        root,
        user: None,
        volume_images: volumes.ids,
    };
    sandbox
        .record(&RecordLine::Made { slot: slot.to_owned(), record: record.clone() })
        .map_err(|e| failed(key, CREATE, format!("write down container {slot}: {e}")))?;
    let next = ahead::wanted(sandbox, spec, &plan);
    Ok(PlannedContainer { plan, record, next })
}

/// The plan, and the folder of its writable layer when that is on the disk: those of the root that
/// was made ahead for this start, if it serves.
fn rooted(
    shared: &Arc<SharedRuntime>,
    sandbox: &EmbeddedSandbox,
    spec: &ContainerSpec,
    upper: UpperKind,
    plan_in: impl Fn(&Path) -> Result<ContainerPlan, PlanError>,
) -> Result<(ContainerPlan, Option<String>), RuntimeError> {
    let key = &spec.key;
    let dir_of = |folder: Option<&str>| sandbox.roots.dir().join(folder.unwrap_or_default());
    if let Some(ready) = sandbox.take_root(&key.name.0) {
        match plan_in(&dir_of(ready.folder.as_deref())) {
            Ok(plan) if ready.plan.serves(&plan) => return Ok((plan, ready.folder)),
            Ok(_) | Err(_) => janitor::retire_root(shared, sandbox, ready.folder),
        }
    }
    let folder = match upper {
        UpperKind::Tmpfs { .. } => None,
        UpperKind::Directory => {
            let at = sandbox.roots.dir().display();
            let taken = sandbox.roots.take();
            Some(taken.map_err(|e| failed(key, CREATE, format!("make a folder in {at}: {e}")))?)
        }
    };
    match plan_in(&dir_of(folder.as_deref())) {
        Ok(plan) => Ok((plan, folder)),
        Err(PlanError::Spec(problem)) => Err(RuntimeError::Config { key: key.clone(), problem }),
        Err(PlanError::Profile(error)) => Err(failed(key, CREATE, error)),
    }
}

/// An open /proc is as safe as its users are nobody outside.
fn check_proc_mount(spec: &ContainerSpec, users: SandboxUsers) -> Result<(), RuntimeError> {
    match (spec.security.proc_mount, users) {
        (ProcMount::Default, _) | (ProcMount::Unmasked, SandboxUsers::Own(_)) => Ok(()),
        (ProcMount::Unmasked, SandboxUsers::Host) => {
            let problem = "procMount Unmasked needs users of the pod's own (hostUsers: false)";
            Err(RuntimeError::Config { key: spec.key.clone(), problem: problem.to_owned() })
        }
    }
}

fn processes(spec: &ContainerSpec, of_sandbox: ProcessVisibility) -> PidNamespacePlan {
    match (&spec.target, of_sandbox) {
        (Some(target), ProcessVisibility::Container) => {
            PidNamespacePlan::Container { slot: layout::slot(target) }
        }
        // The target has no other one.
        (_, ProcessVisibility::Pod) => PidNamespacePlan::Sandbox,
        (_, ProcessVisibility::Host) => PidNamespacePlan::Host,
        (None, ProcessVisibility::Container) => PidNamespacePlan::Own,
    }
}

/// Lets the prepared process go.
pub(crate) async fn start(
    shared: &Arc<SharedRuntime>,
    key: &ContainerKey,
) -> Result<StartedContainer, RuntimeError> {
    let home = SandboxSlot::new(shared, key, START)?;
    let gate = home.sandbox.container_gate(&home.slot);
    let _gate = gate.lock().await;
    match home.found() {
        Some(_) => let_go(shared, &home, key).await,
        None => Err(failed(key, START, "it was not created")),
    }
}

async fn let_go(
    shared: &Arc<SharedRuntime>,
    home: &SandboxSlot,
    key: &ContainerKey,
) -> Result<StartedContainer, RuntimeError> {
    let answer = home.link.call(ShimRequest::Start { slot: home.slot.clone() }).await;
    if let Err(CallError::Refused(ShimFailure { kind: FailureKind::State, .. })) = answer {
        // its shim does not have it: the next try makes it
        clear(shared, &home.sandbox, &home.slot);
    }
    start_time(key, answer)
}

fn start_time(
    key: &ContainerKey,
    answer: Result<ShimAnswer, CallError>,
) -> Result<StartedContainer, RuntimeError> {
    match answer.map_err(|error| refused(key, START, error))? {
        ShimAnswer::Started { pid, started_at_us } => {
            Ok(StartedContainer { pid, started_at: Tick::from_micros(started_at_us) })
        }
        ShimAnswer::Done | ShimAnswer::Created(_) | ShimAnswer::State(_) => {
            Err(failed(key, START, "the shim answered something else"))
        }
    }
}

/// Signals the container's first process; with SIGKILL all of the container ends: its PID
/// namespace, or where it shares one what its shim finds in its cgroup then.
pub(crate) async fn signal(
    shared: &Arc<SharedRuntime>,
    key: &ContainerKey,
    signal: StopSignal,
) -> Result<(), RuntimeError> {
    let slot = layout::slot(key);
    let Some(sandbox) = shared.find(&key.sandbox) else { return Ok(()) };
    let found = sandbox
        .container(&slot, |container| (container.phase.clone(), container.record.stop_signal));
    let Some((phase, image_signal)) = found else { return Ok(()) };
    match phase {
        ContainerPhase::Exited { .. } => return Ok(()),
        ContainerPhase::Created | ContainerPhase::Running { .. } => {}
    }
    let signal = match signal {
        StopSignal::ImageDefault => image_signal,
        StopSignal::Kill => libc::SIGKILL,
        StopSignal::Number(number) => number,
    };
    let Some(link) = sandbox.link() else { return Ok(()) };
    let asked = ShimRequest::Signal { slot: slot.clone(), signal };
    let answer = match signal {
        libc::SIGKILL => contact::insist(shared, &sandbox, &link, asked).await,
        // SIGKILL follows when its time is up, whatever became of this one
        _ => contact::ask(&link, asked).await,
    };
    match answer {
        Ok(_) => {
            sandbox.note_signal(&slot);
            Ok(())
        }
        // Without its shim it does not live either.
        Err(CallError::Gone) => Ok(()),
        Err(error @ (CallError::Refused(_) | CallError::Silent(_))) => {
            Err(refused(key, "signal", error))
        }
    }
}

/// Takes away a container that has ended, or was never started.
pub(crate) async fn remove(
    shared: &Arc<SharedRuntime>,
    key: &ContainerKey,
) -> Result<(), RuntimeError> {
    let slot = layout::slot(key);
    let Some(sandbox) = shared.find(&key.sandbox) else { return Ok(()) };
    let gate = sandbox.container_gate(&slot);
    let _gate = gate.lock().await;
    if sandbox.container(&slot, |_| ()).is_none() {
        return Ok(());
    }
    if let Some(link) = sandbox.link() {
        let asked = ShimRequest::Remove { slot: slot.clone() };
        match contact::ask(&link, asked).await {
            Ok(_) | Err(CallError::Gone) => {}
            Err(error @ (CallError::Refused(_) | CallError::Silent(_))) => {
                return Err(refused(key, "remove", error));
            }
        }
    }
    clear(shared, &sandbox, &slot);
    Ok(())
}

/// Forgets a container here and on disk.
pub(crate) fn clear(shared: &Arc<SharedRuntime>, sandbox: &Arc<EmbeddedSandbox>, slot: &str) {
    let root = sandbox.container(slot, |container| container.record.root.clone()).flatten();
    let path = sandbox.dir.join(rekindle_shim::state_file::name(slot));
    let removed = match fs::remove_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    };
    let forgotten =
        removed.and_then(|()| sandbox.record(&RecordLine::Gone { slot: slot.to_owned() }));
    if let Err(error) = forgotten {
        tracing::warn!(%error, path = %path.display(), "failed to remove a container's record");
    }
    sandbox.forget(slot);
    janitor::retire_container(shared, sandbox, slot, root);
}
