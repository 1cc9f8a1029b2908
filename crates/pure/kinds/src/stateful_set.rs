//! StatefulSet (apps/v1).

use k8s_openapi::api::apps::v1::{
    RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec, StatefulSetStatus,
    StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaimSpec, PersistentVolumeClaimVolumeSource, PodTemplateSpec, Volume,
};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use super::defaults;
use super::preparation;
use super::status_counts::{self, PartialCount};
use super::storage;
use super::template::{self, PodMaker};
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, containers_and_images, wide};
use crate::validation::names::NameRule;
use crate::validation::{ListKeys, Path, amounts, invalid_each, items, json, names, numbers, text};

/// What becomes of a claim when its pod is not wanted any more.
const RETENTION: &[&str] = &["Retain", "Delete"];

impl ApiKind for StatefulSet {
    const NAMES: ResourceNames = ResourceNames {
        singular: "statefulset",
        short_names: &["sts"],
        categories: &["all"],
        scope: ResourceScope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Scale, Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    // its pods' host names are made of it
    const NAME_RULE: NameRule = NameRule::DnsLabel;
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Ready", "string", "Number of the pod with ready state"),
        AGE,
        wide("Containers", "string", "Names of each container in the template."),
        wide("Images", "string", "Images referenced by each container in the template."),
    ];

    fn set_defaults(&mut self) {
        if let Some(status) = &mut self.status {
            status.available_replicas.get_or_insert(0);
        }
        defaults::drop_zeros!(
            self.status,
            [observed_generation, ready_replicas, current_replicas, updated_replicas]
        );
        let spec = &mut self.spec;
        template::set_defaults(&mut spec.template);
        spec.replicas.get_or_insert(1);
        spec.revision_history_limit.get_or_insert(10);
        defaults::text(&mut spec.pod_management_policy, "OrderedReady");
        // upstream always prints it
        spec.service_name.get_or_insert_default();
        let strategy = spec.update_strategy.get_or_insert_default();
        defaults::text(&mut strategy.type_, "RollingUpdate");
        if strategy.type_.as_deref() == Some("RollingUpdate") {
            let rolling = strategy.rolling_update.get_or_insert_default();
            rolling.partition.get_or_insert(0);
        }
        let retention = spec.persistent_volume_claim_retention_policy.get_or_insert_default();
        defaults::text(&mut retention.when_deleted, "Retain");
        defaults::text(&mut retention.when_scaled, "Retain");
        for claim in spec.volume_claim_templates.iter_mut().flatten() {
            claim.set_defaults();
        }
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        self.status =
            Some(StatefulSetStatus { available_replicas: Some(0), ..StatefulSetStatus::default() });
    }

    preparation::updates_of_spec!();

    fn validate(&self) -> Vec<FieldError> {
        spec_errors(&self.spec, ErrorsOfNew::default(), &Path::new("spec"))
    }

    fn validate_created(&self) -> Vec<FieldError> {
        let field = Path::new("spec");
        let of_new = ErrorsOfNew {
            claims: claim_errors(&self.spec, &field.child("volumeClaimTemplates")),
            service: service_name_errors(&self.spec, &field.child("serviceName")),
        };
        spec_errors(&self.spec, of_new, &field)
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let mut before = old.spec.clone();
        let after = &self.spec;
        before.replicas = after.replicas;
        before.ordinals.clone_from(&after.ordinals);
        before.template.clone_from(&after.template);
        before.update_strategy.clone_from(&after.update_strategy);
        before.revision_history_limit = after.revision_history_limit;
        before
            .persistent_volume_claim_retention_policy
            .clone_from(&after.persistent_volume_claim_retention_policy);
        before.min_ready_seconds = after.min_ready_seconds;
        if before == *after {
            return Vec::new();
        }
        vec![FieldError::forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        )]
    }

    fn warnings(&self) -> Vec<String> {
        template::warnings(&self.spec.template, &template::field())
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let ready = self.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
        let [containers, images] = containers_and_images(self.spec.template.spec.as_ref());
        vec![
            text(self.metadata.name.as_ref()).into(),
            format!("{ready}/{}", self.spec.replicas.unwrap_or(1)).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
            containers,
            images,
        ]
    }
}

impl SubresourceStrategy<StatusPart> for StatefulSet {
    preparation::updates_of_status_and_metadata!();

    fn validate_part(&self, _old: &Self) -> Vec<FieldError> {
        self.status.as_ref().map_or_else(Vec::new, status_errors)
    }
}

fn service_name_errors(spec: &StatefulSetSpec, field: &Path) -> Vec<FieldError> {
    match text(spec.service_name.as_ref()) {
        "" => Vec::new(),
        name => invalid_each(field, name, names::dns_label(name)).collect(),
    }
}

/// What is wrong with fields that cannot change. An older StatefulSet may have any claims, and a
/// Service of any name.
#[derive(Default)]
struct ErrorsOfNew {
    claims: Vec<FieldError>,
    service: Vec<FieldError>,
}

fn spec_errors(spec: &StatefulSetSpec, of_new: ErrorsOfNew, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let management = text(spec.pod_management_policy.as_ref());
    if !matches!(management, "OrderedReady" | "Parallel") {
        let detail = "must be 'OrderedReady' or 'Parallel'";
        errors.push(FieldError::invalid(field.child("podManagementPolicy"), management, detail));
    }
    if let Some(strategy) = &spec.update_strategy {
        errors.extend(strategy_errors(strategy, &field.child("updateStrategy")));
    }
    if let Some(policy) = &spec.persistent_volume_claim_retention_policy {
        let field = field.child("persistentVolumeClaimRetentionPolicy");
        for (name, value) in
            [("whenDeleted", &policy.when_deleted), ("whenScaled", &policy.when_scaled)]
        {
            let value = text(value.as_ref());
            if !RETENTION.contains(&value) {
                errors.push(FieldError::not_supported(field.child(name), value, RETENTION));
            }
        }
    }
    errors.extend(of_new.claims);
    for (name, value) in [("replicas", spec.replicas), ("minReadySeconds", spec.min_ready_seconds)]
    {
        errors.extend(numbers::non_negative(value.unwrap_or(0), &field.child(name)));
    }
    let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
    errors.extend(numbers::non_negative(start, &field.child("ordinals").child("start")));
    errors.extend(of_new.service);
    let pods = with_claims(spec);
    errors.extend(template::check(PodMaker::StatefulSet, &spec.selector, &pods, field));
    errors
}

fn strategy_errors(strategy: &StatefulSetUpdateStrategy, field: &Path) -> Vec<FieldError> {
    let rolling_field = field.child("rollingUpdate");
    match (text(strategy.type_.as_ref()), &strategy.rolling_update) {
        ("OnDelete", None) | ("RollingUpdate", None) => Vec::new(),
        ("OnDelete", Some(rolling)) => vec![FieldError {
            field: rolling_field.into(),
            problem: FieldProblem::Invalid(
                serde_json::to_string(rolling).expect("two numbers are always JSON"),
            ),
            detail: "only allowed for updateStrategy 'RollingUpdate'".to_owned(),
        }],
        ("RollingUpdate", Some(rolling)) => rolling_errors(rolling, &rolling_field),
        _ => vec![FieldError {
            field: field.into(),
            problem: FieldProblem::Invalid(json(strategy)),
            detail: "must be 'RollingUpdate' or 'OnDelete'".to_owned(),
        }],
    }
}

fn rolling_errors(rolling: &RollingUpdateStatefulSetStrategy, field: &Path) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> =
        numbers::non_negative(rolling.partition.unwrap_or(0), &field.child("partition"))
            .into_iter()
            .collect();
    if let Some(amount) = &rolling.max_unavailable {
        let field = field.child("maxUnavailable");
        errors.extend(amounts::check(amount, &field));
        if amounts::is_zero(amount) {
            errors.push(FieldError::invalid(&field, amounts::shown(amount), "cannot be 0"));
        }
        errors.extend(amounts::at_most_all(amount, &field));
    }
    errors
}

/// What would be refused when the claims are made, said now.
fn claim_errors(spec: &StatefulSetSpec, field: &Path) -> Vec<FieldError> {
    let none = PersistentVolumeClaimSpec::default();
    let mut errors = Vec::new();
    for (index, template) in items(spec.volume_claim_templates.as_ref()).iter().enumerate() {
        // its name is looked at as that of a volume
        let claim = template.spec.as_ref().unwrap_or(&none);
        errors.extend(storage::claim_errors(claim, &field.index(index).child("spec")));
    }
    errors
}

/// The template with a volume for each claim, as its pods will have them: what mounts a claim by
/// its template's name is right.
fn with_claims(spec: &StatefulSetSpec) -> PodTemplateSpec {
    let mut template = spec.template.clone();
    let Some(pods) = &mut template.spec else { return template };
    let own = pods.volumes.iter().flatten();
    let mut taken: ListKeys<String> = own.map(|volume| volume.name.clone()).collect();
    for claim in spec.volume_claim_templates.iter().flatten() {
        let name = text(claim.metadata.name.as_ref());
        let volumes = pods.volumes.get_or_insert_default();
        if taken.add(name.to_owned()).is_none() {
            volumes.push(Volume {
                name: name.to_owned(),
                persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                    claim_name: name.to_owned(),
                    read_only: None,
                }),
                ..Volume::default()
            });
        }
    }
    template
}

fn status_errors(status: &StatefulSetStatus) -> Vec<FieldError> {
    let counts = [
        ("replicas", status.replicas),
        ("readyReplicas", status.ready_replicas.unwrap_or(0)),
        ("currentReplicas", status.current_replicas.unwrap_or(0)),
        ("updatedReplicas", status.updated_replicas.unwrap_or(0)),
        ("availableReplicas", status.available_replicas.unwrap_or(0)),
        ("collisionCount", status.collision_count.unwrap_or(0)),
    ];
    let parts = [
        PartialCount::of_all("readyReplicas"),
        PartialCount::of_all("currentReplicas"),
        PartialCount::of_all("updatedReplicas"),
        PartialCount::of_all("availableReplicas"),
        PartialCount {
            name: "availableReplicas",
            of: "readyReplicas",
            called: "status.readyReplicas",
        },
    ];
    status_counts::check(&counts, &parts)
}
