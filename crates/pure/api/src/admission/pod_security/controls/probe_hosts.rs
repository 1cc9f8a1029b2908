//! Hosts of probes and hooks: the node would connect wherever the pod wants.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{HTTPGetAction, TCPSocketAction};

use super::under_review::ContainerUnderReview;
use super::wording::{plural, quoted};
use super::{ControlViolation, PodUnderReview, wording};

/// Forbids any host but the pod.
pub(super) fn probe_hosts(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let mut hosts = BTreeSet::new();
    let mut names = pod.containers_that(|container| {
        let of_container = hosts_of(container);
        let is_bad = !of_container.is_empty();
        hosts.extend(of_container);
        is_bad
    });
    names.sort_unstable();
    wording::violation_of_containers("probe or lifecycle host", &names, |containers| {
        let uses = plural(names.len(), "uses", "use");
        let word = plural(hosts.len(), "probe or lifecycle host", "probe or lifecycle hosts");
        format!("{containers} {uses} {word} {}", quoted(hosts))
    })
}

fn hosts_of<'a>(container: &ContainerUnderReview<'a>) -> Vec<&'a str> {
    type Handler<'a> = (Option<&'a HTTPGetAction>, Option<&'a TCPSocketAction>);
    let probes = container.probes.into_iter().flatten();
    let probes = probes.map(|probe| (probe.http_get.as_ref(), probe.tcp_socket.as_ref()));
    let hooks = container.lifecycle.into_iter().flat_map(|lifecycle| {
        [lifecycle.post_start.as_ref(), lifecycle.pre_stop.as_ref()].into_iter().flatten()
    });
    let hooks = hooks.map(|hook| (hook.http_get.as_ref(), hook.tcp_socket.as_ref()));
    let hosts = |(http, tcp): Handler<'a>| {
        [http.and_then(|get| get.host.as_deref()), tcp.and_then(|tcp| tcp.host.as_deref())]
    };
    let all = probes.chain(hooks).flat_map(hosts).flatten();
    all.filter(|host| !host.is_empty()).collect()
}
