//! Service (core/v1): one name and address for pods that come and go. `service_addresses` of the
//! API chooses its addresses and its ports of the nodes.

mod defaults;
mod endpoint_fields;
mod families;
pub mod needs;
mod ports;
mod row;
mod status;
mod update;
mod validate;

use k8s_openapi::api::core::v1::{Service, ServiceSpec, ServiceStatus};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, list_or_none, or_none, wide};
use crate::validation::names::NameRule;
use crate::validation::{items, text};
pub(crate) use endpoint_fields::{family_of_range, shown_as_address};
pub use families::{ShownList, cluster_ip_errors, family_of};

impl ApiKind for Service {
    const NAMES: ResourceNames = ResourceNames {
        singular: "service",
        short_names: &["svc"],
        categories: &["all"],
        scope: ResourceScope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status, Subresource::Proxy];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const NAME_RULE: NameRule = NameRule::DnsLabel;
    const CREATES_ON_UPDATE: bool = true;
    /// A kubelet lists the Services that have an address by them.
    const SELECTABLE_FIELDS: &'static [&'static str] = &["spec.clusterIP", "spec.type"];
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Type", "string", "How the Service is exposed."),
        column("Cluster-IP", "string", "The IP address of the service."),
        column("External-IP", "string", "The addresses outside the cluster at which it answers."),
        column("Port(s)", "string", "The ports that are exposed by this service."),
        AGE,
        wide("Selector", "string", "The labels of the pods that traffic goes to."),
    ];

    fn set_defaults(&mut self) {
        defaults::set(self);
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        self.status =
            Some(ServiceStatus { load_balancer: Some(Default::default()), ..Default::default() });
        if let Some(spec) = &mut self.spec {
            update::complete_new(spec);
        }
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        update::complete(self, old);
    }

    fn validate(&self) -> Vec<FieldError> {
        validate::all(self)
    }

    fn warnings(&self) -> Vec<String> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let addresses = (!items(spec.external_ips.as_ref()).is_empty()).then(|| {
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
                .to_owned()
        });
        let close = (spec.traffic_distribution.as_deref() == Some("PreferClose")).then(|| {
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\""
                .to_owned()
        });
        addresses.into_iter().chain(close).collect()
    }

    fn selectable_fields(&self) -> Vec<(&'static str, String)> {
        let spec = self.spec.as_ref();
        let address = spec.and_then(|spec| spec.cluster_ip.as_ref());
        let service_type = spec.and_then(|spec| spec.type_.as_ref());
        [("spec.clusterIP", address), ("spec.type", service_type)]
            .map(|(field, value)| (field, text(value).to_owned()))
            .to_vec()
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        match (&self.spec, &old.spec) {
            (Some(new), Some(old)) => validate::change(new, old),
            (None, _) | (_, None) => Vec::new(),
        }
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let none = ServiceSpec::default();
        let spec = self.spec.as_ref().unwrap_or(&none);
        let selector: Vec<String> =
            spec.selector.iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
        vec![
            text(self.metadata.name.as_ref()).into(),
            text(spec.type_.as_ref()).into(),
            or_none(items(spec.cluster_ips.as_ref()).first().or(spec.cluster_ip.as_ref())),
            row::external_ip(spec, self.status.as_ref()).into(),
            row::shown_ports(items(spec.ports.as_ref())).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
            list_or_none(selector.iter().map(String::as_str)).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for Service {
    fn prepare_part(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.spec.clone_from(&old.spec);
    }

    fn validate_part(&self, _old: &Self) -> Vec<FieldError> {
        status::errors(self)
    }
}
