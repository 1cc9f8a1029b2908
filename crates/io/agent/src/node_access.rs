//! What an agent sees of its node beside the runtime's socket. Each part is absent unless the
//! cluster's administrator gives it.

use std::io;
use std::path::PathBuf;

use rekindle_cri_restart::{EmptyDirVolume, FreezeSupport, pod_cgroup};
use rekindle_node::logs::last_lines;
use rekindle_types::v1alpha1::LAST_LOG_BYTES_MAX;

use crate::kubelet_folders::KubeletFolders;
use crate::pod_cgroups::PodCgroups;

/// Lines kept of a container's log.
const LAST_LOG_LINES: usize = 20;

/// What an agent sees of its node.
#[derive(Clone, Debug, Default)]
pub struct NodeAccess {
    /// The cgroups, to freeze pods and to read what they count.
    pub cgroups: Option<PodCgroups>,
    /// The kubelet's folders of pods, to empty volumes.
    pub kubelet: Option<KubeletFolders>,
    /// The folder below which the runtime writes logs, under the name that the runtime has for it.
    pub pod_logs: Option<PathBuf>,
}

impl NodeAccess {
    /// What can be done to a pod beside the calls of the runtime.
    pub(crate) fn freeze_support(&self) -> FreezeSupport {
        match (&self.cgroups, &self.kubelet) {
            (None, _) => FreezeSupport::Nothing,
            (Some(_), None) => FreezeSupport::FreezesPods,
            (Some(_), Some(_)) => FreezeSupport::EmptiesVolumes,
        }
    }

    /// The cgroup of a pod's own and its count of OOM kills, by the path that the runtime gave a
    /// sandbox of it.
    pub(crate) fn look_at_cgroup(
        &self,
        sandbox_path: &str,
        pod_uid: &str,
    ) -> Option<(String, Option<i64>)> {
        let cgroups = self.cgroups.as_ref()?;
        let cgroup = pod_cgroup(sandbox_path, pod_uid).filter(|path| cgroups.is_populated(path))?;
        let oom_kills = cgroups.oom_kills(&cgroup);
        Some((cgroup, oom_kills))
    }

    /// The last lines of a log; none where it is not seen or empty.
    pub(crate) fn last_log(&self, path: &str) -> Option<String> {
        let path = PathBuf::from(path);
        let is_plain = !path.components().any(|part| part == std::path::Component::ParentDir);
        let is_seen = is_plain && self.pod_logs.as_ref().is_some_and(|all| path.starts_with(all));
        let lines = is_seen.then(|| last_lines(&path, LAST_LOG_LINES, LAST_LOG_BYTES_MAX));
        lines.filter(|lines| !lines.is_empty())
    }

    /// Freezes a pod.
    pub(crate) async fn freeze(&self, cgroup: &str) -> io::Result<()> {
        let (cgroups, cgroup) = (self.cgroups()?, cgroup.to_owned());
        blocking(move || cgroups.freeze(&cgroup)).await
    }

    /// Lets a pod go on.
    pub(crate) fn thaw(&self, cgroup: &str) -> io::Result<()> {
        self.cgroups()?.thaw(cgroup)
    }

    /// The pods that an agent of this node had frozen, by their cgroups.
    pub(crate) async fn frozen(&self) -> io::Result<Vec<String>> {
        let Some(cgroups) = self.cgroups.clone() else { return Ok(Vec::new()) };
        blocking(move || cgroups.marked()).await
    }

    /// Empties volumes of a pod that is frozen.
    pub(crate) async fn clear(
        &self,
        cgroup: &str,
        pod_uid: &str,
        volumes: &[EmptyDirVolume],
    ) -> io::Result<()> {
        let (cgroups, cgroup) = (self.cgroups()?, cgroup.to_owned());
        let kubelet = self.kubelet.clone().ok_or_else(|| not_given("the kubelet's folders"))?;
        let (pod_uid, volumes) = (pod_uid.to_owned(), volumes.to_vec());
        blocking(move || {
            let frozen = || match cgroups.is_frozen(&cgroup)? {
                true => Ok(()),
                false => Err(io::Error::other(format!("{cgroup} is not frozen any more"))),
            };
            frozen()?;
            kubelet.empty(&pod_uid, &volumes)?;
            frozen()
        })
        .await
    }

    fn cgroups(&self) -> io::Result<PodCgroups> {
        self.cgroups.clone().ok_or_else(|| not_given("cgroups"))
    }
}

fn not_given(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("the agent does not see {what}"))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
