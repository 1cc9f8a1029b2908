//! What a container may reach of the node's devices and cgroups. Needs root, and the unified cgroup
//! hierarchy.

use std::fs;

use rekindle_shim::protocol::*;

use crate::shim::{Group, Shim};

#[test]
fn who_could_open_the_nodes_devices_has_a_cgroup_that_withholds_them_or_is_refused() {
    let mut shim = Shim::new();
    let mut may_mount = shim.plan("true");
    may_mount.confinement.capabilities |= 1 << 21;
    let mut follows = shim.plan("true");
    let options =
        MountOptions { propagation: MountPropagation::HostToContainer, ..MountOptions::default() };
    follows.mounts = vec![MountPlan { options, ..shim.volume(None, "/volume") }];
    for (plan, why) in [(may_mount, "CAP_SYS_ADMIN"), (follows, "mountPropagation")] {
        assert_eq!(plan.cgroup.unified, None);
        let failure = shim.create(plan).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Config, "{failure:?}");
        assert!(failure.problem.starts_with(&format!("{why}: the node's devices")), "{failure:?}");
    }
}

#[test]
fn a_privileged_container_makes_groups_in_its_cgroup_and_others_see_theirs_only() {
    let mut shim = Shim::new();
    let group = Group::new("view");
    for (privilege, expected) in
        [(Privilege::Confined, "read-only"), (Privilege::Privileged, "made")]
    {
        let mut plan = shim.plan(
            "test -e /sys/fs/cgroup/cgroup.procs || exit 1; cd /sys/fs/cgroup; \
             mkdir made 2>/dev/null && echo made || echo read-only",
        );
        plan.confinement.privilege = privilege;
        plan.cgroup.unified = Some(group.text());
        plan.cgroup.view = CgroupView::Unified;
        let (cause, log) = shim.run(plan);
        assert_eq!(cause, ExitCause::Code(0), "{log}");
        assert!(log.trim_end().ends_with(expected), "{privilege:?}: {log}");
        assert_eq!(group.0.join("made").exists(), privilege == Privilege::Privileged);
    }
}

/// It takes a controller that no hierarchy of version 1 has.
#[test]
fn a_further_command_of_a_container_that_divides_its_cgroup_is_beside_the_first_process() {
    let mut shim = Shim::new();
    let group = Group::new("divided");
    let hierarchy = group.0.parent().unwrap();
    let controllers = fs::read_to_string(hierarchy.join("cgroup.controllers")).unwrap();
    let controller = controllers.split_whitespace().last().expect("there is a controller");
    let hand_on = format!("+{controller}");
    fs::write(hierarchy.join("cgroup.subtree_control"), &hand_on).unwrap();
    let mut plan = shim.plan(&format!(
        "cd /sys/fs/cgroup && mkdir made && echo $$ > made/cgroup.procs && \
         echo {hand_on} > cgroup.subtree_control && touch /dev/shm/divided && exec sleep 1000"
    ));
    plan.confinement.privilege = Privilege::Privileged;
    plan.cgroup.unified = Some(group.text());
    plan.cgroup.view = CgroupView::Unified;
    let slot = plan.slot.clone();
    shim.create(plan).unwrap();
    let Ok(ShimAnswer::Started { pid, .. }) = shim.call(ShimRequest::Start { slot: slot.clone() })
    else {
        panic!("it does not start");
    };
    let mark = format!("/proc/{pid}/root/dev/shm/divided");
    let mut looks = 0;
    while !fs::exists(&mark).unwrap() {
        looks += 1;
        assert!(looks < 1_000_000, "it has not divided its cgroup");
        std::thread::yield_now();
    }
    let script = "grep -q '/made$' /proc/self/cgroup";
    let [stdin, stdout, stderr] = [FileSource::Null; 3];
    let files = ExecFiles::Given { stdin, stdout, stderr };
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let exec = ShimRequest::Exec(Box::new(ExecPlan { id: 1, slot: slot.clone(), argv, files }));
    assert_eq!(shim.call(exec), Ok(ShimAnswer::Done));
    match shim.next() {
        ShimMessage::ExecEnded { id: 1, cause } => assert_eq!(cause, ExitCause::Code(0)),
        message => panic!("{message:?}"),
    }
    shim.call(ShimRequest::Signal { slot, signal: 9 }).unwrap();
    assert!(matches!(shim.next(), ShimMessage::Exited { .. }));
}
