//! How much an engine stores, and how.

use clap::Args;
use rekindle_store::StoreLimits;
use rekindle_types::quantity::Quantity;

use super::EncryptionArgs;

/// Less than this would not hold what every cluster has.
const LIMIT_BYTES_MIN: usize = 1 << 20;
/// The part of the machine's memory, as its reciprocal, that objects may take.
const PART_OF_MEMORY: u64 = 4;

/// The store.
#[derive(Args, Clone, Debug, Default)]
pub struct StoreArgs {
    /// How large all API objects may be together, such as 512Mi; beyond, nothing new is taken
    /// [default: a quarter of the machine's memory, at most 2Gi]
    #[arg(long, value_name = "SIZE", value_parser = limit_bytes)]
    pub store_limit: Option<usize>,
    #[command(flatten)]
    pub encryption: EncryptionArgs,
}

impl StoreArgs {
    /// The limits of the store on this machine.
    pub fn limits(&self) -> StoreLimits {
        let memory = rustix::system::sysinfo();
        let memory = memory.totalram.saturating_mul(u64::from(memory.mem_unit));
        let part = usize::try_from(memory / PART_OF_MEMORY).unwrap_or(usize::MAX);
        let default = part.min(StoreLimits::DEFAULT.total_bytes_max);
        StoreLimits { total_bytes_max: self.store_limit.unwrap_or(default), ..StoreLimits::DEFAULT }
    }
}

fn limit_bytes(text: &str) -> Result<usize, String> {
    let size: Quantity = text.parse().map_err(|error| format!("{error}"))?;
    let bytes = usize::try_from(size.units()).unwrap_or_default();
    if bytes >= LIMIT_BYTES_MIN { Ok(bytes) } else { Err("give at least 1Mi".to_owned()) }
}
