//! FlowSchema (flowcontrol.apiserver.k8s.io/v1).

use k8s_openapi::api::flowcontrol::v1::{FlowSchema, FlowSchemaStatus};
use rekindle_flow_control::DANGLING;
use rekindle_flow_control::defaults::EXEMPT;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::{mandatory_errors, policy_rules};
use crate::preparation;
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, invalid_each, items, names, text};

/// The precedence of a schema that says none.
const PRECEDENCE: i32 = 1000;
const PRECEDENCE_MAX: i32 = 10_000;

impl ApiKind for FlowSchema {
    const NAMES: ResourceNames = ResourceNames {
        singular: "flowschema",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("PriorityLevel", "string", "The level of the requests that match."),
        column("MatchingPrecedence", "string", "Of two schemas that match, the lower number wins."),
        column("DistinguisherMethod", "string", "What tells the flows of a schema apart."),
        AGE,
        column("MissingPL", "string", "Whether the level is missing."),
    ];

    fn set_defaults(&mut self) {
        crate::defaults::number(&mut self.spec.matching_precedence, PRECEDENCE);
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        self.status = Some(FlowSchemaStatus::default());
    }

    preparation::updates_of_spec!();

    fn validate(&self) -> Vec<FieldError> {
        let field = Path::new("spec");
        let spec = &self.spec;
        let mut errors = Vec::new();
        let precedence = spec.matching_precedence.unwrap_or(PRECEDENCE);
        let of_precedence = field.child("matchingPrecedence");
        if precedence <= 0 {
            errors.push(FieldError::invalid(
                &of_precedence,
                precedence,
                "must be a positive value",
            ));
        }
        if precedence > PRECEDENCE_MAX {
            let why = format!("must not be greater than {PRECEDENCE_MAX}");
            errors.push(FieldError::invalid(&of_precedence, precedence, why));
        }
        if precedence == 1 && text(self.metadata.name.as_ref()) != EXEMPT {
            let why = "only the schema named 'exempt' may have matchingPrecedence 1";
            errors.push(FieldError::invalid(&of_precedence, precedence, why));
        }
        let method = spec.distinguisher_method.as_ref().map(|method| method.type_.as_str());
        if let Some(method) = method.filter(|method| !matches!(*method, "ByNamespace" | "ByUser")) {
            let field = field.child("distinguisherMethod").child("type");
            errors.push(FieldError::not_supported(field, method, &["ByNamespace", "ByUser"]));
        }
        let level = &spec.priority_level_configuration.name;
        let field = field.child("priorityLevelConfiguration").child("name");
        if level.is_empty() {
            errors.push(FieldError::required(&field, "must reference a priority level"));
        } else {
            errors.extend(invalid_each(&field, level, names::dns_subdomain(level)));
        }
        for (index, rule) in items(spec.rules.as_ref()).iter().enumerate() {
            let field = Path::new("spec").child("rules").index(index);
            errors.extend(policy_rules::errors(rule, &field));
        }
        errors.extend(mandatory_errors(self, |schema| &schema.spec));
        errors
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let spec = &self.spec;
        let method = spec.distinguisher_method.as_ref();
        let conditions = self.status.as_ref().and_then(|status| status.conditions.as_ref());
        let dangling = items(conditions).iter().find(|condition| condition.type_ == DANGLING);
        let is_missing = dangling.and_then(|condition| condition.status.as_deref());
        vec![
            text(self.metadata.name.as_ref()).into(),
            spec.priority_level_configuration.name.as_str().into(),
            spec.matching_precedence.unwrap_or(0).to_string().into(),
            method.map_or("<none>", |method| method.type_.as_str()).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
            is_missing.unwrap_or("?").into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for FlowSchema {
    preparation::updates_of_status_alone!();
}
