//! The image `localhost/host`: a container reads of the machine what anybody on it may read, and no
//! more, whatever it may do itself (docs/adr/0044).

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use rekindle_runtime::*;

use crate::world::machine::{CLOSED, Machine, SECRET, attempts};
use crate::world::{self, World};

fn run_sandbox(world: &World, users: SandboxUsers) {
    let mut sandbox = world::sandbox_spec(world.sandbox());
    sandbox.namespaces.users = users;
    world.block(world.rt().run_sandbox(&sandbox)).unwrap();
}

const OWN: SandboxUsers = SandboxUsers::Own(UserRange { first: 1_600_061_440, length: 65_536 });

#[test]
fn root_in_a_container_reads_no_file_that_is_closed_to_others_also_none_that_is_made_later() {
    for (users, privileged) in
        [(SandboxUsers::Host, false), (SandboxUsers::Host, true), (OWN, false)]
    {
        let world = World::new();
        run_sandbox(&world, users);
        let mut spec = world.shell("web", 0, "sleep 100000");
        spec.security.privileged = privileged;
        world.start(&spec);
        for name in CLOSED {
            let machine = Machine::new();
            let (_, said) = world.exec(&spec.key, &attempts(&machine.path(name)));
            assert!(!said.contains(SECRET), "{users:?} {privileged} {name}: {said}");
            assert_eq!(fs::read_to_string(machine.path(name)).unwrap(), SECRET);
        }
        let (_, said) = world.exec(&spec.key, &attempts(&Machine::new().path("open")));
        assert!(said.starts_with("open to all\n"), "{users:?} {privileged} {said}");
    }
}

/// The files that lie on this very machine: keys, passwords, homes, data of services.
#[test]
fn nothing_of_the_machine_that_is_closed_to_others_is_readable() {
    let world = World::new();
    run_sandbox(&world, SandboxUsers::Host);
    let find = "find /etc /home /opt /root /srv /usr/local /var -xdev -type f ! -perm -004 -readable 2>/dev/null; true";
    assert_eq!(world.output(&world.shell("web", 0, find)), "");
}

#[test]
fn a_setuid_program_of_the_machine_opens_nothing() {
    let world = World::new();
    run_sandbox(&world, SandboxUsers::Host);
    let machine = Machine::new();
    let program = machine.path("as-root");
    fs::copy("/bin/cat", &program).unwrap();
    chown(&program, Some(0), Some(0)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let script =
        format!("{program} {}; {program} {}", machine.path("root-only"), machine.path("open"));
    let mut spec = world.shell("web", 0, &script);
    spec.security.run_as_user = Some(1000);
    let said = world.output(&spec);
    assert!(said.contains("ermission denied") && said.ends_with("open to all\n"), "{said}");
}

#[test]
fn what_is_open_is_changed_and_removed_in_a_layer_of_the_containers_own() {
    for users in [SandboxUsers::Host, OWN] {
        let world = World::new();
        run_sandbox(&world, users);
        let machine = Machine::new();
        let (open, folder) = (machine.path("open"), machine.path("folder"));
        let script = format!(
            "set -e; echo more >> {open}; cat {open}; chmod 600 {open}; chown 7:7 {open}; mv {open} {open}.moved; \
             rm -rf {folder}; test ! -e {folder}; mkdir {folder}; ls {folder}; mkdir -p /srv/new; echo a > /srv/new/file; \
             echo 'app:x:7:7::/:/bin/sh' >> /etc/passwd; tail -n 1 /etc/passwd; cd ~; ls -A; echo b > note; cat note"
        );
        let mut spec = world.shell("web", 0, &script);
        spec.env = vec![("HOME".to_owned(), "/root".to_owned())];
        let expected = "open to all\nmore\napp:x:7:7::/:/bin/sh\nb\n";
        assert_eq!(world.output(&spec), expected, "{users:?}");
        assert_eq!(fs::read_to_string(&open).unwrap(), "open to all\n");
        assert!(Path::new(&folder).join("file").exists());
        assert!(!Path::new("/srv/new").exists());
    }
}
