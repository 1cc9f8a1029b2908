//! What a container may reach of the node's devices. Needs root.
#![allow(missing_docs, clippy::disallowed_methods, reason = "it drives a real process")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod shim;

use rekindle_shim::protocol::*;
use shim::Shim;

#[test]
fn who_could_open_the_nodes_devices_has_a_cgroup_that_withholds_them_or_is_refused() {
    let mut shim = Shim::new();
    let mut may_mount = shim.plan("true");
    may_mount.confinement.capabilities |= 1 << 21;
    let mut follows = shim.plan("true");
    let options =
        MountOptions { propagation: Propagation::HostToContainer, ..MountOptions::default() };
    follows.mounts = vec![MountPlan { options, ..shim.volume(None, "/volume") }];
    for (plan, why) in [(may_mount, "CAP_SYS_ADMIN"), (follows, "mountPropagation")] {
        assert_eq!(plan.cgroup.unified, None);
        let failure = shim.create(plan).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Config, "{failure:?}");
        assert!(failure.problem.starts_with(&format!("{why}: the node's devices")), "{failure:?}");
    }
}
