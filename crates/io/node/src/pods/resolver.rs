//! A pod's /etc/resolv.conf: `dnsPolicy` and `dnsConfig`, as the kubelet carries them out.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use rekindle_net::files::{
    ClusterDnsConfig, DnsConfig, DnsPolicy, host_resolver, pod_resolver, resolv_conf, resolver_of,
};
use rekindle_runtime::NamespaceOwner;
use rekindle_types::PodRef;
use rekindle_types::reasons::event::{DNS_CONFIG_FORMING, MISSING_CLUSTER_DNS};

use super::etc_files::EtcFileError;
use crate::cluster_dns;
use crate::config::NodeConfig;
use crate::container_spec::pod_namespaces;

/// What pods of a node resolve names with.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodResolverSources {
    /// Cluster DNS, if there is any.
    pub(crate) cluster: Option<ClusterDnsConfig>,
    /// The file that describes the node's own resolver; none: the usual one.
    pub(crate) resolv_conf: Option<PathBuf>,
}

impl PodResolverSources {
    pub(crate) fn from_config(config: &NodeConfig) -> Self {
        Self {
            cluster: cluster_dns::resolver_config(config.cluster_dns, &config.cluster_domain),
            resolv_conf: config.resolv_conf.clone(),
        }
    }
}

/// The file, and what the pod's user has to know of it: reasons and messages of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodResolvConf {
    pub(crate) text: String,
    pub(crate) notices: Vec<(&'static str, String)>,
}

/// A pod's resolv.conf.
pub(crate) fn pod_resolv_conf(
    pod: &Pod,
    pod_ref: &PodRef,
    resolvers: &PodResolverSources,
) -> Result<PodResolvConf, EtcFileError> {
    let spec = pod.spec.as_ref();
    let policy = policy(pod);
    let host = match &resolvers.resolv_conf {
        Some(file) => resolver_of(file)?,
        None => host_resolver()?,
    };
    let cluster = resolvers.cluster.as_ref();
    let found = pod_resolver(policy, &pod_ref.namespace, &dns_config(spec), &host, cluster);
    let mut notices = Vec::new();
    match (policy, cluster) {
        (DnsPolicy::ClusterFirst, None) => {
            let given = spec.and_then(|spec| spec.dns_policy.as_deref()).unwrap_or("ClusterFirst");
            notices.push((
                MISSING_CLUSTER_DNS,
                format!(
                    "pod: {:?}. kubelet does not have ClusterDNS IP configured and cannot create Pod using \"{given}\" policy. Falling back to \"Default\" policy.",
                    pod_ref.in_full()
                ),
            ));
        }
        (DnsPolicy::ClusterFirst, Some(_)) | (DnsPolicy::Default | DnsPolicy::None, _) => {}
    }
    notices.extend(found.omitted.iter().map(|omitted| (DNS_CONFIG_FORMING, omitted.clone())));
    Ok(PodResolvConf { text: resolv_conf(&found.resolver)?, notices })
}

fn policy(pod: &Pod) -> DnsPolicy {
    let spec = pod.spec.as_ref();
    match spec.and_then(|spec| spec.dns_policy.as_deref()) {
        Some("None") => DnsPolicy::None,
        Some("Default") => DnsPolicy::Default,
        Some("ClusterFirstWithHostNet") => DnsPolicy::ClusterFirst,
        // ClusterFirst is the default
        Some(_) | None => match pod_namespaces(pod).network {
            NamespaceOwner::Own => DnsPolicy::ClusterFirst,
            NamespaceOwner::Host => DnsPolicy::Default,
        },
    }
}

fn dns_config(spec: Option<&PodSpec>) -> DnsConfig {
    let Some(config) = spec.and_then(|spec| spec.dns_config.as_ref()) else {
        return DnsConfig::default();
    };
    let options = config.options.iter().flatten();
    DnsConfig {
        nameservers: config.nameservers.clone().unwrap_or_default(),
        searches: config.searches.clone().unwrap_or_default(),
        options: options
            .map(|option| (option.name.clone().unwrap_or_default(), option.value.clone()))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::CLUSTER_DOMAIN;

    fn conf_of(spec: Value, cluster: Option<&str>) -> PodResolvConf {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("resolv.conf");
        std::fs::write(&file, "search lan\nnameserver 192.0.2.1\noptions edns0\n").expect("a file");
        let pod: Pod = serde_json::from_value(json!({ "spec": spec })).expect("a pod");
        let pod_ref = PodRef {
            namespace: "shop".into(),
            name: "web".into(),
            uid: rekindle_types::PodUid("u".into()),
        };
        let cluster = cluster.map(|address| address.parse().expect("an address"));
        let cluster = cluster_dns::resolver_config(cluster, CLUSTER_DOMAIN);
        let resolvers = PodResolverSources { cluster, resolv_conf: Some(file) };
        pod_resolv_conf(&pod, &pod_ref, &resolvers).expect("a resolv.conf")
    }

    #[test]
    fn each_policy_means_what_it_means_to_the_kubelet() {
        let cluster = "search shop.svc.cluster.local svc.cluster.local cluster.local lan\nnameserver 10.88.0.1\noptions ndots:5\n";
        let node = "search lan\nnameserver 192.0.2.1\noptions edns0\n";
        let config = json!({ "nameservers": ["192.0.2.7"], "searches": ["a.example"], "options": [{ "name": "ndots", "value": "2" }] });
        for (spec, expected) in [
            (json!({}), cluster),
            (json!({ "dnsPolicy": "ClusterFirst" }), cluster),
            (json!({ "dnsPolicy": "ClusterFirst", "hostNetwork": true }), node),
            (json!({ "dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true }), cluster),
            (json!({ "dnsPolicy": "Default" }), node),
            (
                json!({ "dnsPolicy": "None", "dnsConfig": config }),
                "search a.example\nnameserver 192.0.2.7\noptions ndots:2\n",
            ),
            (
                json!({ "dnsConfig": config }),
                "search shop.svc.cluster.local svc.cluster.local cluster.local lan a.example\nnameserver 10.88.0.1\nnameserver 192.0.2.7\noptions ndots:2\n",
            ),
        ] {
            let conf = conf_of(spec.clone(), Some("10.88.0.1"));
            assert_eq!(conf.text, expected, "{spec}");
            assert_eq!(conf.notices, [], "{spec}");
        }
    }

    #[test]
    fn short_names_are_looked_for_in_the_nodes_own_domain() {
        let folder = std::path::Path::new("/nowhere");
        let mut config = NodeConfig::new("n", folder, folder);
        config.cluster_dns = Some("10.88.0.1".parse().expect("an address"));
        config.cluster_domain = "example.org".to_owned();
        let cluster =
            PodResolverSources::from_config(&config).cluster.expect("there is cluster DNS");
        assert_eq!(cluster.domain, "example.org");
    }

    #[test]
    fn a_pod_without_cluster_dns_is_told_and_has_the_nodes_resolver() {
        let conf = conf_of(json!({}), None);
        assert_eq!(conf.text, "search lan\nnameserver 192.0.2.1\noptions edns0\n");
        let [(reason, message)] = conf.notices.as_slice() else { panic!("{:?}", conf.notices) };
        assert_eq!(*reason, "MissingClusterDNS");
        assert!(message.contains("using \"ClusterFirst\" policy. Falling back to \"Default\""));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let servers = ["192.0.2.2", "192.0.2.3", "192.0.2.4"];
        let conf = conf_of(json!({ "dnsConfig": { "nameservers": servers } }), Some("10.88.0.1"));
        let expected = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 10.88.0.1 192.0.2.2 192.0.2.3";
        assert_eq!(conf.notices, [("DNSConfigForming", expected.to_owned())]);
    }
}
