//! What the API server fills into a Pod: the defaults of the API reference, and those of the
//! admission plugins that are on by default (ServiceAccount, DefaultTolerationSeconds).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, HTTPGetAction, ObjectFieldSelector, Pod, PodIP, PodSpec, PodStatus, Probe,
    ResourceFieldSelector, ResourceRequirements, SELinuxOptions, TCPSocketAction, Toleration,
    Volume,
};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rekindle_types::pod_annotations::is_mirror;
use rekindle_types::resources::{self, Amounts};
use rekindle_types::{ephemeral, taints, volume_sources};

use super::image;
use crate::defaults;
use crate::storage;
use crate::validation::{quantities, text};
use crate::volume_sources::pod_volume;

/// How long a pod stays on a node that is not ready or not reachable, where nothing else is set.
pub const TOLERATION_SECONDS: i64 = 300;

/// Mode of files in configMap, secret, downwardAPI and projected volumes.
const FILE_MODE: i32 = 0o644;

/// Fills a Pod: its spec as in a template, and what only a Pod gets.
pub(crate) fn pod(pod: &mut Pod) {
    let is_mirror = is_mirror(pod);
    let spec = pod.spec.get_or_insert_default();
    pod_spec(spec);
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        requests_from_limits(container.resources.as_mut());
    }
    huge_pages_from_containers(spec);
    requests_from_containers(spec);
    requests_from_limits_of_pod(spec.resources.as_mut());
    spec.enable_service_links.get_or_insert(true);
    // a template keeps a negative period, and gets a warning
    if spec.termination_grace_period_seconds.is_some_and(|seconds| seconds < 0) {
        spec.termination_grace_period_seconds = Some(1);
    }
    if spec.host_network == Some(true) {
        host_ports(&mut spec.containers);
        host_ports(spec.init_containers.as_deref_mut().unwrap_or_default());
    }
    if !is_mirror {
        defaults::text(&mut spec.service_account_name, "default");
    }
    spec.service_account.clone_from(&spec.service_account_name);
    default_tolerations(&mut spec.tolerations, TOLERATION_SECONDS);
    if let Some(status) = &mut pod.status {
        quantities::canonicalize_list(status.allocated_resources.as_mut());
        defaults::drop_empty_text(&mut status.phase);
        pod_addresses(status);
        container_states(status);
    }
}

/// Upstream always prints both states of a container, be they empty.
fn container_states(status: &mut PodStatus) {
    let lists = [
        &mut status.container_statuses,
        &mut status.init_container_statuses,
        &mut status.ephemeral_container_statuses,
    ];
    for container in lists.into_iter().flatten().flatten() {
        container.state.get_or_insert_default();
        container.last_state.get_or_insert_default();
    }
}

/// The address of a pod is the first of its addresses. Where the two differ, the one counts that
/// older clients write.
fn pod_addresses(status: &mut PodStatus) {
    let of_list = status.pod_ips.as_ref().and_then(|ips| ips.first()).map(|first| first.ip.clone());
    match (status.pod_ip.as_ref().filter(|ip| !ip.is_empty()), of_list) {
        (None, first) => status.pod_ip = first,
        (Some(own), first) if first.as_ref() == Some(own) => {}
        (Some(own), _) => status.pod_ips = Some(vec![PodIP { ip: own.clone() }]),
    }
}

/// Fills the spec of a Pod or of a template.
pub(crate) fn pod_spec(spec: &mut PodSpec) {
    for slot in [&mut spec.host_network, &mut spec.host_pid, &mut spec.host_ipc] {
        defaults::drop_false(slot);
    }
    for slot in [
        &mut spec.node_name,
        &mut spec.hostname,
        &mut spec.subdomain,
        &mut spec.priority_class_name,
        &mut spec.service_account_name,
        &mut spec.service_account,
    ] {
        defaults::drop_empty_text(slot);
    }
    defaults::drop_empty_list(&mut spec.init_containers);
    defaults::drop_empty_list(&mut spec.ephemeral_containers);
    defaults::drop_empty_list(&mut spec.volumes);
    defaults::drop_empty_list(&mut spec.tolerations);
    defaults::drop_empty_list(&mut spec.image_pull_secrets);
    defaults::drop_empty_list(&mut spec.host_aliases);
    defaults::drop_empty_list(&mut spec.readiness_gates);
    defaults::drop_empty_list(&mut spec.resource_claims);
    defaults::drop_empty_list(&mut spec.scheduling_gates);
    defaults::drop_empty_list(&mut spec.topology_spread_constraints);
    defaults::drop_empty_map(&mut spec.node_selector);
    defaults::drop_empty_map(&mut spec.overhead);
    defaults::text(&mut spec.dns_policy, "ClusterFirst");
    defaults::text(&mut spec.restart_policy, "Always");
    defaults::text(&mut spec.scheduler_name, "default-scheduler");
    se_linux(spec.security_context.get_or_insert_default().se_linux_options.as_mut());
    spec.termination_grace_period_seconds.get_or_insert(30);
    if spec.service_account_name.is_none() {
        spec.service_account_name.clone_from(&spec.service_account);
    }
    spec.service_account.clone_from(&spec.service_account_name);
    quantities::canonicalize_list(spec.overhead.as_mut());
    canonical_amounts(spec.resources.as_mut());
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        self::container(container);
    }
    for ephemeral in spec.ephemeral_containers.iter_mut().flatten() {
        let mut filled = ephemeral::as_container(ephemeral);
        self::container(&mut filled);
        *ephemeral = ephemeral::ephemeral_container(filled, ephemeral.target_container_name.take());
        defaults::drop_empty_text(&mut ephemeral.target_container_name);
    }
    for volume in spec.volumes.iter_mut().flatten() {
        self::volume(volume);
    }
}

fn container(container: &mut Container) {
    for slot in [&mut container.stdin, &mut container.stdin_once, &mut container.tty] {
        defaults::drop_false(slot);
    }
    defaults::drop_empty_text(&mut container.working_dir);
    defaults::drop_empty_list(&mut container.command);
    defaults::drop_empty_list(&mut container.args);
    defaults::drop_empty_list(&mut container.env);
    for variable in container.env.iter_mut().flatten() {
        defaults::drop_empty_text(&mut variable.value);
    }
    defaults::drop_empty_list(&mut container.env_from);
    defaults::drop_empty_list(&mut container.ports);
    defaults::drop_empty_list(&mut container.volume_mounts);
    defaults::drop_empty_list(&mut container.resize_policy);
    let policy = image::default_pull_policy(text(container.image.as_ref()));
    defaults::text(&mut container.image_pull_policy, policy);
    defaults::text(&mut container.termination_message_path, "/dev/termination-log");
    defaults::text(&mut container.termination_message_policy, "File");
    // Present and empty, as the API server shows it.
    canonical_amounts(Some(container.resources.get_or_insert_default()));
    for port in container.ports.iter_mut().flatten() {
        defaults::text(&mut port.protocol, "TCP");
        defaults::drop_zero(&mut port.host_port);
        defaults::drop_empty_text(&mut port.host_ip);
        defaults::drop_empty_text(&mut port.name);
    }
    let context = container.security_context.as_mut();
    se_linux(context.and_then(|context| context.se_linux_options.as_mut()));
    for source in container.env.iter_mut().flatten().filter_map(|env| env.value_from.as_mut()) {
        field_ref(source.field_ref.as_mut());
        resource_field_ref(source.resource_field_ref.as_mut());
    }
    for mount in container.volume_mounts.iter_mut().flatten() {
        defaults::drop_false(&mut mount.read_only);
        defaults::drop_empty_text(&mut mount.sub_path);
        defaults::drop_empty_text(&mut mount.sub_path_expr);
    }
    for probe in [
        &mut container.liveness_probe,
        &mut container.readiness_probe,
        &mut container.startup_probe,
    ] {
        self::probe(probe.as_mut());
    }
    if let Some(lifecycle) = &mut container.lifecycle {
        for handler in [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten() {
            http_get(handler.http_get.as_mut());
            tcp_socket(handler.tcp_socket.as_mut());
        }
    }
}

fn se_linux(options: Option<&mut SELinuxOptions>) {
    let Some(options) = options else { return };
    for slot in [&mut options.user, &mut options.role, &mut options.type_, &mut options.level] {
        defaults::drop_empty_text(slot);
    }
}

fn probe(probe: Option<&mut Probe>) {
    let Some(probe) = probe else { return };
    defaults::number(&mut probe.timeout_seconds, 1);
    defaults::number(&mut probe.period_seconds, 10);
    defaults::number(&mut probe.success_threshold, 1);
    defaults::number(&mut probe.failure_threshold, 3);
    http_get(probe.http_get.as_mut());
    tcp_socket(probe.tcp_socket.as_mut());
    if let Some(grpc) = &mut probe.grpc {
        grpc.service.get_or_insert_default();
    }
}

fn http_get(action: Option<&mut HTTPGetAction>) {
    let Some(action) = action else { return };
    defaults::text(&mut action.path, "/");
    defaults::text(&mut action.scheme, "HTTP");
    defaults::drop_empty_text(&mut action.host);
}

fn tcp_socket(action: Option<&mut TCPSocketAction>) {
    if let Some(action) = action {
        defaults::drop_empty_text(&mut action.host);
    }
}

fn volume(volume: &mut Volume) {
    if volume_sources::of_pod_volume(volume).next().is_none() {
        volume.empty_dir = Some(Default::default());
    }
    pod_volume::set_defaults(volume);
    if let Some(limit) = volume.empty_dir.as_mut().and_then(|dir| dir.size_limit.as_mut()) {
        quantities::canonicalize(limit);
    }
    if let Some(source) = &mut volume.image {
        let policy = image::default_pull_policy(text(source.reference.as_ref()));
        defaults::text(&mut source.pull_policy, policy);
    }
    let claim = volume.ephemeral.as_mut().and_then(|of| of.volume_claim_template.as_mut());
    if let Some(claim) = claim {
        claim.metadata.get_or_insert_default();
        storage::set_claim_defaults(&mut claim.spec);
    }
    if let Some(source) = &mut volume.config_map {
        source.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(source) = &mut volume.secret {
        source.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(source) = &mut volume.host_path {
        source.type_.get_or_insert_default();
    }
    if let Some(source) = &mut volume.downward_api {
        source.default_mode.get_or_insert(FILE_MODE);
        for file in source.items.iter_mut().flatten() {
            field_ref(file.field_ref.as_mut());
            resource_field_ref(file.resource_field_ref.as_mut());
        }
    }
    if let Some(source) = &mut volume.projected {
        source.default_mode.get_or_insert(FILE_MODE);
        for projection in source.sources.iter_mut().flatten() {
            for file in
                projection.downward_api.iter_mut().flat_map(|api| api.items.iter_mut().flatten())
            {
                field_ref(file.field_ref.as_mut());
                resource_field_ref(file.resource_field_ref.as_mut());
            }
            if let Some(token) = &mut projection.service_account_token {
                token.expiration_seconds.get_or_insert(3600);
            }
        }
    }
}

fn field_ref(selector: Option<&mut ObjectFieldSelector>) {
    if let Some(selector) = selector {
        defaults::text(&mut selector.api_version, "v1");
    }
}

fn resource_field_ref(selector: Option<&mut ResourceFieldSelector>) {
    if let Some(selector) = selector {
        // Upstream shows an unset divisor as 0; it means 1.
        let divisor = selector.divisor.get_or_insert_default();
        if divisor.0.is_empty() {
            "0".clone_into(&mut divisor.0);
        }
        quantities::canonicalize(divisor);
    }
}

fn canonical_amounts(resources: Option<&mut ResourceRequirements>) {
    let Some(resources) = resources else { return };
    defaults::drop_empty_map(&mut resources.limits);
    defaults::drop_empty_map(&mut resources.requests);
    quantities::canonicalize_list(resources.limits.as_mut());
    quantities::canonicalize_list(resources.requests.as_mut());
}

fn requests_from_limits(resources: Option<&mut ResourceRequirements>) {
    let Some(resources) = resources else { return };
    let Some(limits) = &resources.limits else { return };
    let requests = resources.requests.get_or_insert_default();
    for (name, limit) in limits {
        if !requests.contains_key(name) {
            requests.insert(name.clone(), limit.clone());
        }
    }
}

/// The same of a pod as a whole, for what it can ask for.
fn requests_from_limits_of_pod(resources: Option<&mut ResourceRequirements>) {
    let Some(resources) = resources else { return };
    for (name, limit) in resources.limits.iter().flatten() {
        if resources::is_pod_level(name) {
            let requests = resources.requests.get_or_insert_default();
            requests.entry(name.clone()).or_insert_with(|| limit.clone());
        }
    }
}

/// The huge pages of a pod with resources of its own are those of its containers, where it says
/// nothing of their size.
fn huge_pages_from_containers(spec: &mut PodSpec) {
    let limits = resources::sum_over_containers(spec, |container| {
        Amounts::read(container.resources.as_ref().and_then(|r| r.limits.as_ref()))
    });
    let Some(own) = spec.resources.as_mut() else { return };
    for (name, amount) in limits.iter().filter(|(name, _)| name.starts_with("hugepages-")) {
        let is_asked = own.requests.as_ref().is_some_and(|asked| asked.contains_key(name));
        if !is_asked {
            let limits = own.limits.get_or_insert_default();
            limits.entry(name.to_owned()).or_insert_with(|| Quantity(amount.to_string()));
        }
    }
}

/// What a pod with limits of its own does not ask for, its containers together do (KEP-2837); huge
/// pages are as the limit says.
fn requests_from_containers(spec: &mut PodSpec) {
    let asked = resources::sum_over_containers(spec, |container| {
        Amounts::read(container.resources.as_ref().and_then(|r| r.requests.as_ref()))
    });
    let Some(own) = spec.resources.as_mut() else { return };
    if own.limits.as_ref().is_none_or(BTreeMap::is_empty) {
        return;
    }
    for (name, amount) in asked.iter().filter(|(name, _)| matches!(*name, "cpu" | "memory")) {
        let requests = own.requests.get_or_insert_default();
        requests.entry(name.to_owned()).or_insert_with(|| Quantity(amount.to_string()));
    }
}

fn host_ports(containers: &mut [Container]) {
    for port in containers.iter_mut().flat_map(|container| container.ports.iter_mut().flatten()) {
        defaults::number(&mut port.host_port, port.container_port);
    }
}

/// The DefaultTolerationSeconds admission plugin: so long on a node that is not ready or not
/// reachable.
pub fn default_tolerations(tolerations: &mut Option<Vec<Toleration>>, seconds: i64) {
    for key in super::DEFAULT_TOLERATION_KEYS {
        let tolerated = tolerations.iter().flatten().any(|toleration| {
            let named = text(toleration.key.as_ref());
            (named.is_empty() || named == key)
                && matches!(text(toleration.effect.as_ref()), "" | taints::NO_EXECUTE)
        });
        if !tolerated {
            tolerations.get_or_insert_default().push(Toleration {
                key: Some(key.to_owned()),
                operator: Some("Exists".to_owned()),
                effect: Some(taints::NO_EXECUTE.to_owned()),
                toleration_seconds: Some(seconds),
                value: None,
            });
        }
    }
}
