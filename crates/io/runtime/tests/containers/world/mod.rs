//! A runtime of its own for each test: own folders, own engine id. What it made is taken away in
//! the end, also when the test fails. Needs root.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(missing_docs, clippy::disallowed_methods, reason = "it drives real processes")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

pub mod machine;

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rekindle_runtime::embedded::{EmbeddedRuntime, RuntimeConfig};
use rekindle_runtime::image::{BuiltinImages, HostImage, ImageStore};
use rekindle_runtime::*;
use rekindle_testkit::shims;
use rekindle_types::{ContainerAttempt, ContainerName, Exit, PodRef, PodUid, SandboxAttempt, Tick};

/// No event takes this long, not even on a busy machine; a test that waits longer has failed.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub struct World {
    pub dir: tempfile::TempDir,
    pub engine_id: String,
    pub runtime: Option<Arc<EmbeddedRuntime>>,
    tokio: Option<tokio::runtime::Runtime>,
}

impl World {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = tempfile::Builder::new().prefix("rekindle-test-").tempdir().unwrap();
        let engine_id = format!("test-{}-{number}", std::process::id());
        Self::on(dir, engine_id)
    }

    fn on(dir: tempfile::TempDir, engine_id: String) -> Self {
        let tokio = tokio_runtime();
        let mut world = Self { dir, engine_id, runtime: None, tokio: Some(tokio) };
        world.reopen();
        world
    }

    pub fn config(&self) -> RuntimeConfig {
        config(self.dir.path(), &self.engine_id)
    }

    /// The agent ends, and all that it had begun: a task that it leaves behind would connect to a
    /// shim in the next agent's place.
    pub fn end_agent(&mut self) {
        self.runtime = None;
        drop(self.tokio.replace(tokio_runtime()));
    }

    /// Another agent on the same folders; the one before ends first.
    pub fn reopen(&mut self) {
        self.end_agent();
        let config = self.config();
        let runtime = self.block(EmbeddedRuntime::open(config)).unwrap();
        self.runtime = Some(Arc::new(runtime));
    }

    pub fn rt(&self) -> &EmbeddedRuntime {
        self.runtime.as_ref().unwrap()
    }

    pub fn block<T>(&self, future: impl Future<Output = T>) -> T {
        self.tokio.as_ref().unwrap().block_on(async {
            tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
        })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn sandbox(&self) -> SandboxKey {
        self.sandbox_attempt(0)
    }

    pub fn sandbox_attempt(&self, attempt: u32) -> SandboxKey {
        SandboxKey { pod: pod(), attempt: SandboxAttempt(attempt) }
    }

    pub fn run_sandbox(&self) -> SandboxInfo {
        self.block(self.rt().run_sandbox(&sandbox_spec(self.sandbox()))).unwrap()
    }

    /// A container that runs `script` with the host's shell. It finds in /tmp what lies in the
    /// machine's: whatever a script makes there needs a name that nobody else gives.
    pub fn shell(&self, name: &str, attempt: u32, script: &str) -> ContainerSpec {
        let mut spec = self.spec(name, attempt);
        spec.command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        spec
    }

    pub fn spec(&self, name: &str, attempt: u32) -> ContainerSpec {
        let logs = self.path("logs");
        fs::create_dir_all(&logs).unwrap();
        ContainerSpec {
            key: ContainerKey {
                sandbox: self.sandbox(),
                name: ContainerName(name.to_owned()),
                attempt: ContainerAttempt(attempt),
            },
            image: "localhost/host".to_owned(),
            command: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            working_dir: None,
            mounts: Vec::new(),
            resources: Resources::default(),
            security: security(),
            log_path: logs.join(format!("{name}-{attempt}.log")),
            log_limits: LogLimits::default(),
            stdio: ContainerStdio::default(),
            target: None,
            oom_score_adj: 0,
            renewal: ExpectedRestart::NotExpected,
        }
    }

    pub fn start(&self, spec: &ContainerSpec) -> StartedContainer {
        self.block(self.rt().run_container(spec)).unwrap().start.unwrap()
    }

    pub fn next_exit(&self) -> (ContainerKey, Exit) {
        match self.block(self.rt().next_event()) {
            RuntimeEvent::ContainerExited { key, exit, .. } => (key, exit),
            event
            @ (RuntimeEvent::SandboxDied { .. } | RuntimeEvent::ProcessesOomKilled { .. }) => {
                panic!("unexpected {event:?}")
            }
        }
    }

    /// Runs a container to its end.
    pub fn run(&self, spec: &ContainerSpec) -> Exit {
        self.start(spec);
        let (key, exit) = self.next_exit();
        assert_eq!(key, spec.key);
        exit
    }

    /// Runs a script and answers what it wrote.
    pub fn output(&self, spec: &ContainerSpec) -> String {
        let exit = self.run(spec);
        let output = read_log(&spec.log_path);
        assert_eq!(exit.status.code(), 0, "{output}");
        output
    }

    /// Runs a script in a container that runs; answers how it ended and what it wrote.
    pub fn exec(&self, key: &ContainerKey, script: &str) -> (ExecExit, String) {
        let command = ["/bin/sh", "-c", script].map(str::to_owned);
        let outcome = self.block(self.rt().exec_sync(key, &command, PATIENCE));
        let outcome = outcome.unwrap_or_else(|error| panic!("{}", error.chain()));
        (outcome.exit, String::from_utf8(outcome.output).unwrap())
    }

    pub fn snapshot(&self) -> SandboxSnapshot {
        let mut snapshots = self.block(self.rt().snapshot()).unwrap();
        assert_eq!(snapshots.len(), 1, "{snapshots:?}");
        snapshots.remove(0)
    }

    pub fn state_of(&self, key: &ContainerKey) -> Option<RuntimeContainerState> {
        let containers = self.snapshot().containers;
        containers.into_iter().find(|c| c.key == *key).map(|c| c.state)
    }
}

fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

impl Drop for World {
    fn drop(&mut self) {
        let Some(tokio) = self.tokio.take() else { return };
        if self.runtime.is_none() {
            let config = config(self.dir.path(), &self.engine_id);
            self.runtime = tokio.block_on(EmbeddedRuntime::open(config)).ok().map(Arc::new);
        }
        if let Some(runtime) = self.runtime.take() {
            tokio.block_on(async {
                for snapshot in runtime.snapshot().await.unwrap_or_default() {
                    let removed = runtime.remove_sandbox(&snapshot.key).await;
                    if let Err(error) = removed {
                        eprintln!("{}", error.chain());
                    }
                }
                runtime.settled().await;
            });
        }
        drop(tokio);
        let ended = shims::end(self.dir.path());
        if ended > 0 {
            eprintln!("{ended} shims of {} had to be killed", self.engine_id);
        }
        for hierarchy in fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            let _ = fs::remove_dir(hierarchy.path().join("rekindle").join(&self.engine_id));
        }
        let _ = fs::remove_dir(Path::new("/sys/fs/cgroup/rekindle").join(&self.engine_id));
    }
}

pub fn config(dir: &Path, engine_id: &str) -> RuntimeConfig {
    let builtins = BuiltinImages {
        engine_dirs: vec![dir.join("data"), dir.join("run")],
        host_write_limit_bytes: 64 * 1024 * 1024,
        host_image: HostImage::On,
    };
    fs::create_dir_all(dir.join("images")).unwrap();
    RuntimeConfig {
        data_dir: dir.join("data"),
        run_dir: dir.join("run"),
        engine_id: engine_id.to_owned(),
        other_users: rekindle_runtime::embedded::nobody_else(),
        images: Arc::new(ImageStore::open(&dir.join("images"), builtins).unwrap()),
        registries: Default::default(),
        clock: Arc::new(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            Tick::from_micros(u64::try_from(now.as_micros()).unwrap())
        }),
    }
}

pub fn pod() -> PodRef {
    PodRef {
        namespace: "default".to_owned(),
        name: "web-0".to_owned(),
        uid: PodUid("0b0e2e43-7f56-4c5e-a0b9-000000000001".to_owned()),
    }
}

pub fn sandbox_spec(key: SandboxKey) -> SandboxSpec {
    SandboxSpec {
        key,
        hostname: "web-0".to_owned(),
        resources: Resources::default(),
        sysctls: Default::default(),
        shm_bytes: 16 * 1024 * 1024,
        namespaces: Namespaces::default(),
    }
}

pub fn security() -> Security {
    Security {
        run_as_user: None,
        run_as_group: None,
        run_as_non_root: false,
        supplemental_groups: Vec::new(),
        add_capabilities: Vec::new(),
        drop_capabilities: Vec::new(),
        privileged: false,
        allow_privilege_escalation: true,
        read_only_root: false,
        image_groups: ImageGroups::Merged,
        seccomp: Seccomp::RuntimeDefault,
        proc_mount: ProcMount::Default,
    }
}

/// The texts of a CRI log, put together as `kubectl logs` does.
pub fn read_log(path: &Path) -> String {
    let log = fs::read_to_string(path).unwrap_or_default();
    log.lines()
        .map(|line| {
            let mut fields = line.splitn(4, ' ').skip(2);
            let end = if fields.next() == Some("F") { "\n" } else { "" };
            format!("{}{end}", fields.next().unwrap_or_default())
        })
        .collect()
}
