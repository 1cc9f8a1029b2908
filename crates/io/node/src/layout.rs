//! Where the agent keeps things on disk.
//!
//! ```text
//! <data_dir>/node/                    0700
//!   pods/<uid>/journal                the pod core's durable state
//!             /users.json             the range of user ids that is the pod's, if it has its own
//!             /pod.json               the pod as last seen, so that it can be ended when the API has forgotten it
//!             /volumes/<name>/        emptyDir folders, tmpfs mounts, projected files, links to volumes of claims
//!             /files/                 a small tmpfs: /etc/hosts and its like
//!             /messages/<container>/<attempt>  what stands at terminationMessagePath
//!   trash/                            what is being deleted in the background
//! <data_dir>/seccomp/                 profiles of the node's own; whoever runs it puts them there
//! <data_dir>/local-path/<volume>/     0700 above: volumes of the class local-path
//! <log_dir>/<ns>_<pod>_<uid>/<container>/<attempt>.log
//! ```

use std::path::{Path, PathBuf};

use rekindle_types::name_stem::name_stem;
use rekindle_types::{ContainerAttempt, PodRef, PodUid};

/// The name of the file with the durable state of a pod's core.
const JOURNAL: &str = "journal";
/// Bytes of the name of a file or a folder, at most (NAME_MAX).
const FILE_NAME_MAX: usize = 255;
/// The name of the file with a pod's range of user ids.
const USERS: &str = "users.json";

/// The agent's own folders.
#[derive(Clone, Debug)]
pub(crate) struct NodeDirs {
    root: PathBuf,
    seccomp_profiles: PathBuf,
    logs: PathBuf,
    local_path: PathBuf,
}

/// The folders of one pod.
#[derive(Clone, Debug)]
pub(crate) struct PodDirs {
    root: PathBuf,
    logs: PathBuf,
    trash: PathBuf,
}

impl NodeDirs {
    /// Beneath `data_dir`; the logs beneath `log_dir`, which belongs to this node alone.
    pub(crate) fn new(data_dir: &Path, log_dir: &Path) -> Self {
        Self {
            root: data_dir.join("node"),
            seccomp_profiles: data_dir.join("seccomp"),
            logs: log_dir.to_owned(),
            local_path: data_dir.join("local-path"),
        }
    }

    /// The folder of everything but logs.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where `localhostProfile` is looked for, as in the kubelet's root folder.
    pub(crate) fn seccomp_profiles(&self) -> PathBuf {
        self.seccomp_profiles.clone()
    }

    /// The folder of all pods.
    pub(crate) fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// The UIDs of the pods that have a folder.
    pub(crate) fn kept_pods(&self) -> impl Iterator<Item = PodUid> {
        let entries = std::fs::read_dir(self.pods()).into_iter().flatten().flatten();
        entries.map(|entry| PodUid(entry.file_name().to_string_lossy().into_owned()))
    }

    /// The journal of one pod by its UID.
    pub(crate) fn pod_journal(&self, uid: &PodUid) -> PathBuf {
        self.pod_root(uid).join(JOURNAL)
    }

    /// What waits for deletion.
    pub(crate) fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    /// The folder of the volumes of class local-path, on the same file system.
    pub(crate) fn local_path(&self) -> PathBuf {
        self.local_path.clone()
    }

    /// The folder of all logs.
    pub(crate) fn logs(&self) -> &Path {
        &self.logs
    }

    /// One pod's folders.
    pub(crate) fn pod(&self, pod: &PodRef) -> PodDirs {
        PodDirs {
            root: self.pod_root(&pod.uid),
            logs: self.logs.join(log_folder(pod)),
            trash: self.trash(),
        }
    }

    /// The range of user ids of one pod by its UID.
    pub(crate) fn pod_users(&self, uid: &PodUid) -> PathBuf {
        self.pod_root(uid).join(USERS)
    }

    /// The folder of one pod by its UID.
    pub(crate) fn pod_root(&self, uid: &PodUid) -> PathBuf {
        self.pods().join(&uid.0)
    }
}

impl PodDirs {
    /// The pod's folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The pod core's journal.
    pub(crate) fn journal(&self) -> PathBuf {
        self.root.join(JOURNAL)
    }

    /// Its range of user ids.
    pub(crate) fn users(&self) -> PathBuf {
        self.root.join(USERS)
    }

    /// The pod as last seen.
    pub(crate) fn pod(&self) -> PathBuf {
        self.root.join("pod.json")
    }

    /// The folder of its volumes.
    pub(crate) fn volumes(&self) -> PathBuf {
        self.root.join("volumes")
    }

    /// The small tmpfs of files that the agent provides and the pod may write to.
    pub(crate) fn files(&self) -> PathBuf {
        self.root.join("files")
    }

    /// The folder of what stands at its containers' terminationMessagePath.
    pub(crate) fn messages(&self) -> PathBuf {
        self.root.join("messages")
    }

    /// The folder of what stands at a container's terminationMessagePath. On disk, as with the
    /// kubelet: some use it as a log, and the end of it is what is read. One container's is in
    /// nobody else's way.
    pub(crate) fn termination_logs(&self, container: &str) -> PathBuf {
        self.messages().join(container)
    }

    /// The file at a container's terminationMessagePath.
    pub(crate) fn termination_log(&self, container: &str, attempt: ContainerAttempt) -> PathBuf {
        self.termination_logs(container).join(attempt.to_string())
    }

    /// Where things wait for deletion; on the same file system.
    pub(crate) fn trash(&self) -> &Path {
        &self.trash
    }

    /// The folder of all its logs.
    pub(crate) fn logs(&self) -> &Path {
        &self.logs
    }

    /// The folder of one container's logs.
    pub(crate) fn container_logs(&self, container: &str) -> PathBuf {
        self.logs.join(container)
    }

    /// The log of one start.
    pub(crate) fn log(&self, container: &str, attempt: ContainerAttempt) -> PathBuf {
        self.container_logs(container).join(format!("{attempt}.log"))
    }
}

/// `<namespace>_<name>_<uid>`, as the kubelet names it. A name that makes this longer than a file's
/// may be is cut: the UID is enough to tell pods apart. The kubelet cuts nothing, and cannot run
/// such a pod.
fn log_folder(pod: &PodRef) -> String {
    let room = FILE_NAME_MAX.saturating_sub(pod.namespace.len() + pod.uid.0.len() + 2);
    format!("{}_{}_{}", pod.namespace, name_stem(&pod.name, room), pod.uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_folder_has_a_name_that_a_file_may_have() {
        let pod = |name: &str| PodRef {
            namespace: "n".repeat(63),
            name: name.to_owned(),
            uid: PodUid("0f3ac1de-0000-4000-8000-00000000000a".to_owned()),
        };
        let longest = log_folder(&pod(&"p".repeat(253)));
        assert_eq!(longest.len(), FILE_NAME_MAX);
        assert!(longest.ends_with("p_0f3ac1de-0000-4000-8000-00000000000a"), "{longest}");
        assert_eq!(longest.split('_').count(), 3, "who looks for what is left of a pod finds it");
        let usual = log_folder(&pod("web-0"));
        assert!(usual.contains("_web-0_"), "{usual}");
    }
}
