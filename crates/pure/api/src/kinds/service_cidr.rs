//! ServiceCIDR (networking.k8s.io/v1): a range that cluster IPs come from. The engine has one,
//! `kubernetes`, and chooses addresses from no other.

use k8s_openapi::api::networking::v1::{ServiceCIDR, ServiceCIDRSpec};
use rekindle_types::Tick;

use super::service::{family_of_range, is_range};
use crate::registry::field_error::FieldError;
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, items, text};

/// The range of the engine.
pub(crate) const DEFAULT_RANGE: &str = "kubernetes";
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
    const COLUMNS: &'static [TableColumn] =
        &[NAME, column("CIDRs", "string", "The ranges that cluster IPs come from."), AGE];

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        self.status = None;
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.status.clone_from(&old.status);
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
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        let unreadable = ranges.iter().enumerate().filter(|(_, range)| !is_range(range));
        let errors: Vec<FieldError> = unreadable
            .map(|(index, range)| FieldError::invalid(field.index(index), range, detail))
            .collect();
        let is_one_family =
            ranges.len() > 1 && family_of_range(&ranges[0]) == family_of_range(&ranges[1]);
        if errors.is_empty() && is_one_family {
            let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/96";
            return vec![FieldError::invalid(field, ranges, detail)];
        }
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        if self.spec == old.spec {
            return Vec::new();
        }
        let field = Path::new("spec").child("cidrs");
        vec![FieldError::invalid(field, ranges(self.spec.as_ref()), "field is immutable")]
    }

    fn warnings(&self) -> Vec<String> {
        if self.metadata.name.as_deref() == Some(DEFAULT_RANGE) {
            return Vec::new();
        }
        let warning = "spec.cidrs: this version of Rekindle chooses addresses from the range \
                       \"kubernetes\" only; set it with --service-cidr";
        vec![warning.to_owned()]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            ranges(self.spec.as_ref()).join(",").into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for ServiceCIDR {
    fn prepare_part(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.spec.clone_from(&old.spec);
    }
}

fn ranges(spec: Option<&ServiceCIDRSpec>) -> &[String] {
    items(spec.and_then(|spec| spec.cidrs.as_ref()))
}
