//! What may be asked of a mount: how far read-only reaches, what is passed on between it and the
//! host, what cannot be done in it; and an image in place of a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rekindle_runtime::*;

use crate::world::{self, World};

/// A shared mount with another one in it; both go away with the test.
struct Shared(tempfile::TempDir);

impl Shared {
    fn new() -> Self {
        let shared = Self(tempfile::Builder::new().prefix("rekindle-shared-").tempdir().unwrap());
        let path = shared.path().to_str().unwrap();
        mount(&["--bind", path, path]);
        mount(&["--make-shared", path]);
        for name in ["early", "late", "own"] {
            fs::create_dir(shared.path().join(name)).unwrap();
        }
        shared.mount("early");
        shared
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn mount(&self, name: &str) {
        let at = self.path().join(name);
        mount(&["-t", "tmpfs", "tmpfs", at.to_str().unwrap()]);
        fs::write(at.join("here"), name).unwrap();
    }

    /// With device nodes that anybody may open.
    fn mount_with_devices(&self, name: &str) {
        let at = self.path().join(name);
        mount(&["-t", "tmpfs", "tmpfs", at.to_str().unwrap()]);
        for (node, kind) in [("disk", ["b", "1", "0"]), ("zero", ["c", "1", "5"])] {
            let mut mknod = Command::new("mknod");
            mknod.args(["-m", "666"]).arg(at.join(node)).args(kind);
            assert!(mknod.status().unwrap().success(), "{node}");
        }
        fs::write(at.join("here"), name).unwrap();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for name in ["early", "late", "own", ""] {
            let _ = Command::new("umount").args(["-q", "-l"]).arg(self.path().join(name)).status();
        }
    }
}

fn mount(arguments: &[&str]) {
    assert!(Command::new("mount").args(arguments).status().unwrap().success(), "{arguments:?}");
}

fn volume(source: MountSource, to: &str, access: MountAccess, options: MountOptions) -> Mount {
    Mount { source, sub_path: None, destination: PathBuf::from(to), access, options }
}

#[test]
fn a_read_only_mount_reaches_as_far_as_is_asked_for() {
    let (world, shared) = (World::new(), Shared::new());
    world.run_sandbox();
    let script = "for at in flat deep; do for path in x early/x; do touch /$at/$path 2>/dev/null && echo $at/$path; done; done; \
        cp /bin/true /inert/true; /inert/true 2>/dev/null || echo not executed";
    for attempt in 0..2 {
        let mut spec = world.shell("web", attempt, script);
        let source = || MountSource::Host(shared.path().to_owned());
        let tree = MountOptions { read_only: ReadOnlyReach::Tree, ..MountOptions::default() };
        let inert = MountOptions { without: vec![MountFeature::Exec], ..MountOptions::default() };
        spec.mounts = vec![
            volume(source(), "/flat", MountAccess::ReadOnly, MountOptions::default()),
            volume(source(), "/deep", MountAccess::ReadOnly, tree),
            volume(source(), "/inert", MountAccess::ReadWrite, inert),
        ];
        assert_eq!(world.output(&spec), "flat/early/x\nnot executed\n", "attempt {attempt}");
    }
}

#[test]
fn mounts_made_later_are_passed_on_as_far_as_is_asked_for() {
    let (world, shared) = (World::new(), Shared::new());
    world.run_sandbox();
    // it waits for the mount: by the one that sees the host's
    let script = "mount -t tmpfs own /both/own && echo own > /both/own/here; until test -e /both/late/here; do sleep 0.02; done; \
        cat /follows/late/here /follows/own/here; cat /private/late/here /private/own/here 2>/dev/null; echo end";
    let mut spec = world.shell("web", 0, script);
    spec.security.privileged = true;
    let with = |propagation| MountOptions { propagation, ..MountOptions::default() };
    let source = || MountSource::Host(shared.path().to_owned());
    spec.mounts = vec![
        volume(source(), "/private", MountAccess::ReadWrite, MountOptions::default()),
        volume(
            source(),
            "/follows",
            MountAccess::ReadWrite,
            with(MountPropagation::HostToContainer),
        ),
        volume(source(), "/both", MountAccess::ReadWrite, with(MountPropagation::Bidirectional)),
    ];
    world.start(&spec);
    shared.mount("late");
    world.next_exit();
    assert_eq!(world::read_log(&spec.log_path), "lateown\nend\n");
    assert_eq!(fs::read_to_string(shared.path().join("own/here")).unwrap(), "own\n");

    fs::create_dir(world.path("alone")).unwrap();
    let alone = world.path("alone").to_str().unwrap().to_owned();
    mount(&["--bind", &alone, &alone]);
    mount(&["--make-private", &alone]);
    let mut spec = world.shell("web", 1, "true");
    let source = MountSource::Host(world.path("alone"));
    spec.mounts =
        vec![volume(source, "/v", MountAccess::ReadWrite, with(MountPropagation::HostToContainer))];
    let refused = world.block(world.rt().create_container(&spec)).unwrap_err().chain();
    assert!(Command::new("umount").arg(&alone).status().unwrap().success());
    assert!(refused.ends_with("but it is not a shared or slave mount"), "{refused}");
}

/// Among the host's users it makes the nodes itself; among its own it finds the host's.
#[test]
fn devices_of_a_mount_that_is_passed_on_later_stay_withheld() {
    let own = SandboxUsers::Own(UserRange { first: 1 << 30, length: 65_536 });
    let make = "mknod disk b 1 0 && mknod zero c 1 5";
    for (users, make) in [(SandboxUsers::Host, make), (own, "test -b disk")] {
        let (world, shared) = (World::new(), Shared::new());
        let mut sandbox = world::sandbox_spec(world.sandbox());
        sandbox.namespaces.users = users;
        world.block(world.rt().run_sandbox(&sandbox)).unwrap();
        let script = format!(
            "until test -e /follows/late/here; do sleep 0.02; done; cd /follows/late; \
             {make} && head -c 4 zero | wc -c; exec head -c 1 disk"
        );
        let mut spec = world.shell("web", 0, &script);
        let options = MountOptions {
            propagation: MountPropagation::HostToContainer,
            ..MountOptions::default()
        };
        let source = MountSource::Host(shared.path().to_owned());
        spec.mounts = vec![volume(source, "/follows", MountAccess::ReadWrite, options)];
        world.start(&spec);
        match users {
            SandboxUsers::Host => shared.mount("late"),
            SandboxUsers::Own(_) => shared.mount_with_devices("late"),
        }
        let (_, exit) = world.next_exit();
        let said = world::read_log(&spec.log_path);
        assert!(said.contains("4\n") && said.contains("not permitted"), "{users:?}: {said}");
        assert_ne!(exit.status.code(), 0, "{users:?}: {said}");
    }
}

#[test]
fn an_image_as_a_volume_is_read_and_never_executed_and_the_hosts_root_is_none() {
    let world = World::new();
    world.run_sandbox();
    let script =
        "ls /image | grep -q . && echo seen; touch /image/x 2>/dev/null || echo not written";
    let mut spec = world.shell("web", 0, script);
    let image = |name: &str| {
        let source = MountSource::Image(name.to_owned());
        volume(source, "/image", MountAccess::ReadOnly, MountOptions::default())
    };
    spec.mounts = vec![image("localhost/demo")];
    assert_eq!(world.output(&spec), "seen\nnot written\n");
    for (attempt, name, expected) in
        [(1, "localhost/host", "cannot be a volume"), (2, "localhost/none", "not present")]
    {
        let mut spec = world.shell("web", attempt, "true");
        spec.mounts = vec![image(name)];
        let refused = world.block(world.rt().create_container(&spec)).unwrap_err().chain();
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn a_creation_tells_who_the_process_is_and_so_does_what_the_next_agent_finds() {
    let mut world = World::new();
    world.run_sandbox();
    let mut spec = world.shell("web", 0, "sleep 1000");
    spec.security.run_as_user = Some(1234);
    spec.security.run_as_group = Some(1235);
    spec.security.supplemental_groups = vec![77];
    spec.security.image_groups = ImageGroups::Left;
    let created = world.block(world.rt().create_container(&spec)).unwrap();
    let user = created.user.clone().unwrap();
    assert_eq!((user.uid, user.gid, user.groups.as_slice()), (1234, 1235, [77, 1235].as_slice()));
    assert_eq!(world.block(world.rt().create_container(&spec)).unwrap(), created, "the same again");
    world.reopen();
    assert_eq!(world.snapshot().containers[0].created.user, Some(user));
}

/// What an engine mounts in every pod's containers costs nothing on the disk, whatever of it the
/// image lacks.
#[test]
fn nothing_is_written_for_the_usual_mounts_before_a_container_runs() {
    let world = World::new();
    world.run_sandbox();
    let (file, folder) = (world.path("file"), world.path("folder"));
    fs::write(&file, "from outside").unwrap();
    fs::create_dir(&folder).unwrap();
    let mut spec = world.spec("app", 0);
    spec.image = "localhost/demo".to_owned();
    spec.args = vec!["signal".to_owned()];
    let usual = |source: &Path, to| {
        let source = MountSource::Host(source.to_owned());
        volume(source, to, MountAccess::ReadWrite, MountOptions::default())
    };
    let files = ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"];
    spec.mounts = files.iter().map(|to| usual(&file, to)).collect();
    spec.mounts.push(usual(&folder, "/var/run/secrets/kubernetes.io/serviceaccount"));
    let pid = world.start(&spec).pid;
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    for path in files {
        assert_eq!(fs::read_to_string(root.join(&path[1..])).unwrap(), "from outside", "{path}");
    }
    let sandbox = fs::read_dir(world.config().data_dir.join("sandboxes")).unwrap();
    let roots = sandbox.map(|one| one.unwrap().path().join("roots")).filter(|roots| roots.is_dir());
    let written = roots.flat_map(|roots| fs::read_dir(roots).unwrap()).flat_map(|root| {
        fs::read_dir(root.unwrap().path().join("upper")).unwrap().map(|one| one.unwrap().path())
    });
    assert_eq!(written.collect::<Vec<_>>(), Vec::<PathBuf>::new());
    world.block(world.rt().signal_container(&spec.key, StopSignal::Kill)).unwrap();
    world.next_exit();
}
