//! The folders that an image says its containers write to, on roots that are read-only: against the
//! real shim. Needs root.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use rekindle_shim::protocol::*;

use crate::shim::Shim;

/// A container on a read-only root whose image has these volumes.
fn read_only(shim: &Shim, volumes: &[&str], script: &str) -> ContainerPlan {
    let mut plan = shim.plan(script);
    plan.root.access = MountAccess::ReadOnly;
    plan.root.volumes = volumes.iter().map(|path| (*path).to_owned()).collect();
    plan
}

/// What a script wrote, without the log's own words.
fn said(log: &str) -> Vec<&str> {
    log.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default()).collect()
}

#[test]
fn a_volume_of_the_image_is_written_on_a_read_only_root_and_is_new_at_each_start() {
    let mut shim = Shim::new();
    fs::create_dir(shim.path("image/data")).unwrap();
    fs::set_permissions(shim.path("image/data"), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(shim.path("image/data/seed"), "of the image\n").unwrap();
    let script = "cat /data/seed; stat -c %a /data; echo changed > /data/seed; touch /data/new /none/new && ls /data; \
                  touch /beside 2>/dev/null || echo read-only";
    for attempt in 0..2 {
        let (cause, log) = shim.run(read_only(&shim, &["/data", "/none"], script));
        assert_eq!(cause, ExitCause::Code(0), "{log}");
        let expected = ["of the image", "1777", "new", "seed", "read-only"];
        assert_eq!(said(&log), expected, "attempt {attempt}");
    }
    assert_eq!(fs::read_to_string(shim.path("image/data/seed")).unwrap(), "of the image\n");
}

#[test]
fn what_the_pod_mounts_lies_over_the_volumes_of_the_image() {
    let mut shim = Shim::new();
    fs::write(shim.path("volume/file"), "of the pod\n").unwrap();
    let mut plan = read_only(&shim, &["/data"], "cat /data/sub/file; touch /data/x && echo end");
    plan.mounts = vec![shim.volume(None, "/data/sub")];
    let (cause, log) = shim.run(plan);
    assert_eq!(cause, ExitCause::Code(0), "{log}");
    assert_eq!(said(&log), ["of the pod", "end"]);
}

#[test]
fn a_link_in_place_of_a_volume_leads_nowhere_outside() {
    let mut shim = Shim::new();
    symlink(shim.path("outside"), shim.path("image/data")).unwrap();
    symlink("/proc", shim.path("image/proc-link")).unwrap();
    let script =
        "touch /data/made; cat /proc/timer_list; echo 1 > /proc/sys/kernel/panic || echo withheld";
    let (_, log) = shim.run(read_only(&shim, &["/data", "/proc-link"], script));
    assert_eq!(said(&log).last(), Some(&"withheld"), "{log}");
    assert!(!log.contains("Timer List"), "{log}");
    shim.assert_outside_is_untouched();
}

#[test]
fn a_volume_that_is_the_root_is_refused() {
    let mut shim = Shim::new();
    symlink("/", shim.path("image/all")).unwrap();
    let failure = shim.create(read_only(&shim, &["/all"], "true")).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Config);
    assert_eq!(failure.problem, "the image's volume \"/all\" is its root");
}
