//! The cgroup of a pod, as its runtime and its kubelet call it. What is frozen and thawed is a
//! pod's own cgroup and nothing above it.

/// What the name of a pod's cgroup begins with (`GetPodCgroupNameSuffix` of the kubelet).
const POD_PREFIX: &str = "pod";
/// What the name of a slice of systemd ends with.
const SLICE: &str = ".slice";

/// The pod's cgroup below the root of cgroups, from the path that the runtime gave a sandbox of it
/// (`linux.cgroupsPath` of the OCI runtime specification). None where the pod has no cgroup of its
/// own, as with the kubelet's `--cgroups-per-qos=false`.
pub fn pod_cgroup(sandbox_path: &str, pod_uid: &str) -> Option<String> {
    let pod = match sandbox_path.split_once(':') {
        // systemd: SLICE:PREFIX:NAME
        Some((slice, _)) => slice_path(slice)?,
        None => sandbox_path.trim_matches('/').rsplit_once('/')?.0.to_owned(),
    };
    is_cgroup_of_pod(&pod, pod_uid).then_some(pod)
}

/// `a-b.slice` lies in `a.slice` (systemd.slice(5)).
fn slice_path(slice: &str) -> Option<String> {
    let name = slice.strip_suffix(SLICE)?;
    let ends = name.match_indices('-').map(|(at, _)| at).chain([name.len()]);
    let folders: Vec<String> = ends.map(|end| format!("{}{SLICE}", &name[..end])).collect();
    Some(folders.join("/"))
}

/// Whether a path below the root of cgroups is that of a pod, of any pod.
pub fn is_pod_cgroup(path: &str) -> bool {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    path.split('/').all(is_plain) && uid_part(path).is_some_and(|uid| !uid.is_empty())
}

/// Whether a path below the root of cgroups is that of the pod with this UID.
pub(crate) fn is_cgroup_of_pod(path: &str, pod_uid: &str) -> bool {
    // systemd takes a dash for a slice within a slice, so the kubelet writes another sign
    is_pod_cgroup(path)
        && uid_part(path).is_some_and(|uid| uid == pod_uid || uid == pod_uid.replace('-', "_"))
}

/// The UID in the name of a pod's cgroup.
fn uid_part(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?;
    let name = match name.strip_suffix(SLICE) {
        Some(slice) => slice.rsplit('-').next()?,
        None => name,
    };
    name.strip_prefix(POD_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_cgroup_is_found_with_both_drivers_and_no_other_is_taken_for_it() {
        const UID: &str = "0a-1b";
        for (path, expected) in [
            ("/kubepods/burstable/pod0a-1b/c1", Some("kubepods/burstable/pod0a-1b")),
            ("/kubepods/pod0a-1b/c1", Some("kubepods/pod0a-1b")),
            (
                "kubepods-besteffort-pod0a_1b.slice:cri-containerd:c1",
                Some("kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0a_1b.slice"),
            ),
            ("kubepods-pod0a_1b.slice:crio:c1", Some("kubepods.slice/kubepods-pod0a_1b.slice")),
            ("/kubepods/burstable/podother/c1", None),
            ("/kubepods/burstable/c1", None),
            ("/c1", None),
            ("c1", None),
            ("system.slice:cri-containerd:c1", None),
            ("", None),
            ("/../pod0a-1b/c1", None),
        ] {
            assert_eq!(pod_cgroup(path, UID).as_deref(), expected, "{path}");
        }
        assert!(!is_pod_cgroup("kubepods/burstable") && !is_pod_cgroup("pod"));
        assert!(!is_cgroup_of_pod("kubepods/pod", ""));
    }
}
