//! What the text of an image says without asking anybody.

/// `Always` for the tag `latest`, which an image without tag and digest has; else `IfNotPresent`.
pub(crate) fn default_pull_policy(image: &str) -> &'static str {
    if is_reference(image) && tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// Whether the text can name an image at all: its path has lower case only. Upstream reads no tag
/// out of another text.
fn is_reference(image: &str) -> bool {
    let rest = image.rsplit('/').next().unwrap_or(image);
    let name = rest.split([':', '@']).next().unwrap_or(rest);
    !name.is_empty()
        && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
}

/// The tag; `latest` when there is neither tag nor digest, none when there is only a digest.
fn tag(image: &str) -> Option<&str> {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash is the port of a registry.
    let last = name.rsplit('/').next().unwrap_or(name);
    match (last.split_once(':'), digest) {
        (Some((_, tag)), _) => Some(tag),
        (None, Some(_)) => None,
        (None, None) => Some("latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pull_policy_follows_the_tag() {
        // API reference, Container.imagePullPolicy
        for (image, policy) in [
            ("busybox", "Always"),
            ("busybox:latest", "Always"),
            ("busybox:1.36", "IfNotPresent"),
            ("localhost:5000/busybox", "Always"),
            ("localhost:5000/busybox:1", "IfNotPresent"),
            ("busybox@sha256:abc", "IfNotPresent"),
            ("busybox:latest@sha256:abc", "Always"),
            ("Bad_Value !", "IfNotPresent"),
        ] {
            assert_eq!(default_pull_policy(image), policy, "{image}");
        }
    }
}
