//! What a container leaves behind as its last words: the file at terminationMessagePath, or the end
//! of its log.
//!
//! Both are written by the container, so neither is trusted: no link is followed and only so many
//! bytes are read.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use k8s_openapi::api::core::v1::{Container, Pod};
use rekindle_types::{ContainerAttempt, Exit};
use rustix::fs::{CWD, Mode, OFlags};

use crate::layout::PodDirs;
use crate::logs::last_lines;

/// Bytes of one container's message at most.
const MESSAGE_MAX: usize = 4096;
/// Bytes of all messages of a pod at most.
const POD_MESSAGES_MAX: usize = 12 * 1024;
/// Lines of the log with FallbackToLogsOnError.
const LOG_LINES: usize = 80;
/// Bytes of the log with FallbackToLogsOnError.
const LOG_BYTES: usize = 2048;

/// Makes the empty file that is mounted at terminationMessagePath; anybody in the container may
/// write to it.
pub(crate) fn create_file(path: &Path) -> std::io::Result<()> {
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(0o666))?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o666))?; // whatever the umask
    Ok(())
}

/// The message of an ended container: what the runtime said of the end and, after it, what the
/// container left, as the kubelet puts them together.
pub(crate) fn read_message(
    pod: &Pod,
    container: &Container,
    dirs: &PodDirs,
    attempt: ContainerAttempt,
    exit: &Exit,
) -> String {
    let own = read_own(pod, container, dirs, attempt, exit);
    match (exit.message.as_str(), own.as_str()) {
        (_, "") => exit.message.clone(),
        ("", _) => own,
        (of_runtime, own) => format!("{of_runtime}: {own}"),
    }
}

/// What the container left.
fn read_own(
    pod: &Pod,
    container: &Container,
    dirs: &PodDirs,
    attempt: ContainerAttempt,
    exit: &Exit,
) -> String {
    let limit = message_limit(pod);
    let message = read_file(&dirs.termination_log(&container.name, attempt), limit);
    let falls_back =
        container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
    if message.is_empty() && falls_back && !exit.status.is_success() {
        let log = dirs.log(&container.name, attempt);
        return last_lines(&log, LOG_LINES, LOG_BYTES.min(limit));
    }
    message
}

/// Each container's share of what a pod may say, as the kubelet cuts it.
fn message_limit(pod: &Pod) -> usize {
    let spec = pod.spec.as_ref();
    let containers = spec.map_or(0, |spec| {
        spec.containers.len()
            + spec.init_containers.as_ref().map_or(0, Vec::len)
            + spec.ephemeral_containers.as_ref().map_or(0, Vec::len)
    });
    MESSAGE_MAX.min(POD_MESSAGES_MAX / containers.max(1))
}

/// The end of the file, at most `limit` bytes; whatever is wrong with it counts as no message.
fn read_file(path: &Path, limit: usize) -> String {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::openat(CWD, path, flags, Mode::empty()) else {
        return String::new();
    };
    let mut file = File::from(file);
    let Ok(metadata) = file.metadata() else { return String::new() };
    if !metadata.is_file() {
        return String::new();
    }
    let limit_u64 = u64::try_from(limit).unwrap_or(u64::MAX);
    if metadata.len() > limit_u64 && file.seek(SeekFrom::Start(metadata.len() - limit_u64)).is_err()
    {
        return String::new();
    }
    let mut bytes = Vec::new();
    if file.take(limit_u64).read_to_end(&mut bytes).is_err() {
        return String::new();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use rekindle_types::{ExitStatus, PodRef, PodUid, Tick};
    use serde_json::json;

    use super::*;
    use crate::layout::NodeDirs;
    use crate::testing::TestFolder;

    struct Fixture {
        _folder: TestFolder,
        dirs: PodDirs,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = TestFolder::new();
            let uid = PodUid("u-1".into());
            let pod = PodRef { namespace: "shop".into(), name: "web".into(), uid };
            let dirs = NodeDirs::new(&folder.join("data"), &folder.join("logs")).pod(&pod);
            std::fs::create_dir_all(dirs.termination_logs("app")).unwrap();
            std::fs::create_dir_all(dirs.container_logs("app")).unwrap();
            Self { _folder: folder, dirs }
        }

        /// What a pod of so many containers says with this policy, whose first one has ended with
        /// that code.
        fn message(&self, containers: usize, policy: &str, code: i32) -> String {
            self.message_after(containers, policy, code, "")
        }

        /// The same, when the runtime has something to say of the end.
        fn message_after(&self, containers: usize, policy: &str, code: i32, said: &str) -> String {
            let app = json!({ "name": "app", "terminationMessagePolicy": policy });
            let spec = json!({ "spec": { "containers": vec![app; containers] } });
            let pod: Pod = serde_json::from_value(spec).unwrap();
            let container = &pod.spec.as_ref().unwrap().containers[0];
            let exit = Exit {
                status: ExitStatus::Code { code },
                started_at: Tick::from_secs(1),
                finished_at: Tick::from_secs(2),
                message: said.to_owned(),
            };
            read_message(&pod, container, &self.dirs, ContainerAttempt(0), &exit)
        }

        fn write(&self, text: &str) {
            let path = self.dirs.termination_log("app", ContainerAttempt(0));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn log(&self, lines: usize) {
            let line = |n| format!("2025-10-09T08:53:20Z stdout F {n} {}\n", "x".repeat(60));
            let text: String = (0..lines).map(line).collect();
            std::fs::write(self.dirs.log("app", ContainerAttempt(0)), text).unwrap();
        }
    }

    #[test]
    fn last_words_are_cut_to_a_containers_share() {
        let fixture = Fixture::new();
        fixture.write(&format!("{}end", "x".repeat(20_000)));
        for (containers, bytes) in [(1, 4096), (3, 4096), (4, 3072), (12, 1024)] {
            let message = fixture.message(containers, "File", 1);
            assert_eq!(message.len(), bytes, "{containers} containers");
            assert!(message.ends_with("end"));
        }
    }

    #[test]
    fn the_log_stands_in_for_last_words_after_a_failure_only() {
        let fixture = Fixture::new();
        fixture.log(200);
        assert_eq!(fixture.message(1, "File", 1), "");
        assert_eq!(fixture.message(1, "FallbackToLogsOnError", 0), "");
        assert_eq!(fixture.message(1, "FallbackToLogsOnError", 1).len(), 2048);
        fixture.log(3);
        assert_eq!(fixture.message(1, "FallbackToLogsOnError", 1).lines().count(), 3);
        fixture.write("mine");
        assert_eq!(fixture.message(1, "FallbackToLogsOnError", 1), "mine");
    }

    #[test]
    fn what_the_runtime_says_of_an_end_comes_before_the_containers_own_words() {
        let fixture = Fixture::new();
        assert_eq!(fixture.message_after(1, "File", 128, "no such file"), "no such file");
        fixture.write("cache is full");
        let both = fixture.message_after(1, "File", 137, "OOM killer: 1 kill");
        assert_eq!(both, "OOM killer: 1 kill: cache is full");
    }
}
