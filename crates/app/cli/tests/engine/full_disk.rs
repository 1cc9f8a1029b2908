//! The disk under the data directory runs full while pods run and the API is written to.
use std::io::Write;
use std::path::Path;
use std::process::Command;

use rekindle_testkit::{Engine, text};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// A small disk of the test's own, large enough for the built-in demo image of a debug build.
struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Self {
        let dir = tempfile::Builder::new().prefix("rekindle-small-disk-").tempdir().unwrap();
        mount("none", dir.path(), "tmpfs", MountFlags::empty(), c"size=400m").unwrap();
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn filler(&self) -> std::path::PathBuf {
        self.path().join("filler")
    }

    /// Writes until nothing more can be written, not a byte.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.filler()).unwrap();
        let mut piece = vec![0_u8; 1 << 20];
        while !piece.is_empty() {
            match file.write_all(&piece) {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
                    piece.truncate(piece.len() / 2);
                }
            }
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = unmount(self.path(), UnmountFlags::DETACH);
        assert!(unmounted.is_ok() || std::thread::panicking(), "{unmounted:?}");
    }
}

/// Two pods whose processes can be told from all others on the machine by what they are told to do.
struct Pods {
    manifest: String,
    steady: String,
    victim: String,
}

impl Pods {
    fn new(test: u8) -> Self {
        let command = |number: u8| format!("sleep {}{test}{number}", 100_000 + std::process::id());
        let pod = |name: &str, command: &str| {
            let seconds = command.trim_start_matches("sleep ");
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{terminationGracePeriodSeconds: 1, containers: \
                 [{{name: one, image: localhost/host, command: [sleep, '{seconds}']}}]}}}}\n"
            )
        };
        let (steady, victim) = (command(1), command(2));
        let manifest = pod("steady", &steady) + "---\n" + &pod("victim", &victim);
        Self { manifest, steady, victim }
    }
}

fn runs(command: &str) -> bool {
    let pattern = format!("^{command}$");
    Command::new("pgrep").args(["-f", &pattern]).output().unwrap().status.success()
}

/// Lines that an engine may log in a while on a full disk: some for each part that retries, none
/// per request or try.
const LOG_LINES_MAX: usize = 100;

fn config_map(name: &str) -> String {
    let filling = "x".repeat(50_000);
    format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{a: {filling}}}}}"
    )
}

/// Creates ConfigMaps until one is refused: those that were acknowledged, and the refusal.
fn write_until_refused(engine: &Engine) -> (Vec<String>, String) {
    let mut acknowledged = Vec::new();
    for number in 0..2_000 {
        let name = format!("kept-{number}");
        let output = engine.try_kubectl(&["create", "-f", "-"], &config_map(&name));
        if !output.status.success() {
            return (acknowledged, text(&output.stderr));
        }
        acknowledged.push(name);
    }
    panic!("nothing was refused on a full disk");
}

fn names_of_config_maps(engine: &Engine) -> Vec<String> {
    let listed = engine.get("configmaps");
    let items = listed["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_store_at_its_limit_takes_nothing_new_and_what_runs_goes_on() {
    let mut engine = Engine::start_with(&["--store-limit", "1Mi"]);
    let pods = Pods::new(2);
    engine.apply(&pods.manifest);
    engine.wait_ready("victim");
    let (acknowledged, refusal) = write_until_refused(&engine);
    assert!(refusal.contains("Error from server (InsufficientStorage)"), "{refusal}");
    assert!(refusal.contains("more than its limit of 1048576"), "{refusal}");
    assert_eq!(refusal.lines().count(), 1, "one clear line: {refusal}");
    // an end and a new start are written
    let killed = Command::new("pkill")
        .args(["-KILL", "-f", &format!("^{}$", pods.victim)])
        .status()
        .unwrap();
    assert!(killed.success());
    engine.until_one("pod/victim", |pod| {
        pod["status"]["containerStatuses"][0]["restartCount"].as_u64() >= Some(1)
    });
    // so it is after a start; room is made by a deletion
    engine.kill();
    engine.launch(&["--store-limit", "1Mi"]);
    let again = engine.kubectl_fails(&["create", "-f", "-"], &config_map("refused"));
    assert!(again.contains("InsufficientStorage"), "{again}");
    engine.kubectl(&["delete", "configmap", &acknowledged[0], &acknowledged[1]]);
    engine.kubectl_with(&["create", "-f", "-"], &config_map("taken"));
}

#[test]
fn writes_are_refused_clearly_reads_and_pods_go_on_and_nothing_acknowledged_is_lost() {
    let disk = SmallDisk::mount();
    let elsewhere = tempfile::tempdir().unwrap();
    let log = elsewhere.path().join("engine.log");
    let mut engine = Engine::prepare_in(disk.path());
    engine.log_to(&log);
    engine.launch(&[]);
    let pods = Pods::new(1);
    engine.apply(&pods.manifest);
    engine.wait_ready("steady");
    engine.wait_ready("victim");
    let steady = engine.get("pod/steady");

    disk.fill();
    let (acknowledged, refusal) = write_until_refused(&engine);
    assert!(refusal.contains("Error from server (InsufficientStorage)"), "{refusal}");
    assert!(
        refusal.contains("no space left for") && refusal.contains("free some space"),
        "{refusal}"
    );
    assert_eq!(refusal.lines().count(), 1, "one clear line: {refusal}");

    // while it is full: what can be read is read, what runs runs, and an end is seen although it
    // cannot be written down
    let names = names_of_config_maps(&engine);
    assert!(acknowledged.iter().all(|name| names.contains(name)), "{acknowledged:?} in {names:?}");
    assert_eq!(engine.get("pod/steady")["status"], steady["status"]);
    let killed = Command::new("pkill")
        .args(["-KILL", "-f", &format!("^{}$", pods.victim)])
        .status()
        .unwrap();
    assert!(killed.success());
    for _ in 0..5 {
        let again = engine.kubectl_fails(&["create", "-f", "-"], &config_map("refused"));
        assert!(again.contains("InsufficientStorage"), "{again}");
    }
    assert!(runs(&pods.steady));

    disk.free();
    engine.wait_for("pod/victim", ".status.containerStatuses[0].restartCount", "1");
    engine.wait_ready("victim");
    engine.kubectl_with(&["create", "-f", "-"], &config_map("after"));
    let names = names_of_config_maps(&engine);
    for name in acknowledged.iter().map(String::as_str).chain(["after"]) {
        assert!(names.iter().any(|found| found == name), "{name} is lost");
    }
    assert!(!names.iter().any(|name| name == "refused"));
    assert_eq!(
        engine.get("pod/steady")["status"]["containerStatuses"],
        steady["status"]["containerStatuses"],
        "nobody touched it"
    );
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.lines().count() <= LOG_LINES_MAX, "a flood: {logged}");
}

#[test]
fn an_engine_killed_on_a_full_disk_goes_on_and_its_pods_can_be_ended() {
    let disk = SmallDisk::mount();
    let mut engine = Engine::prepare_in(disk.path());
    engine.launch(&[]);
    let pods = Pods::new(2);
    engine.apply(&pods.manifest);
    engine.wait_ready("steady");
    engine.wait_ready("victim");
    disk.fill();
    let (acknowledged, _) = write_until_refused(&engine);
    engine.kill();
    let down = engine.rekindle(&["down"]);
    assert!(down.status.success(), "{}{}", text(&down.stdout), text(&down.stderr));
    assert!(!runs(&pods.steady) && !runs(&pods.victim), "the pods were ended");

    disk.free();
    engine.launch(&[]);
    let names = names_of_config_maps(&engine);
    for name in &acknowledged {
        assert!(names.contains(name), "{name} is lost");
    }
    engine.wait_ready("steady");
}
