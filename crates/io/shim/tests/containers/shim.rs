//! The real shim, and plans for it. Needs root.
#![allow(unreachable_pub, reason = "a module of a test")]

use std::fs;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rekindle_shim::frame;
use rekindle_shim::protocol::*;
use rustix::event::{PollFd, PollFlags};

/// A shim with a sandbox, spoken to directly. Its containers end with it, also when a test fails.
pub struct Shim {
    dir: tempfile::TempDir,
    /// Layers: on another file system, as overlayfs takes no layer that lies within another one
    /// (the host's root).
    images: tempfile::TempDir,
    child: Child,
    socket: UnixStream,
    input: Vec<u8>,
    seq: u64,
}

impl Shim {
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("rekindle-hostile-").tempdir().unwrap();
        let images = tempfile::Builder::new().prefix("rekindle-").tempdir_in("/dev/shm").unwrap();
        fs::create_dir(images.path().join("image")).unwrap();
        for name in ["sandbox", "sandbox/shm", "outside", "logs", "volume"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("outside/secret"), "secret").unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let socket = UnixStream::connect(&path).unwrap();
        let sandbox = fs::File::open(dir.path().join("sandbox")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_rekindle-shim"))
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .stdout(Stdio::from(OwnedFd::from(sandbox)))
            .spawn()
            .unwrap();
        let mut shim = Self { dir, images, child, socket, input: Vec::new(), seq: 0 };
        let plan = SandboxPlan {
            hostname: "hostile".to_owned(),
            sysctls: Vec::new(),
            shm_bytes: 1 << 20,
            mount_point: shim.text("sandbox/shm"),
            namespaces: NamespacesPlan::default(),
        };
        assert_eq!(shim.call(ShimRequest::Configure(plan)), Ok(ShimAnswer::Done));
        shim
    }

    pub fn path(&self, name: &str) -> PathBuf {
        let dir = if name.starts_with("image") { &self.images } else { &self.dir };
        dir.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As another agent.
    pub fn connect_again(&mut self) {
        self.socket = UnixStream::connect(self.path("socket")).unwrap();
        self.input.clear();
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn next(&mut self) -> ShimMessage {
        loop {
            if let Some(message) = frame::take(&mut self.input).unwrap() {
                return message;
            }
            let mut buffer = [0; 4096];
            let count = self.socket.read(&mut buffer).unwrap();
            assert_ne!(count, 0, "the shim is gone");
            self.input.extend_from_slice(&buffer[..count]);
        }
    }

    pub fn call(&mut self, request: ShimRequest) -> Result<ShimAnswer, ShimFailure> {
        self.send([request]);
        self.answer(self.seq)
    }

    /// Several calls in one write, and their answers, which come in the same order.
    pub fn call_all<const N: usize>(
        &mut self,
        requests: [ShimRequest; N],
    ) -> [Result<ShimAnswer, ShimFailure>; N] {
        let before = self.seq;
        self.send(requests);
        let mut seq = before;
        std::array::from_fn(|_| {
            seq += 1;
            self.answer(seq)
        })
    }

    pub fn send(&mut self, requests: impl IntoIterator<Item = ShimRequest>) {
        let mut output = Vec::new();
        for request in requests {
            self.seq += 1;
            frame::write(&ShimCall { seq: self.seq, request }, &mut output).unwrap();
        }
        self.socket.write_all(&output).unwrap();
    }

    fn answer(&mut self, expected: u64) -> Result<ShimAnswer, ShimFailure> {
        match self.next() {
            ShimMessage::Answer { seq, result } if seq == expected => result,
            message => panic!("{message:?}"),
        }
    }

    /// A container that runs `script`, with the folder `image` over the host's root.
    pub fn plan(&self, script: &str) -> ContainerPlan {
        ContainerPlan {
            slot: format!("web-{}", self.seq),
            root: RootPlan {
                lower_dirs: vec![self.text("image"), "/".to_owned()],
                public_dir: None,
                mount_point: self.text("sandbox/shm"),
                upper: WritableLayer::Tmpfs { size_bytes: 16 << 20 },
                access: MountAccess::ReadWrite,
                mask: Vec::new(),
                volumes: Vec::new(),
            },
            mounts: Vec::new(),
            process: ProcessPlan {
                argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
                env: Vec::new(),
                working_dir: "/".to_owned(),
                user: UserPlan {
                    image_user: String::new(),
                    uid: None,
                    gid: None,
                    groups: Vec::new(),
                    root: RootUser::Allowed,
                    image_groups: ImageGroups::Merged,
                },
            },
            confinement: Confinement {
                privilege: Privilege::Confined,
                capabilities: 0xa804_25fb,
                escalation: PrivilegeEscalation::Refused,
                seccomp: Vec::new(),
                masked_paths: vec!["/proc/timer_list".to_owned(), "/sys/firmware".to_owned()],
                read_only_paths: vec!["/proc/sys".to_owned()],
            },
            cgroup: CgroupPlan::default(),
            stdio: StdioPlan::default(),
            processes: PidNamespacePlan::default(),
            oom_score_adj: 0,
            log: LogPlan {
                dir: self.text("logs"),
                file: format!("{}.log", self.seq),
                max_bytes: 1 << 20,
                max_files: 2,
            },
        }
    }

    pub fn volume(&self, sub_path: Option<&str>, destination: &str) -> MountPlan {
        MountPlan {
            source: self.text("volume"),
            layers: Vec::new(),
            sub_path: sub_path.map(str::to_owned),
            destination: destination.to_owned(),
            access: MountAccess::ReadWrite,
            options: MountOptions::default(),
        }
    }

    pub fn create(&mut self, plan: ContainerPlan) -> Result<ShimAnswer, ShimFailure> {
        self.call(ShimRequest::Create(Box::new(plan)))
    }

    /// Runs it to its end; answers exit code and log.
    pub fn run(&mut self, plan: ContainerPlan) -> (ExitCause, String) {
        let (slot, log) = (plan.slot.clone(), self.path("logs").join(&plan.log.file));
        assert!(matches!(self.create(plan), Ok(ShimAnswer::Created(_))));
        self.call(ShimRequest::Start { slot: slot.clone() }).unwrap();
        match self.next() {
            ShimMessage::Exited { slot: ended, exit } if ended == slot => {
                (exit.cause, fs::read_to_string(log).unwrap())
            }
            message => panic!("{message:?}"),
        }
    }

    pub fn assert_outside_is_untouched(&self) {
        let names: Vec<_> = fs::read_dir(self.path("outside"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["secret"]);
        assert_eq!(fs::read_to_string(self.path("outside/secret")).unwrap(), "secret");
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A cgroup of the unified hierarchy.
pub struct Group(pub PathBuf);

impl Group {
    pub fn new(name: &str) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let unified = mounts.lines().find(|line| line.contains(" - cgroup2 ")).unwrap();
        let root = PathBuf::from(unified.split(' ').nth(4).unwrap());
        let group = Self(root.join(format!("rekindle-{name}-{}", std::process::id())));
        fs::create_dir(&group.0).unwrap();
        group
    }

    /// One in which nothing moves: whoever is born in it stands still before its first instruction.
    pub fn frozen(name: &str) -> Self {
        let group = Self::new(name);
        fs::write(group.0.join("cgroup.freeze"), "1").unwrap();
        group
    }

    pub fn thaw(&self) {
        fs::write(self.0.join("cgroup.freeze"), "0").unwrap();
    }

    pub fn text(&self) -> String {
        self.0.to_str().unwrap().to_owned()
    }
}

impl Drop for Group {
    /// Whoever is in it ends first.
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        if let Ok(events) = fs::File::open(self.0.join("cgroup.events")) {
            while std::io::read_to_string(&events).is_ok_and(|said| said.contains("populated 1")) {
                let _ = rustix::event::poll(&mut [PollFd::new(&events, PollFlags::PRI)], None);
                let _ = (&events).rewind();
            }
        }
        let _ = fs::remove_dir(self.0.join("made"));
        let _ = fs::remove_dir(&self.0);
    }
}
