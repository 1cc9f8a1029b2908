//! What the machine is and has.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::NodeSystemInfo;
use rekindle_types::Quantity;

use crate::agent::Config;
use crate::env::Allocatable;

/// Pods of one node, as a kubelet's default.
const PODS_MAX: i64 = 110;
/// Bytes of memory kept free before pods are evicted (the kubelet's default hard threshold): not given to pods.
const MEMORY_RESERVED: i64 = 100 * 1024 * 1024;

/// What does not change while the agent runs.
#[derive(Clone, Debug)]
pub(crate) struct MachineFacts {
    pub(crate) capacity: BTreeMap<String, Quantity>,
    pub(crate) allocatable: BTreeMap<String, Quantity>,
    pub(crate) info: NodeSystemInfo,
    pub(crate) data_dir: PathBuf,
}

impl MachineFacts {
    /// Looks at the machine.
    pub(crate) fn read(config: &Config) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let memory_bytes = memory().total_bytes;
        let disk_bytes = disk(&config.data_dir).map_or(0, |disk| disk.total_bytes);
        let whole = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
        let mut capacity = BTreeMap::from([
            ("cpu".to_owned(), Quantity::from_units(i64::try_from(cpus).unwrap_or(1))),
            ("memory".to_owned(), Quantity::from_bytes(whole(memory_bytes))),
            ("ephemeral-storage".to_owned(), Quantity::from_bytes(whole(disk_bytes))),
            ("pods".to_owned(), Quantity::from_units(PODS_MAX)),
        ]);
        for (name, amount) in &config.capacity {
            match amount.parse() {
                Ok(amount) => {
                    capacity.insert(name.clone(), amount);
                }
                Err(error) => {
                    tracing::warn!(resource = name, amount, %error, "this capacity is not a quantity; the machine's own is used");
                }
            }
        }
        let allocatable = allocatable_of(&capacity);
        Self { capacity, allocatable, info: system_info(config), data_dir: config.data_dir.clone() }
    }

    /// What pods may have of it.
    pub(crate) fn allocatable(&self) -> Allocatable {
        Allocatable { resources: self.allocatable.clone() }
    }
}

/// The capacity without what the kubelet's eviction thresholds keep free.
fn allocatable_of(capacity: &BTreeMap<String, Quantity>) -> BTreeMap<String, Quantity> {
    let mut allocatable = capacity.clone();
    if let Some(memory) = allocatable.get_mut("memory") {
        *memory = Quantity::from_bytes((memory.units() - MEMORY_RESERVED).max(0));
    }
    if let Some(storage) = allocatable.get_mut("ephemeral-storage") {
        *storage = Quantity::from_bytes(storage.units() / 10 * 9);
    }
    allocatable
}

/// Memory of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) total_bytes: u64,
    pub(crate) available_bytes: u64,
}

pub(crate) fn memory() -> Memory {
    parse_memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

/// Reads the text of /proc/meminfo; what is missing is 0.
pub(crate) fn parse_memory(text: &str) -> Memory {
    let kilobytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    Memory {
        total_bytes: kilobytes("MemTotal") * 1024,
        available_bytes: kilobytes("MemAvailable") * 1024,
    }
}

/// The file system of the data folder.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) total_bytes: u64,
    pub(crate) available_bytes: u64,
    pub(crate) inodes: u64,
    pub(crate) inodes_free: u64,
}

pub(crate) fn disk(path: &std::path::Path) -> Option<Disk> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(Disk {
        total_bytes: found.f_blocks * found.f_frsize,
        available_bytes: found.f_bavail * found.f_frsize,
        inodes: found.f_files,
        inodes_free: found.f_favail,
    })
}

fn system_info(config: &Config) -> NodeSystemInfo {
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
