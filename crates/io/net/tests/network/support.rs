//! Network namespaces made by a test: they end with the processes that hold them, also when the
//! test fails.
#![allow(unreachable_pub, reason = "a module of a test")]

use std::future::Future;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;

use rekindle_testkit::guarded_child::GuardedChild;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace, held by a process that ends with this one, however this one ends.
pub struct Namespace {
    holder: GuardedChild,
}

impl Namespace {
    pub fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "echo made; exec sleep infinity"]);
        let mut holder = GuardedChild::start(&mut command);
        let made = holder.lines().next().expect("unshare (util-linux) and root are needed");
        assert_eq!(made.unwrap(), "made");
        Self { holder }
    }

    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.holder.0.id()).into()
    }

    /// Runs `work` on a thread inside.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace = std::fs::File::open(self.path()).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .unwrap();
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs `work` inside, on a tokio runtime whose threads are all inside.
    pub fn block_on<F: Future<Output = T>, T: Send>(&self, work: impl FnOnce() -> F + Send) -> T {
        self.inside(|| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(work())
        })
    }

    /// What `ip` (iproute2) says inside.
    pub fn ip(&self, arguments: &str) -> String {
        self.run("ip", arguments)
    }

    /// What a program says inside.
    pub fn run(&self, program: &str, arguments: &str) -> String {
        self.inside(|| {
            let output = Command::new(program).args(arguments.split(' ')).output().unwrap();
            assert!(output.status.success(), "{program} {arguments}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        })
    }
}
