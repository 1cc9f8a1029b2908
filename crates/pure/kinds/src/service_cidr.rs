//! ServiceCIDR (networking.k8s.io/v1): a range that cluster IPs come from. The engine has one,
//! `kubernetes`. `service_addresses` of the API chooses addresses from those of users, too, once
//! the node has said that it leads there.

use k8s_openapi::api::networking::v1::{ServiceCIDR, ServiceCIDRSpec};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::preparation;
use super::service::family_of_range;
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::service_range::ServiceRange;
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, addresses, items, text};

/// The range of the engine.
pub const DEFAULT_RANGE: &str = "kubernetes";
/// Keeps a range while addresses of it are held.
pub const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// The condition that says whether addresses come from a range.
pub const READY: &str = "Ready";
/// One range of each IP family.
const RANGES_MAX: usize = 2;

impl ApiKind for ServiceCIDR {
    const NAMES: ResourceNames = ResourceNames {
        singular: "servicecidr",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const COLUMNS: &'static [TableColumn] =
        &[NAME, column("CIDRs", "string", "The ranges that cluster IPs come from."), AGE];

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        self.status = None;
        keep(self);
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.status.clone_from(&old.status);
        if old.metadata.deletion_timestamp.is_none() {
            keep(self);
        }
    }

    fn validate(&self) -> Vec<FieldError> {
        let ranges = ranges(self.spec.as_ref());
        let field = Path::new("spec").child("cidrs");
        if ranges.is_empty() {
            return vec![FieldError::required(field, "at least one CIDR required")];
        }
        if ranges.len() > RANGES_MAX {
            let detail = "may only hold up to 2 values";
            return vec![FieldError::invalid(field, ranges.len(), detail)];
        }
        let unreadable = ranges.iter().enumerate().filter(|(_, range)| !addresses::is_range(range));
        let mut errors: Vec<FieldError> = unreadable
            .map(|(index, range)| {
                FieldError::invalid(field.index(index), range, addresses::NOT_A_RANGE)
            })
            .collect();
        for (index, range) in
            ranges.iter().enumerate().filter(|(_, range)| addresses::is_range(range))
        {
            if let Err(error) = range.parse::<ServiceRange>() {
                errors.push(FieldError::invalid(field.index(index), range, error.to_string()));
            }
        }
        let is_one_family =
            ranges.len() > 1 && family_of_range(&ranges[0]) == family_of_range(&ranges[1]);
        if errors.is_empty() && is_one_family {
            let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/96";
            return vec![FieldError::invalid_json(field, &ranges, detail)];
        }
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        if self.spec == old.spec {
            return Vec::new();
        }
        let field = Path::new("spec").child("cidrs");
        vec![FieldError::invalid_json(field, &ranges(self.spec.as_ref()), "field is immutable")]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            ranges(self.spec.as_ref()).join(",").into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

/// Gives a range the finalizer that the engine takes away when no address needs the range.
fn keep(range: &mut ServiceCIDR) {
    let finalizers = range.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
}

impl SubresourceStrategy<StatusPart> for ServiceCIDR {
    preparation::updates_of_status_alone!();
}

fn ranges(spec: Option<&ServiceCIDRSpec>) -> &[String] {
    items(spec.and_then(|spec| spec.cidrs.as_ref()))
}
