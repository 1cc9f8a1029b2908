//! NFS volumes, of pods and of PersistentVolumes: mounted by the machine's program `mount`, with
//! its helper for NFS (Debian's package nfs-common), as the kubelet does it.
//!
//! A server may not answer. So the program has a time, and ends with who waits for it; and no
//! mount that is there is looked at through the file system, which would wait for the server.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::Ipv6Addr;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{NFSVolumeSource, Pod};
use rekindle_pod::mounted_volumes::mounted;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;

use super::error::{VolumeError, VolumeProblem};
use super::tmpfs::make_folder;
use crate::layout::PodDirs;

/// The program that mounts.
const MOUNT: &str = "mount";
/// How long it may take.
const MOUNT_TIME_MAX: Duration = Duration::from_secs(60);
/// As much as is said of what it prints, bytes.
const OUTPUT_BYTES_MAX: usize = 1024;

/// A volume to be mounted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NfsMount {
    /// The volume's name in the pod.
    volume: String,
    /// `server:/path`.
    share: String,
    /// Where.
    folder: PathBuf,
    options: Vec<String>,
}

impl NfsMount {
    /// A share as a volume of a pod.
    pub(super) fn new(
        dirs: &PodDirs,
        volume: &str,
        source: &NFSVolumeSource,
        options: &[String],
    ) -> Self {
        let server = match source.server.parse::<Ipv6Addr>() {
            Ok(address) => format!("[{address}]"),
            Err(_) => source.server.clone(),
        };
        let read_only = (source.read_only == Some(true)).then(|| "ro".to_owned());
        let mut options: Vec<String> =
            read_only.into_iter().chain(options.iter().cloned()).collect();
        // the pod tries again by itself, and says each time what is wrong
        if !options.iter().any(|option| option.starts_with("retry=")) {
            options.push("retry=0".to_owned());
        }
        Self {
            volume: volume.to_owned(),
            share: format!("{server}:{}", source.path),
            folder: dirs.volumes().join(volume),
            options,
        }
    }

    fn arguments(&self) -> Vec<OsString> {
        // what a user has written is no option of the program
        let words = ["-t", "nfs", "-o", &self.options.join(","), "--", &self.share];
        words.map(OsString::from).into_iter().chain([self.folder.clone().into()]).collect()
    }
}

/// The shares that the pod itself names and a container of it uses.
pub(crate) fn of_pod(dirs: &PodDirs, pod: &Pod) -> Vec<NfsMount> {
    let named = mounted(pod).filter_map(|volume| Some((volume, volume.nfs.as_ref()?)));
    named.map(|(volume, source)| NfsMount::new(dirs, &volume.name, source, &[])).collect()
}

/// Mounts what is not mounted yet. Dropped, it ends the program that it waits for.
pub(crate) async fn mount_shares(shares: Vec<NfsMount>) -> Result<(), VolumeError> {
    if shares.is_empty() {
        return Ok(());
    }
    let about = |problem| VolumeError { volume: String::new(), problem };
    let known = mount_points().map_err(about)?;
    let is_known = |share: &NfsMount| known.iter().any(|point| point.path == share.folder);
    for share in shares.iter().filter(|share| !is_known(share)) {
        mount_with(MOUNT.as_ref(), share)
            .await
            .map_err(|problem| VolumeError { volume: share.volume.clone(), problem })?;
    }
    Ok(())
}

async fn mount_with(program: &OsStr, share: &NfsMount) -> Result<(), VolumeProblem> {
    make_folder(&share.folder)?;
    let failed = |why: String| VolumeProblem::Mount { share: share.share.clone(), why };
    let mut command = Command::new(program);
    command.args(share.arguments()).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| failed(format!("start {program:?}: {error}")))?;
    let mut group = ProgramGroup(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
    let ended = tokio::time::timeout(MOUNT_TIME_MAX, child.wait_with_output()).await;
    let Ok(ended) = ended else {
        return Err(failed(format!("no answer in {} s", MOUNT_TIME_MAX.as_secs())));
    };
    group.0 = None;
    let ended = ended.map_err(|error| failed(error.to_string()))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let said = said[..said.floor_char_boundary(OUTPUT_BYTES_MAX)].trim();
    Err(failed(format!("{}: {said}", ended.status)))
}

/// The program and its helpers: they end with who waits for them.
struct ProgramGroup(Option<Pid>);

impl Drop for ProgramGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // it may have ended by itself
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

const MOUNT_INFO: &str = "/proc/self/mountinfo";

/// Detaches the shares in a pod's folder of volumes. What the kernel has still to say to the server
/// then may take for ever, so a thread of its own waits for that: it holds up neither the pod nor
/// the end of the process.
pub(super) fn detach_shares(volumes: &Path) -> Result<(), VolumeProblem> {
    /// A share is out of sight at once.
    const DETACH_TIME_MAX: Duration = Duration::from_secs(2);
    let failed = |path: &Path, error: io::Error| VolumeProblem::io("detach", path, error);
    for point in mount_points()?.into_iter().filter(|point| point.is_share()) {
        let path = point.path;
        if path.parent() != Some(volumes) {
            continue;
        }
        let (done, detached) = mpsc::channel();
        let at = path.clone();
        let detach = move || {
            let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
            // who waits may have given up
            let _ = done.send(rustix::mount::unmount(&at, flags));
        };
        let thread = std::thread::Builder::new().name("detach-share".to_owned());
        thread.spawn(detach).map_err(|error| failed(&path, error))?;
        match detached.recv_timeout(DETACH_TIME_MAX) {
            Ok(Ok(()) | Err(Errno::INVAL | Errno::NOENT)) => {}
            Ok(Err(error)) => return Err(failed(&path, error.into())),
            Err(_) if is_mount_point(&path)? => {
                return Err(failed(&path, io::ErrorKind::TimedOut.into()));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Whether something is mounted exactly here. No file system is asked.
pub(super) fn is_mount_point(path: &Path) -> Result<bool, VolumeProblem> {
    Ok(mount_points()?.iter().any(|point| point.path == path))
}

/// Something that is mounted.
#[derive(Debug, PartialEq, Eq)]
struct MountPoint {
    path: PathBuf,
    /// `nfs4`, `tmpfs`, …
    kind: Vec<u8>,
}

impl MountPoint {
    fn is_share(&self) -> bool {
        matches!(&*self.kind, b"nfs" | b"nfs4")
    }
}

fn mount_points() -> Result<Vec<MountPoint>, VolumeProblem> {
    let table = std::fs::read(MOUNT_INFO);
    Ok(points_in(&table.map_err(|error| VolumeProblem::io("read", MOUNT_INFO, error))?))
}

/// The fifth field of each line, in which blanks and the like are written as `\040`, and the first
/// after a dash.
fn points_in(table: &[u8]) -> Vec<MountPoint> {
    let points = table.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let path = PathBuf::from(OsString::from_vec(unescaped(fields.nth(4)?)));
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?.to_vec();
        Some(MountPoint { path, kind })
    });
    points.collect()
}

fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *first == b'\\');
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                text.push(byte);
                rest = &after[3..];
            }
            None => {
                text.push(*first);
                rest = after;
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rekindle_types::{PodRef, PodUid};

    use super::*;
    use crate::layout::NodeDirs;
    use crate::testing::TestFolder;

    fn share(folder: &TestFolder, server: &str, options: &[&str]) -> NfsMount {
        let pod = PodRef { namespace: "shop".into(), name: "web".into(), uid: PodUid("u".into()) };
        let dirs = NodeDirs::new(&folder.join("data"), &folder.join("logs")).pod(&pod);
        let source = NFSVolumeSource {
            server: server.to_owned(),
            path: "/a b".to_owned(),
            read_only: Some(true),
        };
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        NfsMount::new(&dirs, "share", &source, &options)
    }

    /// A program in place of the machine's.
    fn program(folder: &TestFolder, script: &str) -> OsString {
        let path = folder.join("mount");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.into()
    }

    #[tokio::test]
    async fn the_machines_program_gets_the_share_as_no_option() {
        let folder = TestFolder::new();
        let share = share(&folder, "-oexec", &["nfsvers=4.2", "retry=1"]);
        let said = folder.join("said");
        let program = program(&folder, &format!("printf '%s\\n' \"$@\" > {}", said.display()));
        mount_with(&program, &share).await.unwrap();
        let expected = format!(
            "-t\nnfs\n-o\nro,nfsvers=4.2,retry=1\n--\n-oexec:/a b\n{}\n",
            share.folder.display()
        );
        assert_eq!(std::fs::read_to_string(said).unwrap(), expected);
        assert!(share.folder.is_dir());
    }

    #[tokio::test]
    async fn what_the_program_says_is_the_reason() {
        let folder = TestFolder::new();
        let share = share(&folder, "::1", &[]);
        let program = program(&folder, "echo 'mount.nfs: Connection refused' >&2; exit 32");
        let error = mount_with(&program, &share).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "mount [::1]:/a b: exit status: 32: mount.nfs: Connection refused"
        );
        let gone = mount_with("/no/such/mount".as_ref(), &share).await.unwrap_err().to_string();
        assert!(gone.contains("start \"/no/such/mount\""), "{gone}");
    }

    /// The server does not answer, and the pod is deleted: nothing of it stays.
    #[tokio::test]
    async fn a_program_that_hangs_ends_with_who_waits_for_it() {
        let folder = TestFolder::new();
        let share = share(&folder, "nfs.example.com", &[]);
        let (begun, gone) = (folder.join("begun"), folder.join("gone"));
        for path in [&begun, &gone] {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
        }
        // its helper holds a pipe open that ends with it
        let script =
            format!("(exec 3>{0}; echo > {1}; sleep 1000) & wait", gone.display(), begun.display());
        let program = program(&folder, &script);
        let waiting = tokio::spawn(async move { mount_with(&program, &share).await });
        let held = tokio::task::spawn_blocking(move || std::fs::File::open(gone).unwrap());
        let read = tokio::task::spawn_blocking(move || std::fs::read(begun).unwrap());
        read.await.unwrap();
        let mut held = held.await.unwrap();
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        let end =
            tokio::task::spawn_blocking(move || std::io::Read::read(&mut held, &mut [0]).unwrap());
        assert_eq!(end.await.unwrap(), 0, "the helper has ended");
    }

    #[test]
    fn mount_points_are_read_with_their_blanks() {
        let table = b"21 1 0:20 / /proc rw - proc proc rw\n\
            22 1 0:21 / /mnt/a\\040b\\134c rw,relatime shared:1 - nfs4 s:/x rw\n\n";
        let point = |path: &str, kind: &str| MountPoint { path: path.into(), kind: kind.into() };
        let found = points_in(table);
        assert_eq!(found, [point("/proc", "proc"), point("/mnt/a b\\c", "nfs4")]);
        assert_eq!(found.iter().map(MountPoint::is_share).collect::<Vec<_>>(), [false, true]);
        assert!(is_mount_point(Path::new("/proc")).unwrap());
        assert!(!is_mount_point(Path::new("/proc/self")).unwrap());
    }
}
