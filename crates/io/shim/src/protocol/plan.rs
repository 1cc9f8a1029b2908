//! What a sandbox and a container are to be. All paths and numbers are resolved.

use serde::{Deserialize, Serialize};

use super::MemoryFiles;

/// The sandbox as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SandboxPlan {
    /// The hostname inside.
    pub hostname: String,
    /// Kernel settings of its namespaces: dotted name, value.
    pub sysctls: Vec<(String, String)>,
    /// Bytes of /dev/shm, where it is the sandbox's own.
    pub shm_bytes: u64,
    /// An empty folder to mount on in the shim's own mount namespace; nothing of it shows outside.
    pub mount_point: String,
    /// Which namespaces are made.
    pub namespaces: NamespacesPlan,
}

/// The namespaces that a sandbox may share with the host. The others are its own in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespacesPlan {
    /// With the host's, no `net.` setting may be in the plan: it would be the host's.
    pub network: NamespacePlan,
    /// With the host's, /dev/shm is the host's too, and no IPC setting may be in the plan.
    pub ipc: NamespacePlan,
    /// Whose processes its containers see.
    #[serde(default)]
    pub processes: ProcessesPlan,
    /// Whose user ids hold in it. With ids of its own, all that can be its own must be: a namespace
    /// belongs to the user namespace that it was made in.
    #[serde(default)]
    pub users: UsersPlan,
}

/// Whose user and group ids hold in a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UsersPlan {
    /// The host's.
    #[default]
    Host,
    /// Its own, 0 up to `length`, which are the ids from `first` on of the host.
    Own {
        /// The host's id of its root.
        first: u32,
        /// How many there are.
        length: u32,
    },
}

/// What a sandbox does about PID namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessesPlan {
    /// Nothing: each container has its own.
    #[default]
    Containers,
    /// It holds one for all its containers, with a first process of its own that reaps.
    Sandbox,
    /// It reaps what its containers leave behind in the host's.
    Host,
}

/// Whose a namespace is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NamespacePlan {
    /// Made for the sandbox.
    #[default]
    Own,
    /// The one that the shim was started in.
    Host,
}

/// What of a sandbox is its pod's own. The rest is the same for all, and stands before there is a
/// pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimPlan {
    /// The hostname inside.
    pub hostname: String,
    /// Kernel settings of its namespaces beyond those it was made with: dotted name, value.
    pub sysctls: Vec<(String, String)>,
    /// Whose processes its containers see.
    #[serde(default)]
    pub processes: ProcessesPlan,
}

/// One container. All paths are the host's unless said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContainerPlan {
    /// Its name within the sandbox: letters, digits, `.`, `_`, `-`; also the name of its state
    /// file.
    pub slot: String,
    /// Its root file system.
    pub root: RootPlan,
    /// Volumes, parents before children.
    pub mounts: Vec<MountPlan>,
    /// The command and who runs it.
    pub process: ProcessPlan,
    /// What it may do.
    pub confinement: Confinement,
    /// Its cgroups, which stand already.
    pub cgroup: CgroupPlan,
    /// Where its output goes.
    pub log: LogPlan,
    /// What its three files are.
    #[serde(default)]
    pub stdio: StdioPlan,
    /// In which PID namespace it lives.
    #[serde(default)]
    pub processes: PidNamespacePlan,
    /// How soon the kernel ends its processes when the machine has no memory left: -1000 to 1000,
    /// most first. One below that of the shim takes a right that the machine may lack, and is done
    /// without then.
    #[serde(default)]
    pub oom_score_adj: i32,
}

/// The PID namespace that a container lives in. Where it is not alone, what it leaves behind is
/// killed when its first process has ended: all that is in its cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PidNamespacePlan {
    /// One of its own.
    #[default]
    Own,
    /// The sandbox's, which was made with [`ProcessesPlan::Sandbox`].
    Sandbox,
    /// The host's.
    Host,
    /// That of another container, which must be running. It ends with that one.
    Container {
        /// The other one.
        slot: String,
    },
}

/// What the three files of a first process are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StdioPlan {
    /// File 0.
    pub stdin: StdinPlan,
    /// Whether they are a terminal.
    pub terminal: TerminalPlan,
}

/// What a first process reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StdinPlan {
    /// /dev/null.
    #[default]
    Null,
    /// What is sent to it, whoever comes.
    Open,
    /// What the first who comes sends; then it ends.
    Once,
}

/// Whether a first process is on a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TerminalPlan {
    /// No.
    #[default]
    None,
    /// Yes.
    Own,
}

/// A root file system: overlayfs of read-only layers and a private writable one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RootPlan {
    /// The layers, top first.
    pub lower_dirs: Vec<String>,
    /// A folder of the host beneath the layers, of which the container reads what anybody on the
    /// host may read, and no more, whatever its capabilities. Only with [`WritableLayer::Tmpfs`].
    /// The agent gives no layers with it: a shim of an earlier version, which does not know of it,
    /// can mount nothing then.
    #[serde(default)]
    pub public_dir: Option<String>,
    /// An empty folder to mount on in the container's own mount namespace; nothing of it shows
    /// outside.
    pub mount_point: String,
    /// What the writable layer lies on.
    pub upper: WritableLayer,
    /// Whether the container may write to its root.
    pub access: MountAccess,
    /// Paths in the image that must not be seen; absent ones are no matter.
    pub mask: Vec<String>,
    /// Folders of the image, made when absent, that the container may write to in any case: what it
    /// writes there lies in its writable layer, too.
    #[serde(default)]
    pub volumes: Vec<String>,
}

/// What a writable layer lies on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WritableLayer {
    /// A folder of this container alone with `upper` and `work` in it, both empty.
    Directory {
        /// Where it is.
        dir: String,
    },
    /// A tmpfs of the container's own.
    Tmpfs {
        /// Its limit.
        size_bytes: u64,
    },
}

/// Whether something may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountAccess {
    /// Reading only.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// One bind mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MountPlan {
    /// A path that the agent answers for. With `layers`, only what they are called.
    pub source: String,
    /// The layers of an image, top first, which are mounted together, read-only, in place of
    /// `source`; none for a path.
    #[serde(default)]
    pub layers: Vec<String>,
    /// A path beneath `source` that the pod's content decides over: links out of it are refused.
    pub sub_path: Option<String>,
    /// Inside the container's root; made when absent.
    pub destination: String,
    /// Whether it may be written.
    pub access: MountAccess,
    /// What else is asked of it.
    #[serde(default)]
    pub options: MountOptions,
}

/// What may be asked of a bind mount beyond where it is. By default nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountOptions {
    /// recursiveReadOnly: how far `MountAccess::ReadOnly` reaches.
    pub read_only: ReadOnlyReach,
    /// mountPropagation: which mounts made later are seen on the other side.
    pub propagation: MountPropagation,
    /// bindMountOptions: what cannot be done in it.
    pub without: Vec<MountFeature>,
}

/// How far a read-only mount reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadOnlyReach {
    /// The mount itself.
    #[default]
    Mount,
    /// All that is mounted beneath it, too.
    Tree,
}

/// Which later mounts beneath a mount are seen on its other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountPropagation {
    /// None.
    #[default]
    Private,
    /// The host's are seen in the container.
    HostToContainer,
    /// Those of either on the other.
    Bidirectional,
}

/// What a mount can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountFeature {
    /// Programs that are executed (`noexec`).
    Exec,
    /// Device nodes (`nodev`).
    Devices,
    /// Programs that run as their owner (`nosuid`).
    SetUid,
}

/// The first process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessPlan {
    /// The command; never empty.
    pub argv: Vec<String>,
    /// Its environment, each name once.
    pub env: Vec<(String, String)>,
    /// Where it starts, inside the container; made when absent.
    pub working_dir: String,
    /// Who it is.
    pub user: UserPlan,
}

/// Who the process is; names are looked up in the image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserPlan {
    /// The image's `user[:group]`, names or numbers; empty is root.
    pub image_user: String,
    /// Goes before the image's user.
    pub uid: Option<u32>,
    /// Goes before every other group.
    pub gid: Option<u32>,
    /// Beside the ones the image gives the user.
    pub groups: Vec<u32>,
    /// What if it is root.
    pub root: RootUser,
    /// What becomes of the groups that the image's own files put the user into.
    #[serde(default)]
    pub image_groups: ImageGroups,
}

/// Whether a user has the groups that the image's /etc/group says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageGroups {
    /// supplementalGroupsPolicy Merge: yes.
    #[default]
    Merged,
    /// Strict: no.
    Left,
}

/// Whether uid 0 is acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootUser {
    /// Yes.
    Allowed,
    /// runAsNonRoot: refuse.
    Refused,
}

/// What a container may do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confinement {
    /// Whether the host is hidden from it.
    pub privilege: Privilege,
    /// One bit per capability, by its number: bounding set, and what root gets.
    pub capabilities: u64,
    /// Whether setuid programs may raise it.
    pub escalation: PrivilegeEscalation,
    /// Seccomp programs in the order of loading: each a text of 16 hex digits per instruction.
    pub seccomp: Vec<String>,
    /// Paths hidden beneath /proc and /sys.
    pub masked_paths: Vec<String>,
    /// Paths made read-only beneath /proc.
    pub read_only_paths: Vec<String>,
}

/// Whether a container is kept from the host's devices and kernel settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Privilege {
    /// Own /dev, /sys read-only, no device nodes on any mount.
    Confined,
    /// The host's /dev, all writable.
    Privileged,
}

/// Whether a process may gain privileges by an exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PrivilegeEscalation {
    /// It may.
    Allowed,
    /// no_new_privs is set.
    Refused,
}

/// The cgroups of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupPlan {
    /// Its folder in the unified hierarchy: the process is born in it.
    pub unified: Option<String>,
    /// The `tasks` files of version 1: the process writes itself into them. (`cgroup.procs` would
    /// cost a grace period.)
    pub v1_tasks: Vec<String>,
    /// The same of the CPU controllers, joined last: a share that is small, as that of a pod
    /// without requests, would make the preparation wait for everybody else.
    pub v1_cpu_tasks: Vec<String>,
    /// What is read of its memory when it was killed.
    pub memory: Option<MemoryFiles>,
    /// Whether the container sees its own cgroup at /sys/fs/cgroup (version 2) or nothing there.
    pub view: CgroupView,
}

/// What a container sees at /sys/fs/cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CgroupView {
    /// An empty folder.
    #[default]
    Hidden,
    /// Its own cgroup as the root of a tree, which a privileged one may write to.
    Unified,
}

/// Where output goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPlan {
    /// The folder.
    pub dir: String,
    /// The file in it. Older ones are `<file>.1` (the youngest), `<file>.2`, ….
    pub file: String,
    /// Bytes of one file.
    pub max_bytes: u64,
    /// Files, the current one included; at least 1.
    pub max_files: u32,
}
