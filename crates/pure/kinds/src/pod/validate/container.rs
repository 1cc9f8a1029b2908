//! One container, of whichever list.

use k8s_openapi::api::core::v1::{Container, ContainerPort};
use rekindle_types::validation::field_error::FieldError;

use super::checked_pod::CheckedPod;
use super::{SpecHolder, env, mounts, one_of, resources, security};
use crate::validation::{ListKeys, Path, invalid_each, items, names, ports, text};

/// What holds for every container.
pub(super) fn common(container: &Container, pod: &CheckedPod<'_>, field: &Path) -> Vec<FieldError> {
    let CheckedPod { spec, holder, .. } = *pod;
    let mut errors = Vec::new();
    if container.name.is_empty() {
        errors.push(FieldError::required(field.child("name"), ""));
    } else {
        let messages = names::dns_label(&container.name);
        errors.extend(invalid_each(&field.child("name"), &container.name, messages));
    }
    errors.extend(image(text(container.image.as_ref()), holder, field.child("image")));
    errors.extend(one_of(
        container.termination_message_policy.as_ref(),
        &["File", "FallbackToLogsOnError"],
        field.child("terminationMessagePolicy"),
    ));
    errors.extend(one_of(
        container.image_pull_policy.as_ref(),
        &["Always", "IfNotPresent", "Never"],
        field.child("imagePullPolicy"),
    ));
    errors.extend(container_ports(items(container.ports.as_ref()), &field.child("ports")));
    errors.extend(env::variables(items(container.env.as_ref()), pod, &field.child("env")));
    errors.extend(env::sources(items(container.env_from.as_ref()), &field.child("envFrom")));
    errors.extend(mounts::check(container, pod, field));
    errors.extend(resources::validate_container_resources(
        container,
        pod,
        &field.child("resources"),
    ));
    errors.extend(resources::resize_policy(
        items(container.resize_policy.as_ref()),
        text(spec.restart_policy.as_ref()),
        &field.child("resizePolicy"),
    ));
    errors.extend(security::container(container, spec, &field.child("securityContext")));
    errors
}

fn image(image: &str, holder: SpecHolder, field: Path) -> Option<FieldError> {
    if image.is_empty() {
        return Some(FieldError::required(field, ""));
    }
    // Upstream checks this of pods only, since old templates had a lone blank as a place holder.
    let padded = image.trim() != image;
    (padded && holder == SpecHolder::Pod)
        .then(|| FieldError::invalid(field, image, "must not have leading or trailing whitespace"))
}

fn container_ports(list: &[ContainerPort], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut taken: ListKeys<&str> = ListKeys::new();
    for (index, port) in list.iter().enumerate() {
        let field = field.index(index);
        let name = text(port.name.as_ref());
        if !name.is_empty() {
            let messages = names::port(name);
            if messages.is_empty() && taken.add(name).is_some() {
                errors.push(FieldError::duplicate(field.child("name"), name));
            }
            errors.extend(invalid_each(&field.child("name"), name, messages));
        }
        if port.container_port == 0 {
            errors.push(FieldError::required(field.child("containerPort"), ""));
        } else {
            errors.extend(ports::number(port.container_port, &field.child("containerPort")));
        }
        if let Some(host_port) = port.host_port.filter(|port| *port != 0) {
            errors.extend(ports::number(host_port, &field.child("hostPort")));
        }
        errors.extend(ports::protocol(text(port.protocol.as_ref()), &field.child("protocol")));
    }
    errors
}
