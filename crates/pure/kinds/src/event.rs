//! Event (core/v1).

use k8s_openapi::api::core::v1::{Event, EventSource};
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{ObjectJson, Tick};

use crate::registry::object_meta::FinalizerRule;
use crate::registry::resource::{
    ApiKind, MetadataChecks, ResourceNames, ResourceScope, TableCell, TableColumn,
};
use crate::table::{NAME, column, translate, wide};
use crate::validation::{Path, invalid_each, names, text};

/// The longest message, as for events.k8s.io/v1.
const MESSAGE_BYTES_MAX: usize = 1024 * 64;

/// The longest reason, action and instance of an event that says when it happened.
const WORD_BYTES_MAX: usize = 128;
/// Its longest message.
const NOTE_BYTES_MAX: usize = 1024;
/// The field of who reported it, as the core group calls it.
pub(super) const REPORTER: &str = "reportingComponent";

impl ApiKind for Event {
    const NAMES: ResourceNames = ResourceNames {
        singular: "event",
        short_names: &["ev"],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const CREATES_ON_UPDATE: bool = true;
    const FINALIZERS: FinalizerRule = FinalizerRule::Any;
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfMachinery;
    const COLUMNS: &'static [TableColumn] = &[
        column(
            "Last Seen",
            "string",
            "The time at which the most recent occurrence of this event was recorded.",
        ),
        column("Type", "string", "Type of this event (Normal, Warning)."),
        column("Reason", "string", "Why the event was made, in one word for machines."),
        column("Object", "string", "The object that this event is about."),
        wide("Subobject", "string", "The part of the object that the event is about."),
        wide("Source", "string", "The component reporting this event."),
        column("Message", "string", "A human-readable description of the event."),
        wide("First Seen", "string", "The time at which the event was first recorded."),
        wide("Count", "string", "The number of times this event has occurred."),
        TableColumn { priority: 1, ..NAME },
    ];
    const SELECTABLE_FIELDS: &'static [&'static str] = &[
        "involvedObject.apiVersion",
        "involvedObject.fieldPath",
        "involvedObject.kind",
        "involvedObject.name",
        "involvedObject.namespace",
        "involvedObject.resourceVersion",
        "involvedObject.uid",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ];

    fn set_defaults(&mut self) {
        self.source.get_or_insert_default();
        self.reporting_component.get_or_insert_default();
        self.reporting_instance.get_or_insert_default();
    }

    /// Upstream prints who reports also where nothing does; nothing owns that.
    fn tracked_value(&self) -> serde_json::Value {
        let mut said = self.clone();
        said.reporting_component.take_if(|name| name.is_empty());
        said.reporting_instance.take_if(|name| name.is_empty());
        ObjectJson::to_value(&said)
    }

    fn nulls(&self) -> Vec<&'static str> {
        let times = [
            ("eventTime", self.event_time.is_none()),
            ("firstTimestamp", self.first_timestamp.is_none()),
            ("lastTimestamp", self.last_timestamp.is_none()),
        ];
        times.into_iter().filter(|(_, is_absent)| *is_absent).map(|(name, _)| name).collect()
    }

    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let field = Path::new("involvedObject").child("namespace");
        let own = text(self.metadata.namespace.as_ref());
        let involved = text(self.involved_object.namespace.as_ref());
        let fits = if involved.is_empty() {
            // Events about cluster-scoped objects live here.
            own == "default" || self.event_time.is_some() && own == "kube-system"
        } else {
            self.event_time.is_some() || own == involved
        };
        if !fits {
            errors.push(FieldError::invalid(field, involved, "does not match event.namespace"));
        }
        if self.event_time.is_some() {
            errors.extend(new_form_errors(self));
        } else if text(self.message.as_ref()).len() > MESSAGE_BYTES_MAX {
            errors.push(FieldError::too_long("message", MESSAGE_BYTES_MAX));
        }
        errors
    }

    fn selectable_fields(&self) -> Vec<(&'static str, String)> {
        let object = &self.involved_object;
        let source = source_component(self.source.as_ref());
        let reporter = text(self.reporting_component.as_ref());
        let fields = [
            ("involvedObject.apiVersion", text(object.api_version.as_ref())),
            ("involvedObject.fieldPath", text(object.field_path.as_ref())),
            ("involvedObject.kind", text(object.kind.as_ref())),
            ("involvedObject.name", text(object.name.as_ref())),
            ("involvedObject.namespace", text(object.namespace.as_ref())),
            ("involvedObject.resourceVersion", text(object.resource_version.as_ref())),
            ("involvedObject.uid", text(object.uid.as_ref())),
            ("reason", text(self.reason.as_ref())),
            ("reportingComponent", reporter),
            ("source", if source.is_empty() { reporter } else { source }),
            ("type", text(self.type_.as_ref())),
        ];
        fields.into_iter().map(|(name, value)| (name, value.to_owned())).collect()
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let event_time = self.event_time.as_ref().map(Tick::from);
        let first = self.first_timestamp.as_ref().map(Tick::from).or(event_time);
        let last = match &self.series {
            Some(series) => series.last_observed_time.as_ref().map(Tick::from),
            None => self.last_timestamp.as_ref().map(Tick::from).or(first),
        };
        let count = match &self.series {
            Some(series) => series.count.unwrap_or(0),
            None => self.count.unwrap_or(0).max(1),
        };
        let object = &self.involved_object;
        let kind = text(object.kind.as_ref()).to_lowercase();
        let target = match text(object.name.as_ref()) {
            "" => kind,
            name => format!("{kind}/{name}"),
        };
        vec![
            translate(last, now).into(),
            text(self.type_.as_ref()).into(),
            text(self.reason.as_ref()).into(),
            target.into(),
            text(object.field_path.as_ref()).into(),
            reporter(self).into(),
            text(self.message.as_ref()).trim().into(),
            translate(first, now).into(),
            count.into(),
            text(self.metadata.name.as_ref()).into(),
        ]
    }
}

/// What is wrong with an event that says when it happened, as those of events.k8s.io do.
fn new_form_errors(event: &Event) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let reporter = text(event.reporting_component.as_ref());
    if reporter.is_empty() {
        errors.push(FieldError::required(REPORTER, ""));
    }
    errors.extend(invalid_each(&Path::new(REPORTER), reporter, names::qualified(reporter)));
    for (field, value) in [
        ("reportingInstance", &event.reporting_instance),
        ("action", &event.action),
        ("reason", &event.reason),
    ] {
        let value = text(value.as_ref());
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        }
        errors.extend(too_long(field, value, WORD_BYTES_MAX));
    }
    errors.extend(too_long("message", text(event.message.as_ref()), NOTE_BYTES_MAX));
    errors
}

fn too_long(field: &str, value: &str, max: usize) -> Option<FieldError> {
    let why = format!("can have at most {max} characters");
    (value.len() > max).then(|| FieldError::invalid(field, "", why))
}

fn source_component(source: Option<&EventSource>) -> &str {
    text(source.and_then(|source| source.component.as_ref()))
}

/// Who reported the event, in the old fields or in the new.
fn reporter(event: &Event) -> String {
    let component = match source_component(event.source.as_ref()) {
        "" => text(event.reporting_component.as_ref()),
        component => component,
    };
    let host = match text(event.source.as_ref().and_then(|source| source.host.as_ref())) {
        "" => text(event.reporting_instance.as_ref()),
        host => host,
    };
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}
