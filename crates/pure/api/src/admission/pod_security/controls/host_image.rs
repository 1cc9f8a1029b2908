//! The built-in image `localhost/host`, which shows the files of the machine: a way to the node
//! like a hostPath volume. This control is ours; upstream has no such image.

use rekindle_types::host_image::{HOST_IMAGE, is_host_image};

use super::{ControlViolation, PodUnderReview, wording};

/// Forbids the image, in containers and as a volume.
pub(super) fn host_image(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let containers = pod.containers_that(|container| is_host_image(container.image));
    let volumes = pod.volumes().iter().filter(|volume| {
        let image = volume.image.as_ref().and_then(|image| image.reference.as_deref());
        image.is_some_and(is_host_image)
    });
    let volumes: Vec<&str> = volumes.map(|volume| volume.name.as_str()).collect();
    let volumes = (!volumes.is_empty()).then(|| wording::volumes(&volumes));
    let users = [wording::setters(false, &containers), volumes];
    let users: Vec<String> = users.into_iter().flatten().collect();
    (!users.is_empty()).then(|| ControlViolation {
        reason: "host image",
        detail: format!("{} must not use image \"{HOST_IMAGE}\"", users.join(" and ")),
    })
}
