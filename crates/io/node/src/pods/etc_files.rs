//! /etc/hosts, /etc/hostname and /etc/resolv.conf of a pod: on the pod's small tmpfs, so that a
//! container that writes to them cannot fill the disk.

use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Pod;
use rekindle_net::files::{HOST_HOSTS_MAX_BYTES, HostAlias, hostname, hosts, hosts_of_host};
use rekindle_runtime::NamespaceOwner;

use crate::container_spec::{Hostname, SpecError, pod_hostname, pod_namespaces, uts_hostname};
use crate::layout::PodDirs;
use crate::volumes::{FILES_TMPFS, VolumeProblem, ensure_tmpfs, unmount_tmpfs};

/// The files' names beneath /etc.
const NAMES: [&str; 3] = ["hosts", "hostname", "resolv.conf"];

/// A pod's files cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EtcFileError {
    /// The pod's spec asks for something that does not fit.
    #[error(transparent)]
    Content(#[from] rekindle_net::files::FileError),
    /// The host's resolver cannot be read.
    #[error(transparent)]
    Host(#[from] rekindle_net::NetError),
    /// A file of the host cannot be read.
    #[error("read {path} of the node: {source}")]
    HostFile {
        /// Which file.
        path: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The pod's name does not fit.
    #[error(transparent)]
    Name(#[from] SpecError),
    /// The file system refused.
    #[error("write /etc/{name}: {source}")]
    Io {
        /// Which file.
        name: &'static str,
        /// Why.
        source: io::Error,
    },
    /// There is no room, and none could be made.
    #[error(transparent)]
    Room(#[from] VolumeProblem),
}

impl EtcFileError {
    /// True when a container has written so much to its files that no others fit beside them.
    pub(crate) fn is_lack_of_room(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            Self::Content(_)
            | Self::Host(_)
            | Self::HostFile { .. }
            | Self::Name(_)
            | Self::Room(_) => false,
        }
    }
}

/// Destination in the container and source on the host.
pub(crate) fn mounts(dirs: &PodDirs) -> Vec<(PathBuf, PathBuf)> {
    NAMES.iter().map(|name| (PathBuf::from("/etc").join(name), dirs.files().join(name))).collect()
}

/// Makes the place of the files new and empty. Containers that have files of the old place keep
/// them, and it is gone with the last.
pub(crate) fn make_room(dirs: &PodDirs) -> Result<(), EtcFileError> {
    unmount_tmpfs(&dirs.files())?;
    Ok(ensure_tmpfs(&dirs.files(), FILES_TMPFS)?)
}

/// Writes them for a sandbox with these addresses. Containers of a sandbox before it keep the files
/// they have.
pub(crate) fn write(
    dirs: &PodDirs,
    pod: &Pod,
    ips: &[IpAddr],
    cluster_domain: &str,
    resolv_conf: &str,
) -> Result<(), EtcFileError> {
    let name = pod_hostname(pod, cluster_domain);
    let texts = [
        hosts_text(pod, ips, &name)?,
        hostname(&uts_hostname(pod, &name)?)?,
        resolv_conf.to_owned(),
    ];
    for (name, text) in NAMES.into_iter().zip(texts) {
        let failed = |source| EtcFileError::Io { name, source };
        let path = dirs.files().join(name);
        let new = path.with_extension("new");
        fs::write(&new, text).map_err(failed)?;
        fs::set_permissions(&new, Permissions::from_mode(0o644)).map_err(failed)?;
        fs::rename(&new, &path).map_err(failed)?;
    }
    Ok(())
}

fn hosts_text(pod: &Pod, ips: &[IpAddr], hostname: &Hostname) -> Result<String, EtcFileError> {
    let aliases = pod.spec.as_ref().and_then(|spec| spec.host_aliases.as_ref());
    let aliases: Vec<HostAlias> = aliases
        .into_iter()
        .flatten()
        .map(|alias| HostAlias {
            ip: alias.ip.clone(),
            hostnames: alias.hostnames.clone().unwrap_or_default(),
        })
        .collect();
    match pod_namespaces(pod).network {
        NamespaceOwner::Host => return Ok(hosts_of_host(&host_hosts()?, &aliases)?),
        NamespaceOwner::Own => {}
    }
    let (loopback, name) = ([std::net::Ipv4Addr::LOCALHOST.into()], &hostname.name);
    // a pod without an address finds itself on its loopback
    let ips = if ips.is_empty() { &loopback } else { ips };
    Ok(hosts(ips, name, hostname.domain.as_deref(), &aliases)?)
}

/// The node's own names: no more than a pod's file takes, and nothing when the node has none.
fn host_hosts() -> Result<String, EtcFileError> {
    const PATH: &str = "/etc/hosts";
    let mut bytes = Vec::new();
    let read = fs::File::open(PATH).and_then(|file| {
        let bytes_max = u64::try_from(HOST_HOSTS_MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        file.take(bytes_max).read_to_end(&mut bytes)
    });
    match read {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            return Err(EtcFileError::HostFile { path: PATH, source });
        }
        Ok(_) | Err(_) => {}
    }
    if bytes.len() > HOST_HOSTS_MAX_BYTES {
        tracing::warn!("failed to give a host-network pod all of {PATH}: it is too long");
    }
    // Its comments may be in any encoding.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
