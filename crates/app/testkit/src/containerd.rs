//! A real containerd with runc and network plugins (Debian's), of the test alone: its own folders,
//! socket, images, subnet and cgroup. What runs in it ends with the test.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::PATIENCE;
use crate::network::EngineNetwork;
use crate::registry::shell_tar;

/// The image of its sandboxes and of the pods of tests: a busybox with `/bin/sh`. Without a command
/// it waits.
pub const IMAGE: &str = "localhost/busybox:test";
/// The plugins of the network.
const PLUGINS: [&str; 3] = ["loopback", "ptp", "host-local"];
/// A plugin that fails to take a network down as long as the file beside it is there.
const STUBBORN: &str = "stubborn";

/// A running containerd.
pub struct Containerd {
    child: Option<Child>,
    dir: tempfile::TempDir,
    network: EngineNetwork,
    cgroup: String,
    log: Arc<Mutex<Vec<String>>>,
}

impl Containerd {
    /// Starts one with the image [`IMAGE`] and no sandbox.
    pub fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("rkctd-").tempdir().expect("a temporary folder");
        let cgroup = dir.path().file_name().expect("a name").to_string_lossy().into_owned();
        let network = EngineNetwork::unique();
        let mut containerd = Self { child: None, dir, network, cgroup, log: Arc::default() };
        containerd.write_network();
        containerd.write_config();
        containerd.launch();
        containerd.import_image();
        containerd
    }

    /// The socket of its CRI.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("c.sock")
    }

    /// The cgroup that its pods belong to.
    pub fn cgroup(&self) -> &str {
        &self.cgroup
    }

    /// The same in the tree of cgroups of version 2, which freezes pods.
    pub fn cgroup_of_pods(&self) -> PathBuf {
        let roots = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
        let version_2 = roots.into_iter().find(|root| root.join("cgroup.procs").exists());
        version_2.expect("cgroups of version 2").join(&self.cgroup)
    }

    /// Whether its network fails to be taken down.
    pub fn set_network_is_stubborn(&self, is_stubborn: bool) {
        let mark = self.dir.path().join("stubborn");
        if is_stubborn {
            std::fs::write(mark, "").expect("write a mark");
        } else {
            std::fs::remove_file(mark).expect("remove a mark");
        }
    }

    /// Ends it; pods go on.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("kill containerd");
            child.wait().expect("reap containerd");
        }
    }

    /// Starts it, again when it was killed, and waits until it answers.
    pub fn launch(&mut self) {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut child = Command::new(program("usr/bin/containerd"))
            .arg("--config")
            .arg(self.dir.path().join("config.toml"))
            .env("PATH", format!("{}:{path}", root().join("usr/bin").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start containerd");
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        self.child = Some(child);
        let (sender, booted) = channel();
        let log = Arc::clone(&self.log);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if line.contains("successfully booted") {
                    let _nobody_waits = sender.send(());
                }
                log.lock().expect("no writer has failed").push(line);
            }
        });
        booted
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| panic!("it does not boot: {}", self.log()));
    }

    /// What it has written to its log.
    pub fn log(&self) -> String {
        self.log.lock().expect("no writer has failed").join("\n")
    }

    fn ctr(&self, arguments: &[&str]) -> std::process::Output {
        Command::new(program("usr/bin/ctr"))
            .arg("--address")
            .arg(self.socket())
            .args(["--namespace", "k8s.io"])
            .args(arguments)
            .output()
            .expect("run ctr")
    }

    fn write_network(&self) {
        let dir = self.dir.path();
        let (plugins, configs) = (dir.join("cni"), dir.join("net.d"));
        for folder in [&plugins, &configs] {
            std::fs::create_dir(folder).expect("a folder");
        }
        for plugin in PLUGINS {
            let from = root().join("usr/lib/cni").join(plugin);
            std::os::unix::fs::symlink(from, plugins.join(plugin)).expect("a link");
        }
        let mark = dir.join("stubborn");
        let script = format!(
            "#!/bin/sh\nif [ \"$CNI_COMMAND\" = DEL ] && [ -e {} ]; then\n\
             echo '{{\"cniVersion\":\"0.4.0\",\"code\":999,\"msg\":\"the network stays\"}}'; exit 1\nfi\n\
             [ \"$CNI_COMMAND\" != ADD ] || /bin/busybox sed -n 's/.*\"prevResult\":\\(.*\\),\"type\".*/\\1/p'\n",
            mark.display()
        );
        let path = plugins.join(STUBBORN);
        let mut file = std::fs::File::create(&path).expect("a plugin");
        file.write_all(script.as_bytes()).expect("write a plugin");
        let mut mode = file.metadata().expect("its mode").permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
        std::fs::set_permissions(&path, mode).expect("make it a program");
        let list = json!({
            "cniVersion": "0.4.0", "name": self.cgroup,
            "plugins": [
                {
                    "type": "ptp",
                    "ipam": {
                        "type": "host-local", "dataDir": dir.join("ipam"),
                        "ranges": [[{"subnet": self.network.pod_cidr}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                },
                {"type": STUBBORN},
            ],
        });
        std::fs::write(configs.join("10-test.conflist"), list.to_string()).expect("a network");
    }

    fn write_config(&self) {
        let dir = self.dir.path();
        let runc = program("usr/sbin/runc");
        let text = format!(
            r#"version = 2
root = "{dir}/root"
state = "{dir}/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{IMAGE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{runc}"
        Root = "{dir}/runc"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{dir}/cni"
    conf_dir = "{dir}/net.d"
"#,
            dir = dir.display(),
            socket = self.socket().display(),
            runc = runc.display(),
        );
        std::fs::write(dir.join("config.toml"), text).expect("a configuration");
    }

    /// An archive as `docker save` makes it.
    fn import_image(&self) {
        let layer = shell_tar();
        let config = json!({
            "architecture": "amd64", "os": "linux",
            "config": {"Entrypoint": ["/bin/sleep", "1000000"]},
            "rootfs": {"type": "layers", "diff_ids": [crate::registry::digest(&layer)]},
        })
        .to_string();
        let manifest =
            json!([{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]);
        let manifest = manifest.to_string();
        let mut archive = tar::Builder::new(Vec::new());
        for (name, content) in [
            ("config.json", config.as_bytes()),
            ("layer.tar", &layer),
            ("manifest.json", manifest.as_bytes()),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, name, content).expect("pack into memory");
        }
        let file = self.dir.path().join("image.tar");
        let archive = archive.into_inner().expect("pack into memory");
        std::fs::write(&file, archive).expect("write the image");
        let file = file.display().to_string();
        let imported = self.ctr(&["images", "import", "--snapshotter", "native", &file]);
        assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    }

    /// A test that failed may have left a pod frozen, which no signal ends.
    fn thaw(&self) {
        let pods = std::fs::read_dir(self.cgroup_of_pods()).into_iter().flatten().flatten();
        for freezer in pods.map(|pod| pod.path().join("cgroup.freeze")) {
            let _no_pod_or_gone = std::fs::write(freezer, "0");
        }
    }

    /// Ends everything that runs in it, and what it has mounted.
    fn clean_up(&mut self) {
        if self.child.is_none() {
            self.launch();
        }
        self.thaw();
        let tasks = self.ctr(&["tasks", "ls", "--quiet"]);
        for task in String::from_utf8_lossy(&tasks.stdout).lines() {
            self.ctr(&["tasks", "delete", "--force", task]);
        }
        self.kill();
        // one whose container could not be started belongs to no task
        crate::shims::end_of_containerd(&self.socket());
        let prefix = format!("{}/", self.dir.path().display());
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mounts = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        let mut mounts: Vec<&str> = mounts.filter(|path| path.starts_with(&prefix)).collect();
        mounts.reverse();
        for mount in mounts {
            let unmounted = Command::new("umount").args(["--lazy", mount]).status();
            assert!(unmounted.is_ok_and(|status| status.success()), "unmount {mount}");
        }
        for controller in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            let of_it = controller.path().join(&self.cgroup);
            for pod in std::fs::read_dir(&of_it).into_iter().flatten().flatten() {
                let _a_file_of_the_kernel = std::fs::remove_dir(pod.path());
            }
            let _of_another_controller = std::fs::remove_dir(of_it);
        }
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("containerd said:\n{}", self.log());
        }
        self.clean_up();
    }
}

/// Where the packages are unpacked; installed ones serve as well.
fn root() -> PathBuf {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/tools/containerd");
    let given = std::env::var_os("REKINDLE_TEST_CONTAINERD").map(PathBuf::from);
    given
        .into_iter()
        .chain([fetched, PathBuf::from("/")])
        .find(|root| root.join("usr/bin/containerd").exists())
        .expect("no containerd for the tests: run them with `cargo xtask test`")
        .canonicalize()
        .expect("an absolute path")
}

fn program(path: &str) -> PathBuf {
    root().join(path)
}
