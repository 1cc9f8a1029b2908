//! Event of events.k8s.io/v1: another view of the core Event, with stricter rules for new ones.
//!
//! Source: upstream's `pkg/apis/events/v1/conversion.go` and `pkg/apis/core/validation/events.go`.

use k8s_openapi::api::core::v1::{Event, EventSeries as CoreSeries};
use k8s_openapi::api::events::v1::{Event as EventsEvent, EventSeries};
use rekindle_types::validation::field_error::{FieldError, FieldProblem};
use serde_json::{Value, json};

use super::event::REPORTER;
use crate::registry::KindView;
use crate::registry::object_meta::{self, MetadataRules};
use crate::registry::resource::ApiKind;
use crate::validation::{Path, text};

const TYPES: [&str; 2] = ["Normal", "Warning"];
const SERIES_COUNT_MIN: i32 = 2;

impl KindView for EventsEvent {
    type Stored = Event;

    fn of_stored(stored: &Event) -> Self {
        let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Self {
            action: said(&stored.action),
            deprecated_count: stored.count,
            deprecated_first_timestamp: stored.first_timestamp.clone(),
            deprecated_last_timestamp: stored.last_timestamp.clone(),
            deprecated_source: stored.source.clone(),
            event_time: stored.event_time.clone(),
            metadata: stored.metadata.clone(),
            note: said(&stored.message),
            reason: said(&stored.reason),
            regarding: Some(stored.involved_object.clone()),
            related: stored.related.clone(),
            reporting_controller: said(&stored.reporting_component),
            reporting_instance: said(&stored.reporting_instance),
            series: stored.series.as_ref().and_then(|series| {
                let last_observed_time = series.last_observed_time.clone()?;
                Some(EventSeries { count: series.count.unwrap_or_default(), last_observed_time })
            }),
            type_: said(&stored.type_),
        }
    }

    fn into_stored(self) -> Event {
        Event {
            action: self.action,
            count: self.deprecated_count,
            event_time: self.event_time,
            first_timestamp: self.deprecated_first_timestamp,
            involved_object: self.regarding.unwrap_or_default(),
            last_timestamp: self.deprecated_last_timestamp,
            message: self.note,
            metadata: self.metadata,
            reason: self.reason,
            related: self.related,
            reporting_component: self.reporting_controller,
            reporting_instance: self.reporting_instance,
            series: self.series.map(|series| CoreSeries {
                count: Some(series.count),
                last_observed_time: Some(series.last_observed_time),
            }),
            source: self.deprecated_source,
            type_: self.type_,
        }
    }

    fn nulls(&self) -> Vec<&'static str> {
        let times = [
            ("deprecatedFirstTimestamp", self.deprecated_first_timestamp.is_none()),
            ("deprecatedLastTimestamp", self.deprecated_last_timestamp.is_none()),
            ("eventTime", self.event_time.is_none()),
        ];
        times.into_iter().filter(|(_, is_absent)| *is_absent).map(|(name, _)| name).collect()
    }

    fn rename_fields(errors: &mut [FieldError]) {
        for error in errors.iter_mut().filter(|error| error.field == REPORTER) {
            "reportingController".clone_into(&mut error.field);
        }
    }

    fn validate_new(stored: &Event) -> Vec<FieldError> {
        let rules = MetadataRules {
            name: Event::NAME_RULE,
            scope: Event::NAMES.scope,
            finalizers: Event::FINALIZERS,
            checks: Event::METADATA_CHECKS,
        };
        let mut errors = object_meta::check(&stored.metadata, &rules, &Path::new("metadata"));
        errors.extend(series_error(stored));
        if stored.event_time.is_none() {
            errors.push(FieldError::required("eventTime", ""));
        }
        let of_type = text(stored.type_.as_ref());
        if !TYPES.contains(&of_type) {
            errors.push(FieldError::invalid("type", "", format!("has invalid value: {of_type}")));
        }
        let source = stored.source.as_ref();
        let has_source = source.is_some_and(|source| {
            !text(source.component.as_ref()).is_empty() || !text(source.host.as_ref()).is_empty()
        });
        for (field, is_set) in [
            ("firstTimestamp", stored.first_timestamp.is_some()),
            ("lastTimestamp", stored.last_timestamp.is_some()),
            ("count", stored.count.is_some_and(|count| count != 0)),
            ("source", has_source),
        ] {
            if is_set {
                errors.push(FieldError::invalid(field, "", "needs to be unset"));
            }
        }
        errors
    }

    fn validate_update(stored: &Event, old: &Event) -> Vec<FieldError> {
        let series = series_error(stored).filter(|_| stored.series != old.series);
        let changed = fixed_fields(stored).into_iter().zip(fixed_fields(old));
        let changed = changed.filter(|(new, old)| new != old);
        series
            .into_iter()
            .chain(changed.map(|((field, value), _)| FieldError {
                field: field.to_owned(),
                problem: FieldProblem::Invalid(value.to_string()),
                detail: object_meta::IMMUTABLE.to_owned(),
            }))
            .collect()
    }
}

/// What no update may change, as errors show it.
fn fixed_fields(event: &Event) -> [(&'static str, Value); 14] {
    let said = |field: &Option<String>| Value::from(text(field.as_ref()));
    [
        ("involvedObject", json!(event.involved_object)),
        ("reason", said(&event.reason)),
        ("message", said(&event.message)),
        ("source", json!(event.source)),
        ("firstTimestamp", json!(event.first_timestamp)),
        ("lastTimestamp", json!(event.last_timestamp)),
        ("count", json!(event.count.unwrap_or_default())),
        // upstream names it twice
        ("reason", said(&event.reason)),
        ("type", said(&event.type_)),
        ("eventTime", json!(event.event_time)),
        ("action", said(&event.action)),
        ("related", json!(event.related)),
        ("reportingController", said(&event.reporting_component)),
        ("reportingInstance", said(&event.reporting_instance)),
    ]
}

/// What happened once is no series.
fn series_error(event: &Event) -> Option<FieldError> {
    let count = event.series.as_ref()?.count.unwrap_or_default();
    let why = format!("should be at least {SERIES_COUNT_MIN}");
    (count < SERIES_COUNT_MIN).then(|| FieldError::invalid("series.count", "", why))
}
