//! The containers of a pod template, for the wide columns of workloads.

use k8s_openapi::api::core::v1::PodSpec;

use crate::registry::resource::TableCell;
use crate::validation::text;

/// The names and the images of the regular containers, each list with commas.
pub fn containers_and_images(spec: Option<&PodSpec>) -> [TableCell; 2] {
    let containers = spec.map_or(&[][..], |spec| &spec.containers);
    let names: Vec<&str> = containers.iter().map(|container| container.name.as_str()).collect();
    let images: Vec<&str> =
        containers.iter().map(|container| text(container.image.as_ref())).collect();
    [names.join(",").into(), images.join(",").into()]
}
