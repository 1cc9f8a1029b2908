//! APIService (apiregistration.k8s.io/v1): which server answers for a group version, this one or
//! one behind a Service. `api_services` of the API keeps those of this server, and sends requests
//! to the others.
//!
//! Wording and order of mistakes follow upstream's `kube-aggregator/pkg/apis/apiregistration`.

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{
    APIService, APIServiceCondition, APIServiceSpec, APIServiceStatus, ServiceReference,
};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::defaults;
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column};
use crate::validation::names::NameRule;
use crate::validation::{Path, invalid_each, items, names, text};

/// The group of the kind.
pub const GROUP: &str = "apiregistration.k8s.io";
/// Its resource.
pub const PLURAL: &str = "apiservices";

/// The port of a Service when its reference names none.
pub const HTTPS_PORT: i32 = 443;
const GROUP_PRIORITY_MAX: i32 = 20_000;
const VERSION_PRIORITY_MAX: i32 = 1_000;
/// The condition that says whether the server answers.
const AVAILABLE: &str = "Available";

impl ApiKind for APIService {
    const NAMES: ResourceNames = ResourceNames {
        singular: "apiservice",
        short_names: &[],
        categories: &["api-extensions"],
        scope: ResourceScope::Cluster,
    };
    const NAME_RULE: NameRule = NameRule::PathSegment;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Service", "string", "The Service of the server that answers, or Local."),
        column("Available", "string", "Whether the server answers."),
        AGE,
    ];

    fn set_defaults(&mut self) {
        let service = self.spec.as_mut().and_then(|spec| spec.service.as_mut());
        if let Some(service) = service {
            defaults::number(&mut service.port, HTTPS_PORT);
        }
    }

    /// This server is available at once. Another one is asked first.
    fn prepare_for_create(&mut self, ctx: &RequestContext<'_>) {
        self.status = Some(APIServiceStatus::default());
        if service_of(self).is_none() {
            set_local(self, ctx.now);
        }
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.status.clone_from(&old.status);
    }

    fn validate(&self) -> Vec<FieldError> {
        let spec = self.spec.clone().unwrap_or_default();
        let mut errors = name_errors(text(self.metadata.name.as_ref()), &spec);
        errors.extend(group_version_errors(&spec));
        errors.extend(server_errors(&spec, &Path::new("spec")));
        errors
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let service = service_of(self).map(|service| {
            let part = |part: &Option<String>| text(part.as_ref()).to_owned();
            format!("{}/{}", part(&service.namespace), part(&service.name))
        });
        vec![
            text(self.metadata.name.as_ref()).into(),
            service.unwrap_or_else(|| "Local".to_owned()).into(),
            shown_availability(self).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for APIService {
    /// Who writes the status changes nothing else.
    fn prepare_part(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.spec.clone_from(&old.spec);
        let (meta, old) = (&mut self.metadata, &old.metadata);
        meta.labels.clone_from(&old.labels);
        meta.annotations.clone_from(&old.annotations);
        meta.finalizers.clone_from(&old.finalizers);
        meta.owner_references.clone_from(&old.owner_references);
    }

    fn validate_part(&self, _old: &Self) -> Vec<FieldError> {
        let field = Path::new("status").child("conditions");
        let mut errors = Vec::new();
        for (index, condition) in conditions(self).iter().enumerate() {
            if !matches!(condition.status.as_str(), "True" | "False" | "Unknown") {
                let field = field.index(index).child("status");
                let known = ["True", "False", "Unknown"];
                errors.push(FieldError::not_supported(field, &condition.status, &known));
            }
        }
        errors
    }
}

/// The name must say which group version it is.
fn name_errors(name: &str, spec: &APIServiceSpec) -> Vec<FieldError> {
    let required = name_of(text(spec.group.as_ref()), text(spec.version.as_ref()));
    if !names::path_segment(name).is_empty() || name == required {
        return Vec::new();
    }
    let why = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
    vec![FieldError::invalid(Path::new("metadata").child("name"), name, why)]
}

fn group_version_errors(spec: &APIServiceSpec) -> Vec<FieldError> {
    let field = Path::new("spec");
    let (group, version) = (text(spec.group.as_ref()), text(spec.version.as_ref()));
    let mut errors = Vec::new();
    if group.is_empty() && version != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required(field.child("group"), why));
    }
    if !group.is_empty() {
        errors.extend(invalid_each(&field.child("group"), group, names::dns_subdomain(group)));
    }
    errors.extend(invalid_each(&field.child("version"), version, names::dns_1035_label(version)));
    for (name, value, max) in [
        ("groupPriorityMinimum", spec.group_priority_minimum, GROUP_PRIORITY_MAX),
        ("versionPriority", spec.version_priority, VERSION_PRIORITY_MAX),
    ] {
        if !(1..=max).contains(&value) {
            let why = format!("must be positive and less than {max}");
            errors.push(FieldError::invalid(field.child(name), value, why));
        }
    }
    errors
}

fn server_errors(spec: &APIServiceSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let bundle_bytes = spec.ca_bundle.as_ref().map_or(0, |bundle| bundle.0.len());
    let skips = spec.insecure_skip_tls_verify == Some(true);
    let of_skip = field.child("insecureSkipTLSVerify");
    let Some(service) = &spec.service else {
        if bundle_bytes > 0 {
            let value = format!("{bundle_bytes} bytes");
            let why = "local APIServices may not have a caBundle";
            errors.push(FieldError::invalid(field.child("caBundle"), value, why));
        }
        if skips {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid(of_skip, true, why));
        }
        return errors;
    };
    for (name, value) in [("namespace", &service.namespace), ("name", &service.name)] {
        if text(value.as_ref()).is_empty() {
            errors.push(FieldError::required(field.child("service").child(name), ""));
        }
    }
    if skips && bundle_bytes > 0 {
        let why = "may not be true if caBundle is present";
        errors.push(FieldError::invalid(of_skip, true, why));
    }
    errors
}

/// What the APIService of a group version is called.
pub fn name_of(group: &str, version: &str) -> String {
    [version, ".", group].concat()
}

/// The Service of the server that answers; none when this server does.
pub fn service_of(api_service: &APIService) -> Option<&ServiceReference> {
    api_service.spec.as_ref()?.service.as_ref()
}

/// Whether a server answers, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAvailability {
    /// Whether requests are sent to it.
    pub is_available: bool,
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

impl ServerAvailability {
    fn local() -> Self {
        let message = "Local APIServices are always available".to_owned();
        Self { is_available: true, reason: "Local", message }
    }

    /// Its discovery was read.
    pub fn passed() -> Self {
        Self { is_available: true, reason: "Passed", message: "all checks passed".to_owned() }
    }

    /// One that cannot be reached, and why.
    pub const fn unavailable(reason: &'static str, message: String) -> Self {
        Self { is_available: false, reason, message }
    }
}

/// Writes the condition of what this server answers for.
pub fn set_local(api_service: &mut APIService, now: Tick) {
    set_available(api_service, &ServerAvailability::local(), now);
}

/// Writes the condition. Its time changes with its status only.
pub fn set_available(api_service: &mut APIService, availability: &ServerAvailability, now: Tick) {
    let status = if availability.is_available { "True" } else { "False" };
    let all = api_service.status.get_or_insert_default().conditions.get_or_insert_default();
    let at = all.iter().position(|condition| condition.type_ == AVAILABLE);
    let same_since = at.map(|at| &all[at]).filter(|old| old.status == status);
    let condition = APIServiceCondition {
        type_: AVAILABLE.to_owned(),
        status: status.to_owned(),
        reason: Some(availability.reason.to_owned()),
        message: Some(availability.message.clone()),
        last_transition_time: same_since
            .and_then(|old| old.last_transition_time.clone())
            .or_else(|| Some(now.to_time())),
    };
    match at {
        Some(at) => all[at] = condition,
        None => all.push(condition),
    }
}

fn conditions(api_service: &APIService) -> &[APIServiceCondition] {
    api_service.status.as_ref().map_or(&[], |status| items(status.conditions.as_ref()))
}

fn availability(api_service: &APIService) -> Option<&APIServiceCondition> {
    conditions(api_service).iter().find(|condition| condition.type_ == AVAILABLE)
}

/// Whether requests are sent to its server.
pub fn is_available(api_service: &APIService) -> bool {
    availability(api_service).is_some_and(|condition| condition.status == "True")
}

/// `False (MissingEndpoints)`.
fn shown_availability(api_service: &APIService) -> String {
    let Some(condition) = availability(api_service) else { return "Unknown".to_owned() };
    match text(condition.reason.as_ref()) {
        reason if condition.status != "True" && !reason.is_empty() => {
            format!("{} ({reason})", condition.status)
        }
        _ => condition.status.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of_spec(name: &str, spec: Value) -> APIService {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    fn shown(api_service: &APIService) -> Vec<String> {
        api_service.validate().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn mistakes_read_as_upstream() {
        let service = json!({"name": "a", "namespace": "b"});
        let whole = json!({
            "group": "example.org", "version": "v1", "groupPriorityMinimum": 1,
            "versionPriority": 1000, "service": service,
        });
        for (field, value, expected) in [
            ("caBundle", json!("YQ=="), ""),
            (
                "group",
                json!("Example"),
                "metadata.name: Invalid value: \"v1.example.org\": must be `spec.version+\".\"+spec.group`: \"v1.Example\"",
            ),
            (
                "group",
                json!(""),
                "metadata.name: Invalid value: \"v1.example.org\": must be `spec.version+\".\"+spec.group`: \"v1.\"",
            ),
            (
                "groupPriorityMinimum",
                json!(0),
                "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
            ),
            (
                "versionPriority",
                json!(1001),
                "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
            ),
            ("service", json!({"name": "a"}), "spec.service.namespace: Required value"),
            ("service", json!({"namespace": "a"}), "spec.service.name: Required value"),
        ] {
            let mut spec = whole.clone();
            spec[field] = value;
            let found = shown(&of_spec("v1.example.org", spec)).into_iter().next();
            assert_eq!(found.unwrap_or_default(), expected, "{field}");
        }
        let mut both = whole.clone();
        (both["caBundle"], both["insecureSkipTLSVerify"]) = (json!("YQ=="), json!(true));
        let refused = "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present";
        assert_eq!(shown(&of_spec("v1.example.org", both.clone())), [refused]);
        both.as_object_mut().unwrap().remove("service");
        assert_eq!(
            shown(&of_spec("v1.example.org", both)),
            [
                "spec.caBundle: Invalid value: \"1 bytes\": local APIServices may not have a caBundle",
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
            ]
        );
    }

    #[test]
    fn a_condition_keeps_the_time_of_its_last_transition() {
        let mut api_service = APIService::default();
        let down = |message: &str| {
            ServerAvailability::unavailable("FailedDiscoveryCheck", message.to_owned())
        };
        set_available(&mut api_service, &down("once"), Tick::from_secs(1));
        set_available(&mut api_service, &down("again"), Tick::from_secs(2));
        assert_eq!(shown_availability(&api_service), "False (FailedDiscoveryCheck)");
        let condition = availability(&api_service).unwrap();
        assert_eq!(condition.message.as_deref(), Some("again"));
        assert_eq!(condition.last_transition_time, Some(Tick::from_secs(1).to_time()));
        set_available(&mut api_service, &ServerAvailability::passed(), Tick::from_secs(3));
        let condition = availability(&api_service).unwrap();
        assert_eq!(condition.last_transition_time, Some(Tick::from_secs(3).to_time()));
        assert!(is_available(&api_service));
        assert_eq!(shown_availability(&api_service), "True");
    }

    #[test]
    fn the_status_decides_nothing_else() {
        let old = of_spec("v1.a", json!({"group": "a", "version": "v1"}));
        let mut new = of_spec("v1.a", json!({"group": "b"}));
        new.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        let condition = APIServiceCondition { status: "Maybe".to_owned(), ..Default::default() };
        new.status = Some(APIServiceStatus { conditions: Some(vec![condition]) });
        let identity = &crate::identity::ClientIdentity::Anonymous;
        new.prepare_part(&old, &RequestContext { now: Tick::ZERO, identity });
        assert_eq!((&new.spec, &new.metadata), (&old.spec, &old.metadata));
        let errors = new.validate_part(&old);
        let expected = "status.conditions[0].status: Unsupported value: \"Maybe\": supported values: \"True\", \"False\", \"Unknown\"";
        assert_eq!(errors[0].to_string(), expected);
    }
}
