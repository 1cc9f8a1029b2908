//! The API refuses the host image by its name (`rekindle_types::host_image`): it must know every
//! text that leads here.

use rekindle_types::host_image::is_host_image;

use super::{ImageReference, builtin};

#[test]
fn the_api_knows_the_host_image_by_every_name_that_resolves_to_it() {
    let id = builtin::host_id();
    assert!(is_host_image(&id) && is_host_image(id.trim_start_matches("sha256:")), "{id}");
    assert!(is_host_image(builtin::HOST));
    for image in
        ["localhost/host", "localhost/host:latest", "host", "localhost:80/host", "LOCALHOST/host"]
    {
        let reference = ImageReference::parse(image).unwrap().to_string();
        assert_eq!(reference == builtin::HOST, is_host_image(image), "{image} is {reference}");
    }
    assert!(!is_host_image(builtin::DEMO));
}
