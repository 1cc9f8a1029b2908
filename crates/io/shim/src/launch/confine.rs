//! What the process may do: user, groups, capabilities, no_new_privs, seccomp. The same at every
//! start.

use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::problem::FailureContext;
use crate::protocol::{Confinement, PrivilegeEscalation, ShimFailure};
use crate::report::ProcessIdentity;
use crate::sys;
use crate::users::close_again;

/// Capabilities that any kernel may know.
const CAPABILITIES_MAX: u32 = 63;

/// Confines the calling process for good.
pub(crate) fn apply(
    confinement: &Confinement,
    identity: &ProcessIdentity,
) -> Result<(), ShimFailure> {
    let programs = decode_programs(&confinement.seccomp)?;
    limit_bounding_set(confinement.capabilities)?;
    match confinement.escalation {
        PrivilegeEscalation::Refused => {
            become_user(confinement, identity)?;
            rustix::thread::set_no_new_privs(true).setup(|| "set no_new_privs".to_owned())?;
            close_again()?;
            load(&programs)
        }
        // Without no_new_privs a filter needs CAP_SYS_ADMIN, so it comes before that is gone.
        PrivilegeEscalation::Allowed => {
            load(&programs)?;
            become_user(confinement, identity)?;
            close_again()
        }
    }
}

fn load(programs: &[Vec<u64>]) -> Result<(), ShimFailure> {
    programs.iter().try_for_each(|program| {
        sys::load_seccomp(program).setup(|| "load the seccomp profile".to_owned())
    })
}

fn decode_programs(texts: &[String]) -> Result<Vec<Vec<u64>>, ShimFailure> {
    let decode = |text: &String| -> Option<Vec<u64>> {
        text.as_bytes()
            .chunks(16)
            .map(|word| u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok())
            .collect()
    };
    texts.iter().map(decode).collect::<Option<_>>().ok_or_else(|| {
        let problem = "the seccomp profile is not written in hex digits";
        ShimFailure::new(crate::protocol::FailureKind::Setup, problem)
    })
}

fn limit_bounding_set(capabilities: u64) -> Result<(), ShimFailure> {
    for number in 0..=CAPABILITIES_MAX {
        let bit = CapabilitySet::from_bits_retain(1 << number);
        if capabilities & bit.bits() != 0 {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(bit) {
            Err(rustix::io::Errno::INVAL) => break, // beyond the last one that this kernel knows
            result => result.setup(|| format!("drop capability {number}"))?,
        }
    }
    Ok(())
}

/// Another user than root loses all capabilities by the kernel's own rule; root keeps those of the
/// plan.
fn become_user(confinement: &Confinement, identity: &ProcessIdentity) -> Result<(), ShimFailure> {
    let groups: Vec<Gid> = identity.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    rustix::thread::set_thread_groups(&groups).setup(|| "set the groups".to_owned())?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).setup(|| "set the group".to_owned())?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).setup(|| "set the user".to_owned())?;
    let held = if identity.uid == 0 {
        // Never more than this process has itself: an engine in a container may lack some.
        let own = rustix::thread::capabilities(None).setup(|| "read capabilities".to_owned())?;
        CapabilitySet::from_bits_retain(confinement.capabilities) & own.permitted
    } else {
        CapabilitySet::empty()
    };
    let sets =
        CapabilitySets { effective: held, permitted: held, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).setup(|| "set the capabilities".to_owned())
}
