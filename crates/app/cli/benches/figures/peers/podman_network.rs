//! podman's network: a port of the machine that leads to a container's, and a container beside it.
//!
//! Two containers: what one client has with the same one both ways shares that one's side of
//! connections that have ended.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, bail};

use super::launch::command_of_crun;
use super::rootfs::RootFs;

/// The machine's address on the containers' network, and that of the one without a published port.
const MACHINE: &str = "10.251.240.1";
const CONTAINER: &str = "10.251.240.2";
/// What the app listens on, and the port of the machine that leads there.
const APP_PORT: u16 = 8080;
const PUBLISHED_PORT: u16 = 28080;

/// One shell does it all: podman mounts a network namespace for each container, and must find it
/// again when the container goes. `read` waits until its input is closed.
const SCRIPT: &str = r#"
set -e
dir=$1 rootfs=$2 app=$3 address=$4 published=$5 text=$6
name=rekindle-bench-$$
podman() {
    command podman --root "$dir/root" --runroot "$dir/run" --network-config-dir "$dir/net" "$@"
}
serve() {
    of=$1
    shift
    podman run --detach --name $name-$of --cgroups disabled --network $name \
        --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 "$@" \
        --volume "$app:/demo:ro" --rootfs "$rootfs" /demo server --port 8080 --text "$text"
}
remove() {
    podman rm --force --ignore --time 0 $name-direct $name-published
    podman network rm --force $name
}
trap remove EXIT
podman network create --disable-dns --subnet 10.251.240.0/24 $name
serve direct --ip $address
serve published --publish $published:8080
echo ready
exec >/dev/null
read -r line || true
"#;

/// Both containers; dropping it takes them away. podman leaves the chains of its rules, as it does
/// for each container.
pub struct PublishedPort {
    shell: Child,
    _rootfs: RootFs,
    _dir: tempfile::TempDir,
}

impl PublishedPort {
    /// Runs this app twice, as HTTP servers that answer with this text.
    pub fn open(app: &Path, text: &str) -> anyhow::Result<Self> {
        let rootfs = RootFs::mount()?;
        let dir = tempfile::Builder::new().prefix("rekindle-peer-").tempdir()?;
        let mut shell = command_of_crun("sh")
            .args(["-c", SCRIPT, "sh"])
            .args([dir.path(), &rootfs.path(), app])
            .args([CONTAINER, &PUBLISHED_PORT.to_string(), text])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("start a shell for podman")?;
        let output = BufReader::new(shell.stdout.take().context("its output")?);
        let is_ready = output.lines().map_while(Result::ok).any(|line| line == "ready");
        let mut port = Self { shell, _rootfs: rootfs, _dir: dir };
        if !is_ready {
            let mut errors = String::new();
            port.shell.stderr.take().context("its errors")?.read_to_string(&mut errors)?;
            bail!("{}", errors.trim());
        }
        Ok(port)
    }

    /// Where the app of one container listens.
    pub fn direct(&self) -> (&'static str, u16) {
        (CONTAINER, APP_PORT)
    }

    /// The port of the machine that leads to that of the other one.
    pub fn published(&self) -> (&'static str, u16) {
        (MACHINE, PUBLISHED_PORT)
    }
}

impl Drop for PublishedPort {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        match self.shell.wait() {
            Ok(status) if status.success() => {}
            Ok(status) => eprintln!("podman's container or network may be left: {status}"),
            Err(error) => eprintln!("wait for podman: {error}"),
        }
    }
}
