//! The Node object and its Lease: what the machine has, whether it is well, and that the agent
//! lives.

mod conditions;
mod heartbeat;
mod lease;
mod machine;
mod object;
#[cfg(test)]
mod tests;

pub(crate) use conditions::NodeFitness;
pub(crate) use heartbeat::Heartbeat;
pub(crate) use machine::{MachineFacts, memory_bytes};
