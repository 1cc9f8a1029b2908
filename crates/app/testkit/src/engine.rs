//! The binary under test, with a data directory and a network of its own.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::network::EngineNetwork;
use crate::{TIMEOUT, is, shims, text};

/// An engine on its own data directory.
pub struct Engine {
    child: Option<Child>,
    dir: tempfile::TempDir,
    network: EngineNetwork,
    log: Option<std::fs::File>,
    /// The URL of its API, once it is ready.
    pub api: String,
}

/// The binary under test.
pub fn rekindle() -> Command {
    let mut command = Command::new(rekindle_path());
    let node_config = concat!(env!("CARGO_MANIFEST_DIR"), "/node.yaml");
    command
        .env_remove("KUBECONFIG")
        .env_remove("REKINDLE_DATA_DIR")
        .env("REKINDLE_NODE_CONFIG", node_config);
    command
}

/// Where the binary under test lies: cargo and nextest say so to tests of its package.
pub fn rekindle_path() -> PathBuf {
    std::env::var_os("CARGO_BIN_EXE_rekindle")
        .expect("a black-box test is one of package rekindle, run by cargo or nextest")
        .into()
}

impl Engine {
    /// Starts an engine and waits until its API and its node are ready.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same, with further arguments of `rekindle up`.
    pub fn start_with(arguments: &[&str]) -> Self {
        let mut engine = Self::prepare();
        engine.launch(arguments);
        engine
    }

    /// An engine that is not started: a data directory and a network.
    pub fn prepare() -> Self {
        Self::prepare_in(&std::env::temp_dir())
    }

    /// The same in this folder.
    pub fn prepare_in(parent: &Path) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("rekindle-test-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .expect("temporary folder");
        let network = EngineNetwork::unique();
        Self { child: None, dir, network, api: String::new(), log: None }
    }

    /// Has what the engine writes to its standard error go to a file, from its next start on.
    pub fn log_to(&mut self, path: &Path) {
        self.log = Some(std::fs::File::create(path).expect("make the log"));
    }

    fn stderr(&self) -> Stdio {
        match &self.log {
            Some(log) => Stdio::from(log.try_clone().expect("share the log")),
            None => Stdio::inherit(),
        }
    }

    /// Starts the engine on this data directory (again).
    pub fn launch(&mut self, arguments: &[&str]) {
        assert!(self.child.is_none(), "it runs already");
        let mut child = self
            .up_command(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(self.stderr())
            .spawn()
            .expect("start rekindle up");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let api = loop {
            let line =
                lines.next().expect("the engine ended before it was ready").expect("its output");
            if let Some(api) = line.strip_prefix("API        ") {
                break api.to_owned();
            }
        };
        // The pipe is read to its end, so that the engine never blocks on it.
        std::thread::spawn(move || lines.for_each(drop));
        self.api = api;
        self.child = Some(child);
        // `kubectl wait` would fail where the API listens and the agent has not made its Node yet
        self.until_one("node/node-1", |node| is(node, "Ready"));
    }

    /// `rekindle up` on this engine's data directory and network.
    pub fn up_command(&self, arguments: &[&str]) -> Command {
        let mut command = rekindle();
        command
            .args(["up", "--listen", "127.0.0.1:0", "--node-name", "node-1"])
            .args(["--bridge", &self.network.bridge, "--pod-cidr", &self.network.pod_cidr])
            .args(["--service-cidr", &self.network.service_cidr])
            .arg("--data-dir")
            .arg(self.data_dir())
            .args(arguments);
        command
    }

    /// Starts the engine again and interrupts it as soon as it listens; returns when it has ended.
    pub fn launch_and_interrupt(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let mut child = self
            .up_command(&[])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start rekindle up");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut lines = stdout.lines().map_while(Result::ok);
        lines.find(|line| line.starts_with("API")).expect("it tells its address");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("interrupt it");
        lines.for_each(drop);
        assert!(child.wait().expect("reap the engine").success());
    }

    /// Waits until the engine process, which was told to end, has ended.
    pub fn wait(&mut self) {
        self.child.take().expect("it runs").wait().expect("reap the engine");
    }

    /// The bridge of its pods.
    pub fn bridge(&self) -> &str {
        &self.network.bridge
    }

    /// Its data directory, which ends with this value.
    pub fn data_dir(&self) -> &Path {
        self.dir.path()
    }

    /// The kubeconfig of its administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().join("kubeconfig")
    }

    /// The pid of the engine process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// kill -9 of the engine process; its pods go on.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("kill the engine");
        child.wait().expect("reap the engine");
    }

    /// Runs kubectl and answers its standard output; a failure fails the test with everything it
    /// printed.
    #[track_caller]
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.try_kubectl(arguments, "");
        expect_success(arguments, &output)
    }

    /// The same with text on standard input.
    #[track_caller]
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> String {
        let output = self.try_kubectl(arguments, input);
        expect_success(arguments, &output)
    }

    /// Runs kubectl, which must fail; answers its standard error.
    #[track_caller]
    pub fn kubectl_fails(&self, arguments: &[&str], input: &str) -> String {
        let output = self.try_kubectl(arguments, input);
        assert!(
            !output.status.success(),
            "kubectl {arguments:?} succeeded: {}",
            text(&output.stdout)
        );
        text(&output.stderr)
    }

    /// Runs a command in a pod for which its container ends. The command may be killed with the
    /// container before it has ended by itself.
    #[track_caller]
    pub fn exec_and_end(&self, arguments: &[&str]) {
        let arguments = [&["exec"][..], arguments].concat();
        let output = self.try_kubectl(&arguments, "");
        // kubectl exits as the command does
        let is_expected = matches!(output.status.code(), Some(0 | 137));
        assert!(is_expected, "kubectl {arguments:?}: {output:?}");
    }

    /// Runs kubectl however it ends.
    pub fn try_kubectl(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = self
            .kubectl_command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start kubectl");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("write to kubectl");
        child.wait_with_output().expect("run kubectl")
    }

    /// A kubectl command that the test starts itself.
    pub fn kubectl_command(&self, arguments: &[&str]) -> Command {
        let kubectl = kubectl_path();
        assert!(kubectl.exists(), "no kubectl for the tests: run them with `cargo xtask test`");
        let mut command = Command::new(kubectl);
        command
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.data_dir().join("kubectl-home"));
        command
    }

    /// A helm command; helm lies beside kubectl.
    pub fn helm_command(&self, arguments: &[&str]) -> Command {
        let helm = kubectl_path().with_file_name("helm");
        assert!(helm.exists(), "no helm for the tests: run them with `cargo xtask test`");
        let mut command = Command::new(helm);
        command
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.data_dir().join("helm-home"));
        command
    }

    /// Applies a manifest.
    #[track_caller]
    pub fn apply(&self, manifest: &str) -> String {
        self.kubectl_with(&["apply", "-f", "-"], manifest)
    }

    /// One object as JSON.
    #[track_caller]
    pub fn get(&self, what: &str) -> Value {
        serde_json::from_str(&self.kubectl(&["get", what, "-o", "json"]))
            .expect("kubectl prints JSON")
    }

    /// The CPU that pods can have on the first node, in thousandths.
    pub fn cpu_millis(&self) -> u64 {
        let node = self.get("node/node-1");
        let cpus = node["status"]["allocatable"]["cpu"].as_str().expect("a quantity");
        match cpus.strip_suffix('m') {
            Some(millis) => millis.parse().expect("a number"),
            None => cpus.parse::<u64>().expect("a number") * 1000,
        }
    }

    /// The objects of a kind, as `get` says it.
    #[track_caller]
    pub fn items(&self, kind: &str) -> Vec<Value> {
        self.get(kind)["items"].as_array().expect("a list").clone()
    }

    /// Waits until a JSON path of an object has a value.
    #[track_caller]
    pub fn wait_for(&self, what: &str, path: &str, value: &str) {
        self.kubectl(&["wait", what, &format!("--for=jsonpath={{{path}}}={value}"), TIMEOUT]);
    }

    /// Waits until a pod is there and Ready.
    #[track_caller]
    pub fn wait_ready(&self, pod: &str) {
        self.until_one(&format!("pod/{pod}"), |pod| is(pod, "Ready"));
    }

    /// Runs `rekindle` against this engine.
    pub fn rekindle(&self, arguments: &[&str]) -> Output {
        rekindle()
            .args(arguments)
            .arg("--data-dir")
            .arg(self.data_dir())
            .output()
            .expect("run rekindle")
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Ends the engine when it runs, and what a killed one left behind in any case.
        let down = self.rekindle(&["down"]);
        if let Some(mut child) = self.child.take() {
            if !down.status.success() {
                let _ = child.kill();
            }
            let _ = child.wait();
        }
        let ended = shims::end(self.data_dir());
        if ended > 0 {
            eprintln!("{ended} shims or processes of cluster DNS had to be killed");
        }
        if !down.status.success() && !std::thread::panicking() {
            panic!("rekindle down: {}{}", text(&down.stdout), text(&down.stderr));
        }
    }
}

/// The kubectl that tests use.
pub fn kubectl_path() -> PathBuf {
    std::env::var_os("REKINDLE_TEST_KUBECTL").map(PathBuf::from).unwrap_or_else(|| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/tools/kubectl")
    })
}

#[track_caller]
fn expect_success(arguments: &[&str], output: &Output) -> String {
    assert!(
        output.status.success(),
        "kubectl {arguments:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}
