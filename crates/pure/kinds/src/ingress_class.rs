//! IngressClass (networking.k8s.io/v1): which controller acts on an Ingress. Stored for the
//! controllers that a user installs; there is none here.

use k8s_openapi::api::networking::v1::{
    IngressClass, IngressClassParametersReference, IngressClassSpec,
};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::ingress::reference_errors;
use super::preparation;
use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, invalid_each, names, text};

/// The longest name of a controller.
const CONTROLLER_BYTES_MAX: usize = 250;

impl ApiKind for IngressClass {
    const NAMES: ResourceNames = ResourceNames {
        singular: "ingressclass",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Controller", "string", "Controller that is responsible for handling this class."),
        column("Parameters", "string", "A reference to a resource with additional parameters."),
        AGE,
    ];

    fn set_defaults(&mut self) {
        let parameters = self.spec.as_mut().and_then(|spec| spec.parameters.as_mut());
        if let Some(parameters) = parameters {
            parameters.scope.get_or_insert_with(|| "Cluster".to_owned());
        }
    }

    preparation::writes_of!(spec);

    fn validate(&self) -> Vec<FieldError> {
        let none = IngressClassSpec::default();
        let spec = self.spec.as_ref().unwrap_or(&none);
        let field = Path::new("spec");
        let controller = text(spec.controller.as_ref());
        let mut errors = Vec::new();
        if controller.len() > CONTROLLER_BYTES_MAX {
            errors.push(FieldError::too_long(field.child("controller"), CONTROLLER_BYTES_MAX));
        }
        if controller.is_empty() {
            errors.push(FieldError::required(field.child("controller"), ""));
        } else if !is_domain_prefixed(controller) {
            errors.push(FieldError::invalid(
                field.child("controller"),
                controller,
                "must be a domain-prefixed path (such as \"acme.io/foo\")",
            ));
        }
        if let Some(parameters) = &spec.parameters {
            errors.extend(parameter_errors(parameters, &field.child("parameters")));
        }
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let controller =
            |class: &Self| class.spec.as_ref().and_then(|spec| spec.controller.clone());
        let new = controller(self);
        if new == controller(old) {
            return Vec::new();
        }
        let field = Path::new("spec").child("controller");
        vec![FieldError::invalid(field, text(new.as_ref()), "field is immutable")]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let spec = self.spec.as_ref();
        let parameters = spec.and_then(|spec| spec.parameters.as_ref());
        let shown = parameters.map(|parameters| match text(parameters.api_group.as_ref()) {
            "" => format!("{}/{}", parameters.kind, parameters.name),
            group => format!("{}.{group}/{}", parameters.kind, parameters.name),
        });
        vec![
            text(self.metadata.name.as_ref()).into(),
            text(spec.and_then(|spec| spec.controller.as_ref())).into(),
            shown.unwrap_or_else(|| "<none>".to_owned()).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

/// `acme.io/foo`.
fn is_domain_prefixed(controller: &str) -> bool {
    let Some((domain, path)) = controller.split_once('/') else { return false };
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "/\\-._~%!$&'()*+,;=:".contains(c);
    names::dns_subdomain(domain).is_empty() && !path.is_empty() && path.chars().all(is_of_path)
}

fn parameter_errors(parameters: &IngressClassParametersReference, field: &Path) -> Vec<FieldError> {
    let group = parameters.api_group.as_deref();
    let mut errors = reference_errors((group, &parameters.kind, &parameters.name), field);
    let namespace = text(parameters.namespace.as_ref());
    match text(parameters.scope.as_ref()) {
        "Cluster" if !namespace.is_empty() => errors.push(FieldError::forbidden(
            field.child("namespace"),
            "`parameters.scope` is set to 'Cluster'",
        )),
        "Namespace" if namespace.is_empty() => errors.push(FieldError::required(
            field.child("namespace"),
            "`parameters.scope` is set to 'Namespace'",
        )),
        "Namespace" => {
            let messages = names::dns_label(namespace);
            errors.extend(invalid_each(&field.child("namespace"), namespace, messages));
        }
        "Cluster" => {}
        other => errors.push(FieldError::not_supported(
            field.child("scope"),
            other,
            &["Cluster", "Namespace"],
        )),
    }
    errors
}
