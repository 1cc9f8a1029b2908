//! Ephemeral containers, which the API describes by a type of their own with the fields of a
//! container and one more.

use k8s_openapi::api::core::v1::{Container, EphemeralContainer};

/// Takes one type apart and makes the other of its fields. The patterns have no `..`: a field that
/// a later version of the API adds to either does not compile until it is named here.
macro_rules! convert {
    ($from:expr, $source:ident $({ $dropped:ident: _ })? => $target:ident $({ $added:ident: $value:expr })?) => {{
        convert!(@fields $from, $source, [$($dropped: _,)?] => $target, [$($added: $value,)?];
            args, command, env, env_from, image, image_pull_policy, lifecycle, liveness_probe, name, ports,
            readiness_probe, resize_policy, resources, restart_policy, restart_policy_rules, security_context,
            startup_probe, stdin, stdin_once, termination_message_path, termination_message_policy, tty,
            volume_devices, volume_mounts, working_dir)
    }};
    (@fields $from:expr, $source:ident, [$($dropped:tt)*] => $target:ident, [$($added:tt)*]; $($field:ident),+) => {{
        let $source { $($field,)+ $($dropped)* } = $from;
        $target { $($field,)+ $($added)* }
    }};
}

/// An ephemeral container as the container that it is; what it lacks is `targetContainerName`.
pub fn as_container(ephemeral: &EphemeralContainer) -> Container {
    convert!(ephemeral.clone(), EphemeralContainer { target_container_name: _ } => Container)
}

/// The other way, with the target.
pub fn ephemeral_container(container: Container, target: Option<String>) -> EphemeralContainer {
    convert!(container, Container => EphemeralContainer { target_container_name: target })
}
