//! Ports and files of a pod that get in each other's way, in the words of upstream's warnings.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerPort, PodSpec, Volume};

use crate::validation::{Path, items, text};

/// The most earlier ports, or files of a volume, that one is compared with.
const COMPARED_MAX: usize = 64;

/// The first `most` warnings about ports.
pub(super) fn ports(spec: &PodSpec, field: &Path, most: usize) -> Vec<String> {
    let lists = [
        ("initContainers", items(spec.init_containers.as_ref())),
        ("containers", spec.containers.as_slice()),
    ];
    let mut earlier: BTreeMap<(i32, &str), Vec<(&ContainerPort, Path)>> = BTreeMap::new();
    let mut warnings = Vec::new();
    for (list, containers) in lists {
        for (index, container) in containers.iter().enumerate() {
            let field = field.child(list).index(index).child("ports");
            for (index, port) in items(container.ports.as_ref()).iter().enumerate() {
                if warnings.len() >= most {
                    warnings.truncate(most);
                    return warnings;
                }
                let field = field.index(index);
                warnings.extend(unused_address(port, &field));
                let key = (port.container_port, text(port.protocol.as_ref()));
                let alike = earlier.entry(key).or_default();
                warnings.extend(alike.iter().filter_map(|(other, place)| {
                    let conflict = port_conflict(port, other)?;
                    Some(format!("{field}: {conflict} port definition with {place}"))
                }));
                if alike.len() < COMPARED_MAX {
                    alike.push((port, field));
                }
            }
        }
    }
    warnings.truncate(most);
    warnings
}

fn unused_address(port: &ContainerPort, field: &Path) -> Option<String> {
    let address = text(port.host_ip.as_ref());
    let is_unused = port.host_port.unwrap_or_default() == 0 && !address.is_empty();
    is_unused.then(|| {
        let (name, protocol) = (text(port.name.as_ref()), text(port.protocol.as_ref()));
        let number = port.container_port;
        // upstream prints the port in the form of its own language
        format!(
            "{field}: hostIP set without hostPort: {{Name:{name} HostPort:0 \
             ContainerPort:{number} Protocol:{protocol} HostIP:{address}}}"
        )
    })
}

/// How a port gets in the way of an earlier one with its number and protocol.
fn port_conflict(port: &ContainerPort, earlier: &ContainerPort) -> Option<&'static str> {
    let of_host = |port: &ContainerPort| port.host_port.unwrap_or_default();
    let (new, old) = (of_host(port), of_host(earlier));
    let addresses = [text(port.host_ip.as_ref()), text(earlier.host_ip.as_ref())];
    if new == old && addresses[0] == addresses[1] {
        Some("duplicate")
    } else if new == 0 || old == 0 {
        Some("overlapping")
    } else if new == old && addresses.contains(&"") {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

/// A file that a volume makes.
struct VolumeFile<'v> {
    path: &'v str,
    /// What of a projected volume makes it, as a warning shows it.
    source: String,
}

/// The first `most` warnings about files of volumes.
pub(super) fn files(spec: &PodSpec, most: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    for volume in items(spec.volumes.as_ref()) {
        let Some((kind, files)) = files_of(volume) else { continue };
        let name = &volume.name;
        for (index, file) in files.iter().enumerate() {
            if warnings.len() >= most {
                break;
            }
            let earlier = files[..index].iter().take(COMPARED_MAX);
            warnings.extend(earlier.filter(|other| is_within(file.path, other.path)).map(
                |other| {
                    let shown = |file: &VolumeFile<'_>| format!("{:?}{}", file.path, file.source);
                    let (new, old) = (shown(file), shown(other));
                    format!("volume {name:?} ({kind}): overlapping paths: {new} with {old}")
                },
            ));
        }
    }
    warnings.truncate(most);
    warnings
}

/// Whether one of two paths is the other, or leads through it.
fn is_within(one: &str, other: &str) -> bool {
    let leads_through = |long: &str, short: &str| {
        long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    leads_through(one, other) || leads_through(other, one)
}

/// A file of a volume with one source.
fn plain(path: &str) -> VolumeFile<'_> {
    VolumeFile { path, source: String::new() }
}

/// What a volume is called in a warning, and the files that it names.
fn files_of(volume: &Volume) -> Option<(String, Vec<VolumeFile<'_>>)> {
    if let Some(map) = &volume.config_map {
        let files = items(map.items.as_ref()).iter().map(|key| plain(&key.path));
        Some((format!("ConfigMap {:?}", map.name), files.collect()))
    } else if let Some(secret) = &volume.secret {
        let files = items(secret.items.as_ref()).iter().map(|key| plain(&key.path));
        Some((format!("Secret {:?}", text(secret.secret_name.as_ref())), files.collect()))
    } else if let Some(api) = &volume.downward_api {
        let files = items(api.items.as_ref()).iter().map(|file| plain(&file.path));
        Some(("DownwardAPI".to_owned(), files.collect()))
    } else {
        volume.projected.as_ref().map(|_| ("Projected".to_owned(), projected_files(volume)))
    }
}

fn projected_files(volume: &Volume) -> Vec<VolumeFile<'_>> {
    let sources = volume.projected.as_ref().and_then(|projected| projected.sources.as_ref());
    let files = items(sources).iter().flat_map(|source| {
        let (source, paths): (String, Vec<&str>) = if let Some(map) = &source.config_map {
            let keys = items(map.items.as_ref()).iter();
            (format!("ConfigMap {:?}", map.name), keys.map(|key| key.path.as_str()).collect())
        } else if let Some(secret) = &source.secret {
            let keys = items(secret.items.as_ref()).iter();
            (format!("Secret {:?}", secret.name), keys.map(|key| key.path.as_str()).collect())
        } else if let Some(api) = &source.downward_api {
            let files = items(api.items.as_ref()).iter();
            ("DownwardAPI".to_owned(), files.map(|file| file.path.as_str()).collect())
        } else {
            let token = source.service_account_token.iter();
            ("ServiceAccountToken".to_owned(), token.map(|token| token.path.as_str()).collect())
        };
        let source = format!(" ({source})");
        paths.into_iter().map(move |path| VolumeFile { path, source: source.clone() })
    });
    files.collect()
}
