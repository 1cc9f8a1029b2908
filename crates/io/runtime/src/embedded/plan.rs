//! From a container's spec and its image to the shim's plan: everything that can be decided outside
//! is decided here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rekindle_shim::protocol::{
    CgroupPlan, Confinement, ContainerPlan, LogPlan, MountAccess, MountPlan, PidNamespacePlan,
    Privilege, PrivilegeEscalation, ProcessPlan, RootPlan, RootUser, StdinPlan, StdioPlan,
    TerminalPlan, UserPlan, WritableLayer,
};
use rekindle_types::signals::signal_number_of_image;

use super::capabilities;
use super::seccomp::{self, ProfileError, Profiles};
use crate::image::{ImageConfig, ResolvedImage, UpperKind};
use crate::spec::{
    ContainerSpec, Mount, MountSource, ProcMount, Seccomp, Security, Stdin, TerminalUse,
};

/// Hidden in every container that is not privileged: what the container engines hide.
const MASKED_PATHS: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

/// Not writable in such a container.
const READ_ONLY_PATHS: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Volumes of an image at most.
const IMAGE_VOLUMES_MAX: usize = 100;

/// What the plan is made for.
pub(crate) struct PlanContext<'a> {
    /// The container's name in the sandbox.
    pub(crate) slot: &'a str,
    /// Its folder, with `upper` and `work` in it when its writable layer lies on the disk.
    pub(crate) dir: &'a Path,
    /// An empty folder.
    pub(crate) mount_point: &'a Path,
    /// The sandbox's hostname, for HOSTNAME.
    pub(crate) hostname: &'a str,
    /// The layers of the images that are mounted as volumes, by their names in the spec.
    pub(crate) volume_images: &'a BTreeMap<String, Vec<PathBuf>>,
}

/// Why there is no plan.
#[derive(Debug)]
pub(crate) enum PlanError {
    /// The spec cannot be carried out; for people.
    Spec(String),
    /// A profile that the node should have.
    Profile(ProfileError),
}

impl From<String> for PlanError {
    fn from(problem: String) -> Self {
        PlanError::Spec(problem)
    }
}

/// Makes the plan.
pub(crate) fn container(
    spec: &ContainerSpec,
    image: &ResolvedImage,
    place: &PlanContext<'_>,
    profiles: &Profiles,
) -> Result<ContainerPlan, PlanError> {
    Ok(ContainerPlan {
        slot: place.slot.to_owned(),
        root: RootPlan {
            lower_dirs: texts(&image.rootfs.lower_dirs)?,
            public_dir: image.rootfs.public_dir.as_deref().map(text).transpose()?,
            mount_point: text(place.mount_point)?,
            upper: match image.rootfs.upper {
                UpperKind::Directory => WritableLayer::Directory { dir: text(place.dir)? },
                UpperKind::Tmpfs { size_bytes } => WritableLayer::Tmpfs { size_bytes },
            },
            access: if spec.security.read_only_root {
                MountAccess::ReadOnly
            } else {
                MountAccess::ReadWrite
            },
            mask: texts(&image.rootfs.mask)?,
            volumes: image_volumes(&image.config, &spec.mounts)?,
        },
        mounts: spec.mounts.iter().map(|one| mount(one, place)).collect::<Result<_, _>>()?,
        process: process(spec, &image.config, place.hostname)?,
        confinement: confinement(&spec.security, profiles)?,
        cgroup: CgroupPlan::default(),
        processes: PidNamespacePlan::default(),
        oom_score_adj: spec.oom_score_adj,
        log: log(spec)?,
        stdio: StdioPlan {
            stdin: match spec.stdio.stdin {
                Stdin::Null => StdinPlan::Null,
                Stdin::Open => StdinPlan::Open,
                Stdin::Once => StdinPlan::Once,
            },
            terminal: match spec.stdio.terminal {
                TerminalUse::None => TerminalPlan::None,
                TerminalUse::Own => TerminalPlan::Own,
            },
        },
    })
}

fn text(path: &Path) -> Result<String, String> {
    path.to_str().map(str::to_owned).ok_or_else(|| format!("path {path:?} is not UTF-8"))
}

fn texts(paths: &[std::path::PathBuf]) -> Result<Vec<String>, String> {
    paths.iter().map(|path| text(path)).collect()
}

/// Where the image wants to write (containerd: a folder of the container's own), but for what the
/// pod mounts itself and what is every container's.
fn image_volumes(image: &ImageConfig, mounts: &[Mount]) -> Result<Vec<String>, String> {
    if image.volumes.len() > IMAGE_VOLUMES_MAX {
        return Err(format!("its image has more than {IMAGE_VOLUMES_MAX} volumes"));
    }
    let mounted =
        |path: &Path| mounts.iter().any(|one| Path::new("/").join(&one.destination) == path);
    let wanted = image.volumes.iter().map(|path| Path::new("/").join(path));
    let mut volumes: Vec<PathBuf> =
        wanted.filter(|path| may_be_volume(path) && !mounted(path)).collect();
    // parents before children, which lie in them
    volumes.sort();
    texts(&volumes)
}

/// Neither the root, nor something that has `..` in it, nor a system mount or something in it.
fn may_be_volume(path: &Path) -> bool {
    let mut parts = path.components().skip(1);
    let first = parts.clone().next().map(|part| part.as_os_str());
    first.is_some_and(|first| !["dev", "proc", "sys"].iter().any(|system| first == *system))
        && parts.all(|part| matches!(part, std::path::Component::Normal(_)))
}

fn mount(mount: &Mount, place: &PlanContext<'_>) -> Result<MountPlan, String> {
    let has_parent = |path: &Path| path.components().any(|c| c == std::path::Component::ParentDir);
    if has_parent(&mount.destination) {
        return Err(format!("mountPath {:?} must not contain '..'", mount.destination));
    }
    if mount.sub_path.as_deref().is_some_and(has_parent) {
        return Err(format!("subPath {:?} must not contain '..'", mount.sub_path));
    }
    let (source, layers) = match &mount.source {
        MountSource::Host(path) => (text(path)?, Vec::new()),
        MountSource::Image(name) => {
            let layers = place.volume_images.get(name);
            let layers = layers.ok_or_else(|| format!("image {name:?} is not looked up"))?;
            (name.clone(), texts(layers)?)
        }
    };
    Ok(MountPlan {
        source,
        layers,
        sub_path: mount.sub_path.as_deref().map(text).transpose()?,
        destination: text(&Path::new("/").join(&mount.destination))?,
        access: mount.access,
        options: mount.options.clone(),
    })
}

/// `command` replaces the entrypoint and drops the image's cmd; `args` replaces the cmd.
fn argv(spec: &ContainerSpec, image: &ImageConfig) -> Vec<String> {
    let (command, default_args) = if spec.command.is_empty() {
        (&image.entrypoint, image.cmd.as_slice())
    } else {
        (&spec.command, &[][..])
    };
    let args = if spec.args.is_empty() { default_args } else { &spec.args };
    command.iter().chain(args).cloned().collect()
}

fn process(
    spec: &ContainerSpec,
    image: &ImageConfig,
    hostname: &str,
) -> Result<ProcessPlan, String> {
    let argv = argv(spec, image);
    if argv.is_empty() {
        return Err("neither the container nor its image says which command to run".to_owned());
    }
    let mut env: Vec<(String, String)> = Vec::new();
    let hostname = ("HOSTNAME".to_owned(), hostname.to_owned());
    for (name, value) in [hostname].iter().chain(&image.env).chain(&spec.env) {
        match env.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => value.clone_into(old),
            None => env.push((name.clone(), value.clone())),
        }
    }
    let security = &spec.security;
    let working_dir = spec.working_dir.as_ref().unwrap_or(&image.working_dir);
    let working_dir = Path::new("/").join(working_dir);
    Ok(ProcessPlan {
        argv,
        env,
        working_dir: text(&working_dir)?,
        user: UserPlan {
            image_user: image.user.clone(),
            uid: security.run_as_user,
            gid: security.run_as_group,
            groups: security.supplemental_groups.clone(),
            root: if security.run_as_non_root { RootUser::Refused } else { RootUser::Allowed },
            image_groups: security.image_groups,
        },
    })
}

fn confinement(security: &Security, profiles: &Profiles) -> Result<Confinement, PlanError> {
    let capabilities = capabilities::set(security)?;
    if security.privileged {
        return Ok(Confinement {
            privilege: Privilege::Privileged,
            capabilities,
            escalation: PrivilegeEscalation::Allowed,
            seccomp: Vec::new(),
            masked_paths: Vec::new(),
            read_only_paths: Vec::new(),
        });
    }
    let (masked, read_only): (&[&str], &[&str]) = match security.proc_mount {
        ProcMount::Default => (&MASKED_PATHS, &READ_ONLY_PATHS),
        ProcMount::Unmasked => (&[], &[]),
    };
    let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    Ok(Confinement {
        privilege: Privilege::Confined,
        capabilities,
        escalation: if security.allow_privilege_escalation {
            PrivilegeEscalation::Allowed
        } else {
            PrivilegeEscalation::Refused
        },
        seccomp: match &security.seccomp {
            Seccomp::RuntimeDefault => profiles.get(capabilities).to_vec(),
            Seccomp::Unconfined => Vec::new(),
            Seccomp::Localhost { folder, profile } => {
                seccomp::localhost(folder, profile, capabilities).map_err(PlanError::Profile)?
            }
        },
        masked_paths: owned(masked),
        read_only_paths: owned(read_only),
    })
}

fn log(spec: &ContainerSpec) -> Result<LogPlan, String> {
    let (Some(dir), Some(file)) = (spec.log_path.parent(), spec.log_path.file_name()) else {
        return Err(format!("log path {:?} is not a file in a folder", spec.log_path));
    };
    Ok(LogPlan {
        dir: text(dir)?,
        file: text(Path::new(file))?,
        max_bytes: spec.log_limits.max_bytes,
        max_files: spec.log_limits.max_files.max(1),
    })
}

/// The image's stop signal; SIGTERM when there is none, or none that Linux knows.
pub(crate) fn stop_signal(image: &ImageConfig) -> i32 {
    image.stop_signal.as_deref().and_then(signal_number_of_image).unwrap_or(libc::SIGTERM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::MountOptions;

    #[test]
    fn volumes_of_an_image_are_what_the_pod_does_not_mount_itself() {
        let mount = |destination: &str| Mount {
            source: MountSource::Host("/x".into()),
            sub_path: None,
            destination: destination.into(),
            access: MountAccess::ReadWrite,
            options: MountOptions::default(),
        };
        let volumes = |paths: &[&str], mounts: &[Mount]| {
            let volumes = paths.iter().map(|path| (*path).to_owned()).collect();
            image_volumes(&ImageConfig { volumes, ..ImageConfig::default() }, mounts)
        };
        for (paths, mounts, expected) in [
            (&["/data", "/cache/"][..], &[][..], &["/cache/", "/data"][..]),
            (&["data", "/data/a"], &[], &["/data", "/data/a"]),
            (&["/data/", "/cache"], &[mount("/data"), mount("/cache/x")], &["/cache"]),
            (&["/data/a"], &[mount("data")], &["/data/a"]),
            (&["/", "", "/a/../etc", "..", "/proc", "/dev/shm", "/sys/x"], &[], &[]),
            (&["/processes"], &[], &["/processes"]),
        ] {
            assert_eq!(volumes(paths, mounts).unwrap(), expected, "{paths:?}");
        }
        let many: Vec<String> =
            (0..=IMAGE_VOLUMES_MAX).map(|number| format!("/{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(volumes(&many[1..], &[]).is_ok());
        assert!(volumes(&many, &[]).unwrap_err().contains("more than 100 volumes"));
    }

    #[test]
    fn an_image_without_a_stop_signal_that_linux_knows_is_sent_sigterm() {
        for (text, number) in [(Some("SIGQUIT"), 3), (Some("SIGNONSENSE"), 15), (None, 15)] {
            let image =
                ImageConfig { stop_signal: text.map(str::to_owned), ..ImageConfig::default() };
            assert_eq!(stop_signal(&image), number, "{text:?}");
        }
    }
}
