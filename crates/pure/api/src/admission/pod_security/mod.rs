//! Pod Security admission: the labels `pod-security.kubernetes.io/…` of a namespace limit what its
//! pods may ask for.
//!
//! ```text
//!   labels of the namespace ── policy ──┐
//!   configuration (defaults) ───────────┤
//!                                       ├── enforce  refuses a pod
//!   pod, or the template of a workload ─┤── warn     warns of both
//!     controls, each with versions      └── audit    counts and annotates both
//! ```
//! Namespaces are checked, too: wrong labels are refused, and a namespace that begins to enforce
//! more warns of the pods in it. Source: KEP-2579 and upstream's
//! `pod-security-admission/admission`.

mod configuration;
mod controls;
mod existing_pods;
mod figures;
mod policy;
mod subject;

use std::sync::OnceLock;

pub use configuration::{PodSecurityConfiguration, PodSecurityConfigurationError};
use controls::PodUnderReview;
use figures::{PodSecurityFigures, ReviewedRequest};
use k8s_openapi::api::core::v1::Namespace;
use policy::{
    LevelAtVersion, NamespacePolicy, PolicyLevel, PolicyMode, level_label, version_label,
};
use rekindle_kinds::registry::AnyObject;
use rekindle_metrics::Text;
use rekindle_types::validation::field_error::FieldError;

use super::ObjectWrite;
use crate::call::{ApiCall, ObjectPart};
use crate::status::ApiError;
use crate::{keys, object_meta};

/// The state of Pod Security admission: its configuration and its counters.
#[derive(Debug, Default)]
pub(crate) struct PodSecurity {
    configuration: OnceLock<PodSecurityConfiguration>,
    figures: PodSecurityFigures,
}

impl PodSecurity {
    /// Takes a configuration, once. The first one stays.
    pub(crate) fn configure(&self, configuration: PodSecurityConfiguration) {
        self.configuration.get_or_init(|| configuration);
    }

    /// Writes the counters as text.
    pub(crate) fn write_figures(&self, text: &mut Text) {
        self.figures.write(text);
    }

    fn configuration(&self) -> &PodSecurityConfiguration {
        self.configuration.get_or_init(PodSecurityConfiguration::default)
    }
}

/// Refuses a pod or namespace that may not be, and gives the warnings about what is let in.
pub(super) fn check(write: &ObjectWrite<'_>) -> Result<Vec<String>, ApiError> {
    match write.old {
        None => check_create(write.call, write.new),
        Some(old) => check_update(write.call, write.part, write.new, old),
    }
}

fn check_create(call: &ApiCall<'_>, object: &dyn AnyObject) -> Result<Vec<String>, ApiError> {
    let review = PodSecurityReview::new(call, "create");
    if let Some(namespace) = object.as_any().downcast_ref::<Namespace>() {
        review.new_namespace(namespace)
    } else if subject::pod(object).is_some() {
        review.pod(object)
    } else {
        review.template(object)
    }
}

fn check_update(
    call: &ApiCall<'_>,
    part: ObjectPart,
    new: &dyn AnyObject,
    old: &dyn AnyObject,
) -> Result<Vec<String>, ApiError> {
    let review = PodSecurityReview::new(call, "update");
    match part {
        ObjectPart::Status | ObjectPart::Finalize | ObjectPart::Approval => Ok(Vec::new()),
        ObjectPart::Main | ObjectPart::Resize | ObjectPart::EphemeralContainers => {
            let namespaces = (new.as_any().downcast_ref(), old.as_any().downcast_ref());
            if let (Some(new), Some(old)) = namespaces {
                return review.changed_namespace(new, old);
            }
            let specs = (subject::pod(new), subject::pod(old));
            if let (Some(new_pod), Some(old_pod)) = specs {
                let specs = (new_pod.spec.as_ref(), old_pod.spec.as_ref());
                let (Some(new_spec), Some(old_spec)) = specs else { return Ok(Vec::new()) };
                return match subject::is_significant(new_spec, old_spec) {
                    true => review.pod(new),
                    false => Ok(Vec::new()),
                };
            }
            review.template(new)
        }
    }
}

/// The review of one request.
struct PodSecurityReview<'a> {
    call: &'a ApiCall<'a>,
    security: &'a PodSecurity,
    configuration: &'a PodSecurityConfiguration,
    operation: &'static str,
    is_counted: bool,
}

impl<'a> PodSecurityReview<'a> {
    fn new(call: &'a ApiCall<'a>, operation: &'static str) -> Self {
        let security = &call.api.pod_security;
        let is_counted = call.session.count_review();
        Self { call, security, configuration: security.configuration(), operation, is_counted }
    }

    /// A pod: refused if it violates what is enforced.
    fn pod(&self, object: &dyn AnyObject) -> Result<Vec<String>, ApiError> {
        let Some(pod) = subject::pod(object) else { return Ok(Vec::new()) };
        let Some(spec) = &pod.spec else { return Ok(Vec::new()) };
        let request = self.request("pod");
        if let Some(by) = self.exemption() {
            self.exempted(request, by);
            return Ok(Vec::new());
        }
        let (policy, errors) = self.policy()?;
        if errors.is_empty() && policy.is_privileged() {
            self.count(|figures| {
                figures.evaluated(request, PolicyMode::Enforce, policy.enforce, true)
            });
            self.note("enforce-policy", || policy.enforce.to_string());
            return Ok(Vec::new());
        }
        if self.is_exempt_class(spec.runtime_class_name.as_deref()) {
            self.exempted(request, "runtimeClass");
            return Ok(Vec::new());
        }
        if !errors.is_empty() {
            self.count(|figures| figures.misread(request));
        }
        let review = subject::review(Some(&pod.metadata), spec);
        let enforced = self.violations_of(policy.enforce, &review);
        let is_allowed = enforced.is_none();
        self.count(|figures| {
            figures.evaluated(request, PolicyMode::Enforce, policy.enforce, is_allowed)
        });
        self.note("enforce-policy", || policy.enforce.to_string());
        self.audit(request, policy.audit, &review);
        match enforced {
            Some(detail) => {
                let why = format!("violates PodSecurity \"{}\": {detail}", policy.enforce);
                Err(ApiError::forbidden(self.call.entry, object_meta::name(object), &why))
            }
            None => Ok(self.warn(request, policy.warn, &review)),
        }
    }

    /// The template of a workload: never refused, so that a workload from before a label can still
    /// be scaled and deleted.
    fn template(&self, object: &dyn AnyObject) -> Result<Vec<String>, ApiError> {
        let Some(template) = subject::template(object) else { return Ok(Vec::new()) };
        let Some(spec) = &template.spec else { return Ok(Vec::new()) };
        let request = self.request("controller");
        if let Some(by) = self.exemption() {
            self.exempted(request, by);
            return Ok(Vec::new());
        }
        let (policy, errors) = self.policy()?;
        let asks_nothing = policy.warn.is_privileged() && policy.audit.is_privileged();
        if errors.is_empty() && asks_nothing {
            return Ok(Vec::new());
        }
        if self.is_exempt_class(spec.runtime_class_name.as_deref()) {
            self.exempted(request, "runtimeClass");
            return Ok(Vec::new());
        }
        if !errors.is_empty() {
            self.count(|figures| figures.misread(request));
        }
        let review = subject::review(template.metadata.as_ref(), spec);
        self.audit(request, policy.audit, &review);
        Ok(self.warn(request, policy.warn, &review))
    }

    /// A namespace needs labels that can be read.
    fn new_namespace(&self, namespace: &Namespace) -> Result<Vec<String>, ApiError> {
        let (policy, errors) = self.policy_of(namespace);
        if !errors.is_empty() {
            return Err(ApiError::invalid(self.call.entry, object_meta::name(namespace), &errors));
        }
        Ok(self.ignored(namespace, &policy).into_iter().collect())
    }

    /// Checks a changed namespace. Labels that were as wrong before are let through. Warns of pods
    /// that violate what is newly enforced.
    fn changed_namespace(&self, new: &Namespace, old: &Namespace) -> Result<Vec<String>, ApiError> {
        let ((policy, errors), (before, errors_before)) =
            (self.policy_of(new), self.policy_of(old));
        if !errors.is_empty() && errors != errors_before {
            return Err(ApiError::invalid(self.call.entry, object_meta::name(new), &errors));
        }
        let (enforce, enforced) = (policy.enforce, before.enforce);
        let is_relaxed = enforce.version == enforced.version && enforce.level <= enforced.level;
        if is_relaxed || enforce.level == PolicyLevel::Privileged {
            return Ok(Vec::new());
        }
        if self.configuration.namespaces.contains(object_meta::name(new)) {
            return Ok(self.ignored(new, &policy).into_iter().collect());
        }
        let classes = &self.configuration.runtime_classes;
        existing_pods::warnings(self.call.api, object_meta::name(new), enforce, classes)
    }

    /// A warning about labels of a namespace that is exempt.
    fn ignored(&self, namespace: &Namespace, policy: &NamespacePolicy) -> Option<String> {
        let name = object_meta::name(namespace);
        let is_plain = policy.is_privileged() || policy.is_equivalent(&self.configuration.defaults);
        if !self.configuration.namespaces.contains(name) || is_plain {
            return None;
        }
        let labels = namespace.metadata.labels.as_ref()?;
        let modes = PolicyMode::ALL.into_iter().filter_map(|mode| {
            let asked = policy.of_mode(mode);
            let is_said = labels.contains_key(&level_label(mode))
                || labels.contains_key(&version_label(mode));
            (is_said && !asked.is_privileged()).then(|| format!("{}={asked}", mode.name()))
        });
        let modes: Vec<String> = modes.collect();
        let modes = modes.join(", ");
        Some(format!(
            "namespace {name:?} is exempt from Pod Security, and the policy ({modes}) will be ignored"
        ))
    }

    fn request(&self, resource: &'static str) -> ReviewedRequest<'a> {
        let subresource = self.call.path.subresource.as_str();
        ReviewedRequest { operation: self.operation, resource, subresource }
    }

    /// Why neither this namespace nor this user is looked at; none if they are.
    fn exemption(&self) -> Option<&'static str> {
        let (namespaces, usernames) =
            (&self.configuration.namespaces, &self.configuration.usernames);
        if namespaces.contains(&self.call.path.namespace) {
            return Some("namespace");
        }
        usernames.contains(self.call.request.identity.name()).then_some("user")
    }

    /// Counts once for a request that is handled again after webhooks were asked.
    fn count(&self, count: impl FnOnce(&PodSecurityFigures)) {
        if self.is_counted {
            count(&self.security.figures);
        }
    }

    fn exempted(&self, request: ReviewedRequest<'_>, by: &str) {
        self.count(|figures| figures.exempted(request));
        self.note("exempt", || by.to_owned());
    }

    fn is_exempt_class(&self, class: Option<&str>) -> bool {
        class.is_some_and(|class| self.configuration.runtime_classes.contains(class))
    }

    /// The policy of the request's namespace, and the errors in its labels.
    fn policy(&self) -> Result<(NamespacePolicy, Vec<FieldError>), ApiError> {
        let (api, name) = (self.call.api, self.call.path.namespace.as_str());
        // an API without namespaces has the defaults
        let Some(entry) = api.registry.find("", "v1", "namespaces") else {
            return Ok((self.configuration.defaults, Vec::new()));
        };
        let stored = api.store.newest(&keys::object(entry, "", name));
        let stored = stored
            .ok_or_else(|| ApiError::internal(format!("failed to lookup namespace {name:?}")))?;
        let namespace = api.read(entry, &stored)?;
        let labels = namespace.meta().labels.as_ref();
        Ok(NamespacePolicy::from_labels(labels, &self.configuration.defaults))
    }

    fn policy_of(&self, namespace: &Namespace) -> (NamespacePolicy, Vec<FieldError>) {
        let labels = namespace.metadata.labels.as_ref();
        NamespacePolicy::from_labels(labels, &self.configuration.defaults)
    }

    /// The violations in one sentence.
    fn violations_of(&self, policy: LevelAtVersion, pod: &PodUnderReview<'_>) -> Option<String> {
        let violations = controls::violations(policy, pod);
        (!violations.is_empty()).then(|| controls::in_detail(&violations))
    }

    fn audit(
        &self,
        request: ReviewedRequest<'_>,
        policy: LevelAtVersion,
        pod: &PodUnderReview<'_>,
    ) {
        if let Some(detail) = self.violations_of(policy, pod) {
            self.count(|figures| figures.evaluated(request, PolicyMode::Audit, policy, false));
            self.note("audit-violations", || {
                format!("would violate PodSecurity \"{policy}\": {detail}")
            });
        }
    }

    /// Adds an annotation to the audit log, if there is one.
    fn note(&self, key: &str, value: impl FnOnce() -> String) {
        if let Some(notes) = &self.call.request.notes {
            notes.annotate(format!("pod-security.kubernetes.io/{key}"), value());
        }
    }

    fn warn(
        &self,
        request: ReviewedRequest<'_>,
        policy: LevelAtVersion,
        pod: &PodUnderReview<'_>,
    ) -> Vec<String> {
        let Some(detail) = self.violations_of(policy, pod) else { return Vec::new() };
        self.count(|figures| figures.evaluated(request, PolicyMode::Warn, policy, false));
        vec![format!("would violate PodSecurity \"{policy}\": {detail}")]
    }
}
