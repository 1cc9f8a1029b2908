//! Node (core/v1).

use k8s_openapi::api::core::v1::{Node, NodeSystemInfo, Taint};
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{Tick, nodes, taints};

use super::defaults;
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, list_or_none, wide};
use crate::validation::{
    ListKeys, MISTAKES_MAX, Path, addresses, invalid_each, items, names, quantities, text,
};

const EFFECTS: [&str; 3] = [taints::NO_SCHEDULE, taints::PREFER_NO_SCHEDULE, taints::NO_EXECUTE];
const ROLE_LABEL_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";

impl ApiKind for Node {
    const NAMES: ResourceNames = ResourceNames {
        singular: "node",
        short_names: &["no"],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status, Subresource::NodeProxy];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const HAS_NAMESPACE_SELECTOR: bool = false;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Status", "string", "The status of the node"),
        column("Roles", "string", "The roles of the node"),
        AGE,
        column("Version", "string", "Kubelet Version reported by the node."),
        wide("Internal-IP", "string", "List of addresses reachable to the node."),
        wide("External-IP", "string", "List of addresses reachable to the node."),
        wide("OS-Image", "string", "OS Image reported by the node."),
        wide("Kernel-Version", "string", "Kernel Version reported by the node."),
        wide("Container-Runtime", "string", "The container runtime of the node, with its version."),
    ];
    const SELECTABLE_FIELDS: &'static [&'static str] = &["spec.unschedulable"];

    fn set_defaults(&mut self) {
        // upstream always prints the spec and the parts of the status that are no pointers
        self.spec.get_or_insert_default();
        let status = self.status.get_or_insert_default();
        status.node_info.get_or_insert_default();
        let endpoints = status.daemon_endpoints.get_or_insert_default();
        endpoints.kubelet_endpoint.get_or_insert_default();
        if let Some(spec) = &mut self.spec {
            defaults::drop_false(&mut spec.unschedulable);
            defaults::drop_empty_list(&mut spec.taints);
            // the range of before there were several
            match (&spec.pod_cidr, &spec.pod_cidrs) {
                (Some(range), None) => spec.pod_cidrs = Some(vec![range.clone()]),
                (None, Some(ranges)) => spec.pod_cidr = ranges.first().cloned(),
                // the older field counts, as upstream
                (Some(range), Some(ranges)) if ranges.first() != Some(range) => {
                    spec.pod_cidrs = Some(vec![range.clone()]);
                }
                (Some(_), Some(_)) | (None, None) => {}
            }
        }
        if let Some(status) = &mut self.status {
            quantities::canonicalize_list(status.capacity.as_mut());
            quantities::canonicalize_list(status.allocatable.as_mut());
            if status.allocatable.is_none() {
                status.allocatable.clone_from(&status.capacity);
            }
        }
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        drop_config_source(self);
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.status.clone_from(&old.status);
    }

    fn validate(&self) -> Vec<FieldError> {
        let spec = self.spec.as_ref();
        // upstream's name for it
        let field = Path::new("metadata").child("taints");
        let mut errors = taints(items(spec.and_then(|spec| spec.taints.as_ref())), &field);
        let status = Path::new("status");
        for (name, list) in [
            ("capacity", self.status.as_ref().and_then(|status| status.capacity.as_ref())),
            ("allocatable", self.status.as_ref().and_then(|status| status.allocatable.as_ref())),
        ] {
            for (resource, amount) in list.into_iter().flatten() {
                let field = status.child(name).key(resource);
                errors.extend(quantities::check_non_negative(amount, &field).err());
            }
        }
        let ranges = items(spec.and_then(|spec| spec.pod_cidrs.as_ref()));
        let field = Path::new("spec").child("podCIDRs");
        let each = ranges.iter().enumerate().take(MISTAKES_MAX);
        errors
            .extend(each.filter_map(|(at, range)| addresses::range_error(range, &field.index(at))));
        errors.extend(addresses::family_error(ranges, &field));
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let get = |node: &Self| {
            let spec = node.spec.clone().unwrap_or_default();
            (spec.pod_cidr, spec.pod_cidrs, spec.provider_id, spec.external_id)
        };
        let (new, old) = (get(self), get(old));
        let mut errors = Vec::new();
        if (old.0.is_some() && new.0 != old.0) || (old.1.is_some() && new.1 != old.1) {
            errors.push(FieldError::forbidden(
                "spec.podCIDRs",
                "node updates may not change podCIDR except from \"\" to valid",
            ));
        }
        if old.2.is_some() && new.2 != old.2 {
            errors.push(FieldError::forbidden(
                "spec.providerID",
                "node updates may not change providerID except from \"\" to valid",
            ));
        }
        if new.3 != old.3 {
            errors.push(FieldError::forbidden("spec.externalID", "may not be updated"));
        }
        errors
    }

    fn selectable_fields(&self) -> Vec<(&'static str, String)> {
        vec![("spec.unschedulable", nodes::is_cordoned(self).to_string())]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let unknown = NodeSystemInfo::default();
        let info = self.status.as_ref().and_then(|status| status.node_info.as_ref());
        let info = info.unwrap_or(&unknown);
        let or_unknown = |value: &String| {
            if value.is_empty() { "<unknown>".into() } else { TableCell::Text(value.clone()) }
        };
        vec![
            text(self.metadata.name.as_ref()).into(),
            readiness(self).into(),
            roles(self).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
            info.kubelet_version.as_str().into(),
            address(self, "InternalIP"),
            address(self, "ExternalIP"),
            or_unknown(&info.os_image),
            or_unknown(&info.kernel_version),
            or_unknown(&info.container_runtime_version),
        ]
    }
}

/// Kubelets were configured by it once (KEP-281, withdrawn); it is not kept any more.
fn drop_config_source(node: &mut Node) {
    if let Some(spec) = &mut node.spec {
        spec.config_source = None;
    }
}

impl SubresourceStrategy<StatusPart> for Node {
    fn prepare_part(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.spec.clone_from(&old.spec);
    }
}

fn readiness(node: &Node) -> String {
    let shown = match nodes::readiness(node) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if nodes::is_cordoned(node) { format!("{shown},SchedulingDisabled") } else { shown.to_owned() }
}

fn roles(node: &Node) -> String {
    let labels = node.metadata.labels.iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_LABEL_PREFIX) {
            Some(role) => Some(role),
            None => (key == ROLE_LABEL).then_some(value.as_str()),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    list_or_none(roles)
}

fn address(node: &Node, type_: &str) -> TableCell {
    let addresses = node.status.as_ref().and_then(|status| status.addresses.as_ref());
    let found = items(addresses).iter().find(|address| address.type_ == type_);
    found.map_or("<none>", |address| &address.address).into()
}

fn taints(taints: &[Taint], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut taken: ListKeys<(&str, &str)> = ListKeys::new();
    for (index, taint) in taints.iter().enumerate() {
        let is_again = taken.add((&taint.key, &taint.effect)).is_some();
        let entry = field.index(index);
        errors.extend(invalid_each(&entry.child("key"), &taint.key, names::qualified(&taint.key)));
        let value = text(taint.value.as_ref());
        errors.extend(invalid_each(&entry.child("value"), value, names::label_value(value)));
        match taint.effect.as_str() {
            "" => errors.push(FieldError::required(entry.child("effect"), "")),
            effect if !EFFECTS.contains(&effect) => {
                errors.push(FieldError::not_supported(entry.child("effect"), effect, &EFFECTS));
            }
            effect => {
                if is_again {
                    let shown = format!("taint {}:{effect}", taint.key);
                    errors.push(FieldError::duplicate(&entry, shown));
                }
            }
        }
    }
    errors
}
