//! What the machine is and has.

use std::collections::BTreeMap;
use std::fs;

use k8s_openapi::api::core::v1::NodeSystemInfo;
use rekindle_types::Quantity;

use crate::config::NodeConfig;
use crate::env::Allocatable;
use crate::eviction::{EvictionPolicy, EvictionSignal};

/// What does not change while the agent runs.
#[derive(Clone, Debug)]
pub(crate) struct MachineFacts {
    pub(crate) capacity: BTreeMap<String, Quantity>,
    pub(crate) allocatable: BTreeMap<String, Quantity>,
    pub(crate) info: NodeSystemInfo,
}

impl MachineFacts {
    /// Looks at the machine.
    pub(crate) fn read(config: &NodeConfig) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let memory_bytes = memory_bytes();
        let disk_bytes = disk_bytes(&config.data_dir);
        let whole = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
        let mut capacity = BTreeMap::from([
            ("cpu".to_owned(), Quantity::from_units(i64::try_from(cpus).unwrap_or(1))),
            ("memory".to_owned(), Quantity::from_bytes(whole(memory_bytes))),
            ("ephemeral-storage".to_owned(), Quantity::from_bytes(whole(disk_bytes))),
            ("pods".to_owned(), Quantity::from_units(i64::from(config.max_pods))),
        ]);
        for (name, amount) in &config.capacity {
            match amount.parse() {
                Ok(amount) => {
                    capacity.insert(name.clone(), amount);
                }
                Err(error) => {
                    tracing::warn!(resource = name, amount, %error, "ignored a capacity that is not a quantity; using the machine's own");
                }
            }
        }
        let allocatable = allocatable_of(&capacity, &config.eviction);
        Self { capacity, allocatable, info: system_info(config) }
    }

    /// What pods may have of it.
    pub(crate) fn allocatable(&self) -> Allocatable {
        Allocatable { resources: self.allocatable.clone() }
    }
}

/// The capacity without what hard eviction thresholds keep free.
fn allocatable_of(
    capacity: &BTreeMap<String, Quantity>,
    eviction: &EvictionPolicy,
) -> BTreeMap<String, Quantity> {
    let mut allocatable = capacity.clone();
    for (resource, signal) in [
        ("memory", EvictionSignal::MemoryAvailable),
        ("ephemeral-storage", EvictionSignal::NodeFsAvailable),
    ] {
        if let Some(amount) = allocatable.get_mut(resource) {
            let bytes = u64::try_from(amount.units()).unwrap_or(0);
            let left = bytes.saturating_sub(eviction.reserved(signal, bytes));
            *amount = Quantity::from_bytes(i64::try_from(left).unwrap_or(i64::MAX));
        }
    }
    allocatable
}

/// Bytes of memory that the machine has: MemTotal of /proc/meminfo, without the kernel counting all
/// else that stands there.
pub(crate) fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(u64::from(info.mem_unit))
}

/// Bytes of the file system that `path` lies on.
fn disk_bytes(path: &std::path::Path) -> u64 {
    rustix::fs::statvfs(path).map_or(0, |found| found.f_blocks.saturating_mul(found.f_frsize))
}

fn system_info(config: &NodeConfig) -> NodeSystemInfo {
    let uname = rustix::system::uname();
    let first_line = |path: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().next().unwrap_or_default().trim().to_owned()
    };
    NodeSystemInfo {
        architecture: architecture().to_owned(),
        boot_id: first_line("/proc/sys/kernel/random/boot_id"),
        container_runtime_version: format!("rekindle://{}", env!("CARGO_PKG_VERSION")),
        kernel_version: uname.release().to_string_lossy().into_owned(),
        kube_proxy_version: String::new(), // deprecated upstream, and always empty there
        kubelet_version: config.version.clone(),
        machine_id: first_line("/etc/machine-id"),
        operating_system: "linux".to_owned(),
        os_image: os_image(),
        system_uuid: first_line("/sys/class/dmi/id/product_uuid"),
        ..NodeSystemInfo::default()
    }
}

/// As Go and Kubernetes name it.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn os_image() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| "Linux".to_owned(), |name| name.trim_matches('"').to_owned())
}
