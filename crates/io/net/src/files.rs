//! The text of /etc/hosts, /etc/resolv.conf and /etc/hostname of a pod, in the form that the
//! kubelet and containerd give them: pure, but for [`host_resolver`]. What the text is made of may
//! come from a manifest, so it is checked and capped.

use std::net::IpAddr;
use std::path::Path;

/// Bytes of a file at most.
const FILE_MAX_BYTES: usize = 256 * 1024;
/// Bytes of the host's own /etc/hosts that a pod on its network gets at most.
pub const HOST_HOSTS_MAX_BYTES: usize = 128 * 1024;
/// Name servers that resolvers read (resolv.conf(5), and the kubelet's limit).
pub(crate) const NAMESERVERS_MAX: usize = 3;
/// Search domains, and bytes of them together, at most (the kubelet's limits).
const SEARCHES_MAX: usize = 32;
const SEARCHES_MAX_BYTES: usize = 2048;
/// The option that goes with cluster DNS.
const CLUSTER_OPTION: &str = "ndots:5";

/// Why a file cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// A value would break out of its line or field.
    #[error("{field}: {value:?} is empty or has a blank or a control character")]
    BadValue {
        /// Where it comes from, as `hostAliases.hostnames`.
        field: &'static str,
        /// The value.
        value: String,
    },
    /// Too much of it.
    #[error("{file} would have {bytes} bytes; 262144 are allowed")]
    TooLarge {
        /// Which file.
        file: &'static str,
        /// Its size.
        bytes: usize,
    },
}

/// An entry of `spec.hostAliases`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAlias {
    /// The address.
    pub ip: String,
    /// Its names.
    pub hostnames: Vec<String>,
}

/// /etc/hosts of a pod with addresses of its own. `subdomain` is what follows the hostname in its
/// full name (`web.shop.svc.cluster.local`), when `spec.subdomain` is set.
pub fn hosts(
    pod_ips: &[IpAddr],
    hostname: &str,
    subdomain: Option<&str>,
    aliases: &[HostAlias],
) -> Result<String, FileError> {
    check("hostname", hostname)?;
    let mut text = String::from(
        "# Kubernetes-managed hosts file.\n\
         127.0.0.1\tlocalhost\n\
         ::1\tlocalhost ip6-localhost ip6-loopback\n\
         fe00::0\tip6-localnet\n\
         fe00::0\tip6-mcastprefix\n\
         fe00::1\tip6-allnodes\n\
         fe00::2\tip6-allrouters\n",
    );
    let names = match subdomain {
        Some(subdomain) => {
            check("subdomain", subdomain)?;
            format!("{hostname}.{subdomain}\t{hostname}")
        }
        None => hostname.to_owned(),
    };
    for pod_ip in pod_ips {
        text.push_str(&format!("{pod_ip}\t{names}\n"));
    }
    push_aliases(&mut text, aliases)?;
    capped("/etc/hosts", text)
}

/// /etc/hosts of a pod on the host's network: the host's, of which what goes beyond
/// [`HOST_HOSTS_MAX_BYTES`] is left out, and the pod's aliases, as the kubelet does it.
pub fn hosts_of_host(host: &str, aliases: &[HostAlias]) -> Result<String, FileError> {
    let end = match host.char_indices().find(|(at, c)| at + c.len_utf8() > HOST_HOSTS_MAX_BYTES) {
        Some((at, _)) => host[..at].rfind('\n').map_or(0, |newline| newline + 1),
        None => host.len(),
    };
    let mut text = String::from("# Kubernetes-managed hosts file (host network).\n");
    text.push_str(&host[..end]);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    push_aliases(&mut text, aliases)?;
    capped("/etc/hosts", text)
}

fn push_aliases(text: &mut String, aliases: &[HostAlias]) -> Result<(), FileError> {
    if !aliases.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
    }
    for alias in aliases {
        check("hostAliases.ip", &alias.ip)?;
        text.push_str(&alias.ip);
        for name in &alias.hostnames {
            check("hostAliases.hostnames", name)?;
            text.push('\t');
            text.push_str(name);
        }
        text.push('\n');
    }
    Ok(())
}

/// /etc/hostname.
pub fn hostname(hostname: &str) -> Result<String, FileError> {
    check("hostname", hostname)?;
    capped("/etc/hostname", format!("{hostname}\n"))
}

/// What a resolv.conf says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvConf {
    /// Addresses of name servers, tried in this order.
    pub nameservers: Vec<String>,
    /// Domains tried for short names.
    pub searches: Vec<String>,
    /// As `ndots:5` or `use-vc`.
    pub options: Vec<String>,
}

/// `spec.dnsPolicy`, and what the host's network makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsPolicy {
    /// The host's resolver. Also what ClusterFirst means for a pod on the host's network.
    Default,
    /// Cluster DNS; the host's resolver when there is no cluster DNS, as the kubelet does it.
    ClusterFirst,
    /// Only what `spec.dnsConfig` says.
    None,
}

/// The cluster's DNS service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDnsConfig {
    /// Its addresses.
    pub nameservers: Vec<String>,
    /// The cluster's domain, as `cluster.local`.
    pub domain: String,
}

/// `spec.dnsConfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsConfig {
    /// Added to those of the policy.
    pub nameservers: Vec<String>,
    /// Added to those of the policy.
    pub searches: Vec<String>,
    /// Name and value; they replace those of the policy with the same name.
    pub options: Vec<(String, Option<String>)>,
}

/// A pod's resolver, and what was left out because resolvers read no more (the kubelet's event
/// DNSConfigForming).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodResolver {
    /// What goes into the file.
    pub resolver: ResolvConf,
    /// For people; empty when nothing was left out.
    pub omitted: Vec<String>,
}

/// A pod's resolver from its policy and config.
pub fn pod_resolver(
    policy: DnsPolicy,
    namespace: &str,
    config: &DnsConfig,
    host: &ResolvConf,
    cluster: Option<&ClusterDnsConfig>,
) -> PodResolver {
    let mut resolver = match (policy, cluster) {
        (DnsPolicy::None, _) => ResolvConf::default(),
        (DnsPolicy::Default, _) | (DnsPolicy::ClusterFirst, None) => host.clone(),
        (DnsPolicy::ClusterFirst, Some(cluster)) => {
            let domain = &cluster.domain;
            let mut searches =
                vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
            searches.extend(host.searches.iter().cloned());
            ResolvConf {
                nameservers: cluster.nameservers.clone(),
                searches,
                options: vec![CLUSTER_OPTION.to_owned()],
            }
        }
    };
    resolver.nameservers.extend(config.nameservers.iter().cloned());
    resolver.searches.extend(config.searches.iter().cloned());
    for (name, value) in &config.options {
        let option = match value {
            Some(value) if !value.is_empty() => format!("{name}:{value}"),
            Some(_) | None => name.clone(),
        };
        resolver.options.retain(|other| other.split(':').next() != Some(name));
        resolver.options.push(option);
    }
    once_each(&mut resolver.nameservers);
    once_each(&mut resolver.searches);
    within_limits(resolver)
}

/// The text of a resolv.conf, in containerd's order.
pub fn resolv_conf(resolver: &ResolvConf) -> Result<String, FileError> {
    let mut text = String::new();
    for (field, values) in [
        ("dnsConfig.searches", &resolver.searches),
        ("dnsConfig.nameservers", &resolver.nameservers),
        ("dnsConfig.options", &resolver.options),
    ] {
        for value in values {
            check(field, value)?;
        }
    }
    if !resolver.searches.is_empty() {
        text.push_str(&format!("search {}\n", resolver.searches.join(" ")));
    }
    for nameserver in &resolver.nameservers {
        text.push_str(&format!("nameserver {nameserver}\n"));
    }
    if !resolver.options.is_empty() {
        text.push_str(&format!("options {}\n", resolver.options.join(" ")));
    }
    capped("/etc/resolv.conf", text)
}

/// Reads a resolv.conf. As the C library does it, the last `search` wins, and `domain` counts as
/// one.
pub fn parse_resolv_conf(text: &str) -> ResolvConf {
    let mut resolver = ResolvConf::default();
    for line in text.lines() {
        let line = line.split(['#', ';']).next().unwrap_or_default();
        let mut fields = line.split_whitespace();
        let Some(keyword) = fields.next() else { continue };
        match keyword {
            "nameserver" => resolver.nameservers.extend(fields.next().map(str::to_owned)),
            "search" | "domain" => resolver.searches = fields.map(str::to_owned).collect(),
            "options" => resolver.options.extend(fields.map(str::to_owned)),
            // sortlist and what else there may be: the kubelet passes none of it on
            _ => {}
        }
    }
    resolver
}

/// The host's resolver as pods can use it. A stub on the loopback (systemd-resolved) is out of a
/// pod's reach: then the file that names the real servers is taken, where there is one. A host
/// without a resolver gives an empty one.
pub fn host_resolver() -> Result<ResolvConf, crate::NetError> {
    resolver_below(Path::new("/"))
}

/// The resolver that this file of the host describes: empty when there is none.
pub fn resolver_of(file: &Path) -> Result<ResolvConf, crate::NetError> {
    Ok(read_resolver(file)?.unwrap_or_default())
}

/// `None`: there is no such file.
fn read_resolver(file: &Path) -> Result<Option<ResolvConf>, crate::NetError> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(parse_resolv_conf(&text))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => {
            Err(crate::NetError::Io { operation: "read", path: file.to_owned(), source })
        }
    }
}

fn resolver_below(root: &Path) -> Result<ResolvConf, crate::NetError> {
    const BEHIND_THE_STUB: &str = "run/systemd/resolve/resolv.conf";
    let resolver = resolver_of(&root.join("etc/resolv.conf"))?;
    let on_loopback = |server: &String| server.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if !resolver.nameservers.is_empty() && resolver.nameservers.iter().all(on_loopback) {
        return Ok(read_resolver(&root.join(BEHIND_THE_STUB))?.unwrap_or(resolver));
    }
    Ok(resolver)
}

fn within_limits(mut resolver: ResolvConf) -> PodResolver {
    let mut omitted = Vec::new();
    if resolver.nameservers.len() > NAMESERVERS_MAX {
        resolver.nameservers.truncate(NAMESERVERS_MAX);
        omitted.push(format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
            resolver.nameservers.join(" ")
        ));
    }
    let mut bytes = 0;
    let fitting = resolver.searches.iter().take(SEARCHES_MAX).take_while(|search| {
        bytes += search.len() + usize::from(bytes > 0);
        bytes <= SEARCHES_MAX_BYTES
    });
    let fitting = fitting.count();
    if fitting < resolver.searches.len() {
        resolver.searches.truncate(fitting);
        omitted.push(format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
            resolver.searches.join(" ")
        ));
    }
    PodResolver { resolver, omitted }
}

fn once_each(values: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    values.retain(|value| seen.insert(value.clone()));
}

fn check(field: &'static str, value: &str) -> Result<(), FileError> {
    if value.is_empty() || value.contains(|c: char| c.is_whitespace() || c.is_control()) {
        let value = value.chars().take(100).collect();
        return Err(FileError::BadValue { field, value });
    }
    Ok(())
}

fn capped(file: &'static str, text: String) -> Result<String, FileError> {
    match text.len() {
        bytes if bytes > FILE_MAX_BYTES => Err(FileError::TooLarge { file, bytes }),
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests;
