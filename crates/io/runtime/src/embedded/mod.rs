//! The embedded runtime: our own launcher, one small shim process per pod sandbox.
//!
//! The agent's half: it resolves images, makes folders and cgroups, turns specs into plans, and
//! keeps a picture of every sandbox in step with its shim. The other half is the crate
//! `rekindle-shim`.
//!
//! Invariants: what an agent needs to know again after a crash is on disk before a shim is asked to
//! act on it; an exit is on disk (the shim's doing) before it is an event; what is taken away has
//! left its place before it is deleted, and the deleting keeps nobody waiting.

mod ahead;
mod capabilities;
mod cgroup;
mod clearing;
mod contact;
mod containers;
mod exec;
mod images;
mod janitor;
mod layout;
mod limits;
mod link;
mod oom_watch;
mod places;
mod plan;
mod records;
mod recover;
mod roots;
mod sandbox;
mod sandboxes;
mod seccomp;
mod shim_process;
mod shim_watch;
mod spares;
mod streams;
mod support;
mod sysctls;
mod trash;
mod usage;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rekindle_types::Tick;
use tokio::sync::mpsc;

use crate::blocking::run as blocking;
use crate::error::{Cause, RuntimeError};
use crate::exec::{ExecOutcome, ExecStreams, StreamRequest};
use crate::image::registry::{Puller, RegistrySettings};
use crate::image::{ImageError, ImageRemoval, ImageStore};
use crate::runtime::{
    CreatedContainer, ImageFileSystem, ImageInfo, ImageOnDisk, ImagePull, ImagesInUse,
    RunContainerResult, Runtime, RuntimeEvent, SandboxSnapshot, StartedContainer, StopSignal,
};
use crate::spec::{
    ContainerKey, ContainerSpec, LimitChange, Resources, SandboxInfo, SandboxKey, SandboxMemory,
    SandboxSpec,
};
use crate::usage::{LayerUsage, RuntimeUsage};

pub use images::{images_in_use, join_in_use};

use cgroup::EngineCgroups;
use clearing::ClearingTasks;
use layout::Layout;
use places::BaseLayers;
use sandbox::EmbeddedSandbox;
use seccomp::Profiles;
use shim_process::ShimProgram;
use spares::Spares;

/// What an [`EmbeddedRuntime`] needs to know.
#[derive(Clone)]
pub struct RuntimeConfig {
    /// Sandboxes' records, exits and writable layers: on a disk file system. Made when absent, mode
    /// 0700.
    pub data_dir: PathBuf,
    /// Sockets of the shims; may be emptied by a reboot. Made when absent, mode 0700.
    pub run_dir: PathBuf,
    /// Tells this engine's cgroups from another's on the same machine: letters, digits, `-`, `_`.
    pub engine_id: String,
    /// Where images are resolved.
    pub images: Arc<ImageStore>,
    /// Which images of that store others use: runtimes of other nodes.
    pub other_users: ImageUsers,
    /// How registries are asked for images that are not there.
    pub registries: RegistrySettings,
    /// The agent's clock.
    pub clock: Arc<dyn Fn() -> Tick + Send + Sync>,
}

/// Which of an image store's images are used by others than the runtime itself: answers the ids of
/// images that containers were made from.
pub type ImageUsers = Arc<dyn Fn() -> std::io::Result<ImagesInUse> + Send + Sync>;

/// For a store that only one runtime uses.
pub fn nobody_else() -> ImageUsers {
    Arc::new(|| Ok(ImagesInUse::new()))
}

/// Runs containers through shims of its own. Cheap to share behind an `Arc`.
///
/// Dropping it leaves every sandbox running; another one opened on the same folders finds them.
/// Calls that were cancelled go on to their end by themselves.
pub struct EmbeddedRuntime {
    shared: Arc<SharedRuntime>,
    events: tokio::sync::Mutex<mpsc::UnboundedReceiver<RuntimeEvent>>,
}

/// What all calls and tasks share.
struct SharedRuntime {
    layout: Layout,
    cgroups: EngineCgroups,
    places: BaseLayers,
    profiles: Profiles,
    program: ShimProgram,
    images: Arc<ImageStore>,
    other_users: ImageUsers,
    puller: Puller,
    clock: Arc<dyn Fn() -> Tick + Send + Sync>,
    sandboxes: Mutex<BTreeMap<SandboxKey, Arc<EmbeddedSandbox>>>,
    spares: Spares,
    events: mpsc::UnboundedSender<RuntimeEvent>,
    /// Numbers the commands that are run in containers.
    exec_ids: AtomicU64,
    clearing: ClearingTasks,
}

impl EmbeddedRuntime {
    /// Opens the folders, connects to every shim that lives, takes stock of those that do not, and
    /// begins to clear away what nobody knows any more. Must be called inside a tokio runtime with
    /// IO and time enabled.
    ///
    /// # Errors
    /// `Unavailable`: not root, a kernel that is too old, no cgroups, folders that cannot be made.
    pub async fn open(config: RuntimeConfig) -> Result<Self, RuntimeError> {
        support::check(&config)?;
        let (events, receiver) = mpsc::unbounded_channel();
        let layout = Layout::open(&config.engine_id, &config.data_dir, &config.run_dir)
            .map_err(|e| unavailable("open the runtime's folders", e))?;
        let shared = Arc::new(SharedRuntime {
            places: BaseLayers::open(&layout.places()),
            layout,
            cgroups: EngineCgroups::detect(&config.engine_id)
                .map_err(|e| unavailable("find the machine's cgroups", e))?,
            profiles: Profiles::default(),
            program: ShimProgram::load().map_err(|e| unavailable("load the shim", e))?,
            puller: Puller::new(config.images.clone(), config.registries),
            images: config.images,
            other_users: config.other_users,
            clock: config.clock,
            sandboxes: Mutex::default(),
            spares: Spares::default(),
            events,
            exec_ids: AtomicU64::new(0),
            clearing: ClearingTasks::new(),
        });
        recover::recover(&shared).await?;
        shim_watch::start(&shared);
        Ok(Self { shared, events: tokio::sync::Mutex::new(receiver) })
    }

    /// Ends what was made ahead of need, and waits until everything that was removed is cleared
    /// away, too: cgroups, processes, files. For an engine that ends; one that does not wait clears
    /// the rest away at its next start.
    pub async fn settled(&self) {
        spares::end_all(&self.shared).await;
        self.shared.clearing.settle().await;
    }

    /// For an engine that has ended its sandboxes: waits until they are cleared away, and takes the
    /// engine's own cgroups and run folder away, too. What still holds a sandbox stays; the next
    /// engine makes the rest again.
    ///
    /// # Errors
    /// `Unavailable`: a folder that is empty cannot be removed.
    pub async fn leave(&self) -> Result<(), RuntimeError> {
        const OPERATION: &str = "take the runtime's folders away";
        self.settled().await;
        self.shared.cgroups.remove_engine().map_err(|e| unavailable(OPERATION, e))?;
        match std::fs::remove_dir(self.shared.layout.run()) {
            Err(e) if e.kind() == std::io::ErrorKind::DirectoryNotEmpty => Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(|e| unavailable(OPERATION, e)),
        }
    }
}

fn unavailable(operation: &'static str, source: impl Into<Cause>) -> RuntimeError {
    RuntimeError::Unavailable { operation, source: source.into() }
}

impl SharedRuntime {
    fn sandboxes(&self) -> MutexGuard<'_, BTreeMap<SandboxKey, Arc<EmbeddedSandbox>>> {
        self.sandboxes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn all(&self) -> Vec<Arc<EmbeddedSandbox>> {
        self.sandboxes().values().cloned().collect()
    }

    fn find(&self, key: &SandboxKey) -> Option<Arc<EmbeddedSandbox>> {
        self.sandboxes().get(key).cloned()
    }

    /// The images that containers were made from, here and elsewhere.
    fn images_in_use(&self) -> std::io::Result<ImagesInUse> {
        let mut in_use = images::in_use(&self.layout.sandboxes())?;
        images::join_in_use(&mut in_use, (self.other_users)()?);
        Ok(in_use)
    }

    fn next_exec_id(&self) -> u64 {
        self.exec_ids.fetch_add(1, Ordering::Relaxed)
    }

    fn now(&self) -> Tick {
        (self.clock)()
    }

    /// Carries a call on to its end even when its caller goes away meanwhile: half a sandbox helps
    /// nobody.
    async fn to_the_end<T: Send + 'static>(
        call: impl Future<Output = Result<T, RuntimeError>> + Send + 'static,
    ) -> Result<T, RuntimeError> {
        match tokio::spawn(call).await {
            Ok(result) => result,
            Err(error) => Err(unavailable("carry out a runtime call", error)),
        }
    }
}

impl Runtime for EmbeddedRuntime {
    async fn run_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxInfo, RuntimeError> {
        let (shared, spec) = (self.shared.clone(), spec.clone());
        SharedRuntime::to_the_end(async move { sandboxes::run(&shared, &spec).await }).await
    }

    async fn prepare_sandbox(&self) -> Result<Option<SandboxInfo>, RuntimeError> {
        let shared = self.shared.clone();
        SharedRuntime::to_the_end(async move { spares::prepare(&shared).await }).await
    }

    async fn end_prepared(&self) {
        spares::end_all(&self.shared).await;
    }

    fn sandbox_id(&self, key: &SandboxKey) -> Option<String> {
        self.shared.find(key).map(|sandbox| sandbox.id.clone())
    }

    async fn remove_sandbox(&self, key: &SandboxKey) -> Result<(), RuntimeError> {
        let (shared, key) = (self.shared.clone(), key.clone());
        SharedRuntime::to_the_end(async move { sandboxes::remove(&shared, &key).await }).await
    }

    async fn create_container(
        &self,
        spec: &ContainerSpec,
    ) -> Result<CreatedContainer, RuntimeError> {
        let (shared, spec) = (self.shared.clone(), spec.clone());
        SharedRuntime::to_the_end(async move { containers::create(&shared, spec).await }).await
    }

    async fn start_container(&self, key: &ContainerKey) -> Result<StartedContainer, RuntimeError> {
        let (shared, key) = (self.shared.clone(), key.clone());
        SharedRuntime::to_the_end(async move { containers::start(&shared, &key).await }).await
    }

    async fn run_container(
        &self,
        spec: &ContainerSpec,
    ) -> Result<RunContainerResult, RuntimeError> {
        let (shared, spec) = (self.shared.clone(), spec.clone());
        SharedRuntime::to_the_end(async move { containers::run(&shared, spec).await }).await
    }

    async fn signal_container(
        &self,
        key: &ContainerKey,
        signal: StopSignal,
    ) -> Result<(), RuntimeError> {
        containers::signal(&self.shared, key, signal).await
    }

    async fn update_sandbox(
        &self,
        key: &SandboxKey,
        resources: &Resources,
        change: LimitChange,
    ) -> Result<(), RuntimeError> {
        limits::update_sandbox(&self.shared, key, resources, change).await
    }

    async fn update_container(
        &self,
        key: &ContainerKey,
        resources: &Resources,
    ) -> Result<(), RuntimeError> {
        limits::update_container(&self.shared, key, resources).await
    }

    async fn memory(&self, key: &SandboxKey) -> Result<SandboxMemory, RuntimeError> {
        limits::memory(&self.shared, key).await
    }

    async fn exec_sync(
        &self,
        key: &ContainerKey,
        command: &[String],
        timeout: Duration,
    ) -> Result<ExecOutcome, RuntimeError> {
        exec::sync(&self.shared, key, command, timeout).await
    }

    async fn exec(
        &self,
        key: &ContainerKey,
        command: &[String],
        request: StreamRequest,
    ) -> Result<ExecStreams, RuntimeError> {
        streams::exec(&self.shared, key, command, request).await
    }

    async fn attach(
        &self,
        key: &ContainerKey,
        request: StreamRequest,
    ) -> Result<ExecStreams, RuntimeError> {
        streams::attach(&self.shared, key, request).await
    }

    async fn remove_container(&self, key: &ContainerKey) -> Result<(), RuntimeError> {
        let (shared, key) = (self.shared.clone(), key.clone());
        SharedRuntime::to_the_end(async move { containers::remove(&shared, &key).await }).await
    }

    async fn snapshot(&self) -> Result<Vec<SandboxSnapshot>, RuntimeError> {
        Ok(self.shared.all().iter().map(|sandbox| sandbox.snapshot()).collect())
    }

    async fn usage(&self) -> Result<RuntimeUsage, RuntimeError> {
        let shared = self.shared.clone();
        blocking(move || usage::all(&shared)).await
    }

    async fn layer_usage(
        &self,
        key: &ContainerKey,
        entries_max: u64,
    ) -> Result<Option<LayerUsage>, RuntimeError> {
        usage::layer(&self.shared, key, entries_max).await
    }

    async fn next_event(&self) -> RuntimeEvent {
        match self.events.lock().await.recv().await {
            Some(event) => event,
            // `shared` holds a sender, so this is never reached while `self` is.
            None => std::future::pending().await,
        }
    }

    async fn image_status(&self, image: &str) -> Result<Option<ImageInfo>, RuntimeError> {
        // nearly always, and a start of a container waits for it: a thread for it would have to be
        // woken first
        if let Some(info) = self.shared.images.info_at_hand(image) {
            return Ok(Some(info));
        }
        let (images, name) = (self.shared.images.clone(), image.to_owned());
        blocking(move || images.info(&name).map_err(|error| error.to_runtime(&name))).await
    }

    async fn pull_image(&self, request: &ImagePull) -> Result<ImageInfo, RuntimeError> {
        let pulled = self.shared.puller.pull(&request.image, &request.keyring).await;
        pulled.map_err(|error| error.to_runtime(&request.image))
    }

    async fn images(&self) -> Result<Vec<ImageOnDisk>, RuntimeError> {
        const OPERATION: &str = "list the images";
        let shared = self.shared.clone();
        blocking(move || {
            let in_use = shared.images_in_use();
            let in_use = in_use.map_err(|error| unavailable(OPERATION, error))?;
            shared.images.images(&in_use).map_err(|error| unavailable(OPERATION, error))
        })
        .await
    }

    async fn image_file_system(&self) -> Result<ImageFileSystem, RuntimeError> {
        let images = self.shared.images.clone();
        let found = blocking(move || images.file_system()).await;
        found.map_err(|error| unavailable("look at the file system of the images", error))
    }

    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError> {
        let (shared, id) = (self.shared.clone(), id.to_owned());
        blocking(move || {
            match shared.images.remove(&id, ImageRemoval::OfUnused, || shared.images_in_use()) {
                Err(ImageError::NotFound { .. }) | Ok(()) => Ok(()),
                Err(error) => Err(error.to_runtime(&id)),
            }
        })
        .await
    }
}
