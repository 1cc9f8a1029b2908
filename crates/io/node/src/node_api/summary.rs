//! `/stats/summary`: the Summary of `k8s.io/kubelet/pkg/apis/stats/v1alpha1`, field by field.

use rekindle_net::InterfaceCounters;
use rekindle_runtime::CgroupUsage;
use rekindle_types::Tick;
use serde_json::{Map, Value, json};

use super::claims::ClaimUsage;
use crate::usage::{
    ContainerUsage, CpuConsumer, CpuRates, FileSystemUsage, NodeUsage, PodUsage, TreeMeasurement,
    UsageScope, VolumeUsage,
};

/// Everything; with `UsageScope::Processes` the short form that has CPU and memory only.
pub(super) fn summary(
    node: &str,
    usage: &NodeUsage,
    claims: &[ClaimUsage],
    rates: &CpuRates,
    scope: UsageScope,
) -> Value {
    let pods = usage.pods.iter().filter(|pod| pod.sandbox.is_some());
    let pods: Vec<Value> = pods
        .map(|found| {
            let own = claims.iter().filter(|claim| claim.pod.uid == found.pod_ref.uid);
            let own = own.map(claimed_volume).collect();
            pod(usage, found, own, rates, scope)
        })
        .collect();
    json!({"node": machine(node, usage, rates, scope), "pods": pods})
}

fn time(at: Tick) -> Value {
    json!(at.to_time())
}

fn put(fields: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        fields.insert(name.to_owned(), value);
    }
}

/// `cpu`, `memory` and, where it is accounted for, nothing else.
fn put_processes(
    fields: &mut Map<String, Value>,
    usage: Option<&CgroupUsage>,
    nanocores: Option<u64>,
    available_bytes: Option<u64>,
) {
    let Some(usage) = usage else { return };
    let at = time(usage.taken_at);
    put(
        fields,
        "cpu",
        usage.cpu.map(|cpu| {
            let mut figures = Map::new();
            figures.insert("time".to_owned(), at.clone());
            put(&mut figures, "usageNanoCores", nanocores.map(Value::from));
            figures.insert("usageCoreNanoSeconds".to_owned(), cpu.usage_ns.into());
            Value::Object(figures)
        }),
    );
    let memory = usage.memory;
    let mut figures = json!({
        "time": at,
        "usageBytes": memory.usage_bytes,
        "workingSetBytes": memory.working_set_bytes,
        "rssBytes": memory.rss_bytes,
        "pageFaults": memory.page_faults,
        "majorPageFaults": memory.major_page_faults,
    });
    if let Some(bytes) = available_bytes {
        figures["availableBytes"] = bytes.into();
    }
    fields.insert("memory".to_owned(), figures);
}

fn machine(name: &str, usage: &NodeUsage, rates: &CpuRates, scope: UsageScope) -> Value {
    let node = &usage.node;
    let mut fields = Map::new();
    fields.insert("nodeName".to_owned(), name.into());
    put(&mut fields, "startTime", node.started_at.map(time));
    let nanocores = rates.nanocores(&CpuConsumer::Machine);
    put_processes(&mut fields, Some(&node.cgroup), nanocores, Some(node.memory_available_bytes));
    if scope == UsageScope::Everything {
        put(&mut fields, "network", network(&node.network, usage.taken_at));
        fields.insert("fs".to_owned(), file_system(&node.node_fs));
        let image_fs = FileSystemUsage {
            used_bytes: node.image_bytes.unwrap_or(node.image_fs.used_bytes),
            ..node.image_fs
        };
        let container_fs = file_system(&node.node_fs);
        fields.insert(
            "runtime".to_owned(),
            json!({"imageFs": file_system(&image_fs), "containerFs": container_fs}),
        );
    }
    fields.insert(
        "rlimit".to_owned(),
        json!({
            "time": time(usage.taken_at),
            "maxpid": node.processes.max,
            "curproc": node.processes.running,
        }),
    );
    Value::Object(fields)
}

fn pod(
    usage: &NodeUsage,
    pod: &PodUsage,
    claimed: Vec<Value>,
    rates: &CpuRates,
    scope: UsageScope,
) -> Value {
    let node_fs = &usage.node.node_fs;
    let reference = &pod.pod_ref;
    let mut fields = Map::new();
    fields.insert(
        "podRef".to_owned(),
        json!({
            "name": reference.name,
            "namespace": reference.namespace,
            "uid": reference.uid.0,
        }),
    );
    let started_at = pod.containers.iter().filter_map(|container| container.started_at).min();
    put(&mut fields, "startTime", started_at.map(time));
    let containers = pod.containers.iter().filter(|container| container.cgroup.is_some());
    let containers: Vec<Value> = containers.map(|found| container(found, node_fs, rates)).collect();
    fields.insert("containers".to_owned(), containers.into());
    let nanocores = rates.nanocores(&CpuConsumer::Pod(&reference.uid.0));
    put_processes(&mut fields, pod.cgroup.as_ref(), nanocores, None);
    if scope == UsageScope::Everything {
        put(&mut fields, "network", network(&pod.network, usage.taken_at));
        let volumes: Vec<Value> = pod.volumes.iter().map(volume).chain(claimed).collect();
        if !volumes.is_empty() {
            fields.insert("volume".to_owned(), volumes.into());
        }
        let storage = pod.ephemeral_storage.as_ref().map(|found| share(node_fs, found));
        put(&mut fields, "ephemeral-storage", storage);
    }
    let processes = pod.cgroup.and_then(|cgroup| cgroup.pids);
    put(&mut fields, "process_stats", processes.map(|count| json!({"process_count": count})));
    Value::Object(fields)
}

fn container(usage: &ContainerUsage, node_fs: &FileSystemUsage, rates: &CpuRates) -> Value {
    let mut fields = Map::new();
    fields.insert("name".to_owned(), usage.name.0.clone().into());
    put(&mut fields, "startTime", usage.started_at.map(time));
    let nanocores = rates.nanocores(&CpuConsumer::Container(&usage.id));
    put_processes(&mut fields, usage.cgroup.as_ref(), nanocores, None);
    put(&mut fields, "rootfs", usage.layer.as_ref().map(|found| share(node_fs, found)));
    put(&mut fields, "logs", usage.logs.as_ref().map(|found| share(node_fs, found)));
    Value::Object(fields)
}

fn file_system(found: &FileSystemUsage) -> Value {
    json!({
        "time": time(found.taken_at),
        "availableBytes": found.available_bytes,
        "capacityBytes": found.capacity_bytes,
        "usedBytes": found.used_bytes,
        "inodesFree": found.inodes_free,
        "inodes": found.inodes,
        "inodesUsed": found.inodes_used(),
    })
}

/// What takes a part of a file system.
fn share(of: &FileSystemUsage, found: &TreeMeasurement) -> Value {
    let mut value = file_system(of);
    value["time"] = time(found.taken_at);
    value["usedBytes"] = found.usage.bytes.into();
    value["inodesUsed"] = found.usage.inodes.into();
    value
}

fn volume(found: &VolumeUsage) -> Value {
    let mut value = share(&found.file_system, &found.usage);
    value["name"] = found.name.clone().into();
    value
}

/// Of these the file system as a whole is told: nobody walks through what may be large and others'
/// too.
pub(super) fn claimed_volume(found: &ClaimUsage) -> Value {
    let mut value = file_system(&found.file_system);
    value["name"] = found.volume.clone().into();
    value["pvcRef"] = json!({"name": found.claim, "namespace": found.pod.namespace});
    value
}

/// The first interface by itself, and all of them.
fn network(interfaces: &[InterfaceCounters], at: Tick) -> Option<Value> {
    let one = |found: &InterfaceCounters| {
        json!({
            "name": found.name,
            "rxBytes": found.rx_bytes,
            "rxErrors": found.rx_errors,
            "txBytes": found.tx_bytes,
            "txErrors": found.tx_errors,
        })
    };
    let default = interfaces.iter().find(|found| found.name == "eth0").or(interfaces.first())?;
    let mut value = one(default);
    value["time"] = time(at);
    value["interfaces"] = interfaces.iter().map(one).collect();
    Some(value)
}
