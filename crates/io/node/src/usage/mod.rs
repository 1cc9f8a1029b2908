//! What the node and its pods use: read when somebody asks, never by a timer of its own.
//!
//! ```text
//! who asks ──► UsageReader::take(scope) ──► Runtime::usage (cgroups)          every time
//!                                      ├──► walks (layers, logs, volumes)     kept for a while, with the time they were taken
//!                                      └──► file systems, /proc              every time
//! ```

mod files;
mod machine;
mod rates;
mod read;
mod snapshot;
#[cfg(test)]
mod tests;
mod walks;

pub(crate) use files::file_system;
pub(crate) use rates::{CpuConsumer, CpuRates, CpuSampler};
pub use read::{UsageReader, UsageScope};
pub use snapshot::{
    ContainerUsage, FileSystemUsage, MachineUsage, NodeUsage, PodUsage, ProcessUsage,
    TreeMeasurement, VolumeMedium, VolumeUsage,
};
