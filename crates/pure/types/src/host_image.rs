//! The built-in image that shows the files of the machine, and how it is known by its name.

/// Its name.
pub const HOST_IMAGE: &str = "localhost/host";

/// Its id, which is the same on every machine (SHA-256 of `rekindle localhost/host 1`), without
/// `sha256:`.
const ID: &str = "9a5ba68885057128603663b7df210366751d15b321e291aa5979bf4a0b498227";

/// Whether a container that names this image may get the machine's files. The name is reserved with
/// all of its tags and digests, so that no way of writing it is overlooked.
pub fn is_host_image(image: &str) -> bool {
    if image.strip_prefix("sha256:").unwrap_or(image) == ID {
        return true;
    }
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    name.strip_prefix(HOST_IMAGE).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_it_is_known() {
        for (image, expected) in [
            ("localhost/host", true),
            ("localhost/host:latest", true),
            ("localhost/host:1", true),
            ("localhost/host@sha256:abc", true),
            ("localhost/host:latest@sha256:abc", true),
            (ID, true),
            (&format!("sha256:{ID}"), true),
            ("localhost/hosts", false),
            ("localhost/host/x", false),
            ("localhost:5000/host", false),
            ("host", false),
            ("docker.io/localhost/host", false),
            ("localhost/demo", false),
            ("", false),
        ] {
            assert_eq!(is_host_image(image), expected, "{image}");
        }
    }
}
