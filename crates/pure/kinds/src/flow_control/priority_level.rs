//! PriorityLevelConfiguration (flowcontrol.apiserver.k8s.io/v1).

use k8s_openapi::api::flowcontrol::v1::{
    LimitedPriorityLevelConfiguration, PriorityLevelConfiguration, PriorityLevelConfigurationSpec,
    PriorityLevelConfigurationStatus, QueuingConfiguration,
};
use rekindle_flow_control::{HASH_BITS_MAX, defaults, entropy_bits};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::mandatory_errors;
use crate::preparation;
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, text};

const LIMITED: &str = "Limited";
const EXEMPT: &str = "Exempt";
/// The most queues of a level.
const QUEUES_MAX: i32 = 10_000_000;

impl ApiKind for PriorityLevelConfiguration {
    const NAMES: ResourceNames = ResourceNames {
        singular: "prioritylevelconfiguration",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfObject;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Type", "string", "Whether the level is limited."),
        column("NominalConcurrencyShares", "string", "The level's part of all requests."),
        column("Queues", "string", "The number of queues."),
        column("HandSize", "string", "The number of queues that a flow may be put into."),
        column("QueueLengthLimit", "string", "The longest that a queue may be."),
        AGE,
    ];

    fn set_defaults(&mut self) {
        let spec = &mut self.spec;
        if let Some(exempt) = &mut spec.exempt {
            exempt.nominal_concurrency_shares.get_or_insert(0);
            exempt.lendable_percent.get_or_insert(0);
        }
        if let Some(limited) = &mut spec.limited {
            limited.nominal_concurrency_shares.get_or_insert(30);
            limited.lendable_percent.get_or_insert(0);
            if let Some(queuing) = &mut limited.limit_response.queuing {
                for (slot, default) in [
                    (&mut queuing.queues, 64),
                    (&mut queuing.hand_size, 8),
                    (&mut queuing.queue_length_limit, 50),
                ] {
                    crate::defaults::number(slot, default);
                }
            }
        }
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        self.status = Some(PriorityLevelConfigurationStatus::default());
    }

    preparation::updates_of_spec!();

    fn validate(&self) -> Vec<FieldError> {
        let field = Path::new("spec");
        let is_exempt = text(self.metadata.name.as_ref()) == defaults::EXEMPT;
        let mut errors = Vec::new();
        // another type than these two has an error of its own
        if [EXEMPT, LIMITED].contains(&self.spec.type_.as_str())
            && is_exempt != (self.spec.type_ == EXEMPT)
        {
            let why = "type must be 'Exempt' if and only if name is 'exempt'";
            errors.push(FieldError::invalid(field.child("type"), &self.spec.type_, why));
        }
        errors.extend(spec_errors(&self.spec, &field));
        errors.extend(mandatory_errors(self, |level| &level.spec));
        errors
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let limited = self.spec.limited.as_ref();
        let queuing = limited.and_then(|limited| limited.limit_response.queuing.as_ref());
        let number = |number: Option<i32>| {
            TableCell::from(number.map_or_else(|| "<none>".to_owned(), |number| number.to_string()))
        };
        vec![
            text(self.metadata.name.as_ref()).into(),
            self.spec.type_.as_str().into(),
            number(limited.and_then(|limited| limited.nominal_concurrency_shares)),
            number(queuing.and_then(|queuing| queuing.queues)),
            number(queuing.and_then(|queuing| queuing.hand_size)),
            number(queuing.and_then(|queuing| queuing.queue_length_limit)),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for PriorityLevelConfiguration {
    preparation::updates_of_status_alone!();
}

fn spec_errors(spec: &PriorityLevelConfigurationSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match spec.type_.as_str() {
        EXEMPT => {
            if spec.limited.is_some() {
                let why = "must be nil if the type is not Limited";
                errors.push(FieldError::forbidden(field.child("limited"), why));
            }
        }
        LIMITED => {
            if spec.exempt.is_some() {
                let why = "must be nil if the type is Limited";
                errors.push(FieldError::forbidden(field.child("exempt"), why));
            }
            match &spec.limited {
                Some(limited) => errors.extend(limited_errors(limited, &field.child("limited"))),
                None => {
                    let why = "must not be empty when type is Limited";
                    errors.push(FieldError::required(field.child("limited"), why));
                }
            }
        }
        other => {
            let types = [EXEMPT, LIMITED];
            errors.push(FieldError::not_supported(field.child("type"), other, &types));
        }
    }
    errors
}

fn limited_errors(limited: &LimitedPriorityLevelConfiguration, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(shares) = limited.nominal_concurrency_shares.filter(|shares| *shares < 0) {
        let field = field.child("nominalConcurrencyShares");
        errors.push(FieldError::invalid(field, shares, "must be a non-negative integer"));
    }
    let response = &limited.limit_response;
    let of_response = field.child("limitResponse");
    match (response.type_.as_str(), &response.queuing) {
        ("Reject", Some(_)) => {
            let why = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(FieldError::forbidden(of_response.child("queuing"), why));
        }
        ("Reject", None) => {}
        ("Queue", Some(queuing)) => {
            errors.extend(queuing_errors(queuing, &of_response.child("queuing")));
        }
        ("Queue", None) => {
            let why = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(FieldError::required(of_response.child("queuing"), why));
        }
        (other, _) => {
            let types = ["Queue", "Reject"];
            errors.push(FieldError::not_supported(of_response.child("type"), other, &types));
        }
    }
    if let Some(percent) = limited.lendable_percent.filter(|percent| !(0..=100).contains(percent)) {
        let field = field.child("lendablePercent");
        errors.push(FieldError::invalid(field, percent, "must be between 0 and 100, inclusive"));
    }
    if let Some(percent) = limited.borrowing_limit_percent.filter(|percent| *percent < 0) {
        let why = "if specified, must be a non-negative integer";
        errors.push(FieldError::invalid(field.child("borrowingLimitPercent"), percent, why));
    }
    errors
}

fn queuing_errors(queuing: &QueuingConfiguration, field: &Path) -> Vec<FieldError> {
    let [queues, hand, length] = [queuing.queues, queuing.hand_size, queuing.queue_length_limit]
        .map(Option::unwrap_or_default);
    let mut errors = Vec::new();
    if length <= 0 {
        let field = field.child("queueLengthLimit");
        errors.push(FieldError::invalid(field, length, "must be positive"));
    }
    if queues <= 0 {
        errors.push(FieldError::invalid(field.child("queues"), queues, "must be positive"));
    } else if queues > QUEUES_MAX {
        let why = format!("must not be greater than {QUEUES_MAX}");
        errors.push(FieldError::invalid(field.child("queues"), queues, why));
    }
    if hand <= 0 {
        errors.push(FieldError::invalid(field.child("handSize"), hand, "must be positive"));
    } else if hand > queues {
        let why = format!("should not be greater than queues ({queues})");
        errors.push(FieldError::invalid(field.child("handSize"), hand, why));
    } else if entropy_bits(queues.unsigned_abs(), hand.unsigned_abs()) > HASH_BITS_MAX {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS_MAX}"
        );
        errors.push(FieldError::invalid(field.child("handSize"), hand, why));
    }
    errors
}
