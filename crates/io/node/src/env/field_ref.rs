//! `fieldRef`: the pod's own fields, as variables and as files of a downward API volume.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::Pod;

/// What of a pod is not in its spec.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodFacts {
    /// The pod's addresses, the first being `status.podIP`.
    pub pod_ips: Vec<IpAddr>,
    /// The node's addresses, the first being `status.hostIP`.
    pub host_ips: Vec<IpAddr>,
    /// Where the pod reaches the API, if it does.
    pub api: Option<SocketAddr>,
}

/// A path that the downward API does not offer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported fieldPath: {0}")]
pub(crate) struct FieldRefError(pub String);

/// The text of one field. Source: the API reference of `ObjectFieldSelector`, and of the downward
/// API.
pub(crate) fn downward_field(
    pod: &Pod,
    facts: &PodFacts,
    path: &str,
) -> Result<String, FieldRefError> {
    let meta = &pod.metadata;
    if let Some(key) = subscript(path, "metadata.labels") {
        return Ok(lookup(meta.labels.as_ref(), key));
    }
    if let Some(key) = subscript(path, "metadata.annotations") {
        return Ok(lookup(meta.annotations.as_ref(), key));
    }
    let spec = pod.spec.as_ref();
    let text = |value: Option<&String>| value.cloned().unwrap_or_default();
    Ok(match path {
        "metadata.name" => text(meta.name.as_ref()),
        "metadata.namespace" => text(meta.namespace.as_ref()),
        "metadata.uid" => text(meta.uid.as_ref()),
        "metadata.labels" => format_map(meta.labels.as_ref()),
        "metadata.annotations" => format_map(meta.annotations.as_ref()),
        "spec.nodeName" => text(spec.and_then(|spec| spec.node_name.as_ref())),
        "spec.serviceAccountName" => text(spec.and_then(|spec| spec.service_account_name.as_ref())),
        "status.podIP" => first(&facts.pod_ips),
        "status.podIPs" => joined(&facts.pod_ips),
        "status.hostIP" => first(&facts.host_ips),
        "status.hostIPs" => joined(&facts.host_ips),
        other => return Err(FieldRefError(other.to_owned())),
    })
}

/// The key of `prefix['key']`.
fn subscript<'p>(path: &'p str, prefix: &str) -> Option<&'p str> {
    path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']")
}

fn lookup(map: Option<&BTreeMap<String, String>>, key: &str) -> String {
    map.and_then(|map| map.get(key)).cloned().unwrap_or_default()
}

fn first(ips: &[IpAddr]) -> String {
    ips.first().map(ToString::to_string).unwrap_or_default()
}

fn joined(ips: &[IpAddr]) -> String {
    ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// One `key="value"` a line, sorted by key, the value quoted as Go quotes a string (the kubelet's
/// own format).
fn format_map(map: Option<&BTreeMap<String, String>>) -> String {
    let mut out = String::new();
    for (key, value) in map.into_iter().flatten() {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(key);
        out.push('=');
        quote(value, &mut out);
    }
    out
}

/// As `strconv.Quote`: printable characters stay, the others become escapes.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{07}' => out.push_str("\\a"),
            '\u{08}' => out.push_str("\\b"),
            '\u{0c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{0b}' => out.push_str("\\v"),
            c if c < ' ' || c == '\u{7f}' => {
                // writing to a String cannot fail
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
