//! What the text of an image says without asking anybody.

/// `Always` for the tag `latest`, which an image without tag and digest has; else `IfNotPresent`.
pub(crate) fn default_pull_policy(image: &str) -> &'static str {
    if is_reference(image) && tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// The longest name of an image, without tag and digest.
const NAME_BYTES_MAX: usize = 255;

/// Whether the text can name an image at all. Upstream reads no tag out of another text.
fn is_reference(image: &str) -> bool {
    let (named, digest) = match image.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (image, None),
    };
    let (registry, path) = match named.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => {
            (Some(first), rest)
        }
        Some(_) | None => (None, named),
    };
    let (path, tag) = match path.rsplit_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (path, None),
    };
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let is_tag = |tag: &str| {
        tag.len() <= 128
            && tag.bytes().next().is_some_and(is_word)
            && tag.bytes().all(|b| is_word(b) || matches!(b, b'.' | b'-'))
    };
    let is_host = |host: &str| {
        !host.is_empty()
            && host.bytes().all(|b| is_word(b) || matches!(b, b'.' | b'-' | b':' | b'[' | b']'))
    };
    path.len() <= NAME_BYTES_MAX
        && path.split('/').all(is_path_part)
        && registry.is_none_or(is_host)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(|digest| digest.contains(':'))
}

/// Lower case and digits, with one point, one or two underscores or any number of dashes between
/// them.
fn is_path_part(part: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let separators = part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    part.bytes().next().is_some_and(is_plain)
        && part.bytes().last().is_some_and(is_plain)
        && separators.into_iter().all(|separator| {
            matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|b| b == b'-')
        })
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
        assert_eq!(default_pull_policy(&"a".repeat(256)), "IfNotPresent");
        for (image, policy) in [
            ("busybox", "Always"),
            ("busybox:latest", "Always"),
            ("busybox:1.36", "IfNotPresent"),
            ("localhost:5000/busybox", "Always"),
            ("localhost:5000/busybox:1", "IfNotPresent"),
            ("busybox@sha256:abc", "IfNotPresent"),
            ("busybox:latest@sha256:abc", "Always"),
            ("registry.example/a/b__c--d", "Always"),
            ("Bad_Value !", "IfNotPresent"),
            ("-1", "IfNotPresent"),
            ("a..b", "IfNotPresent"),
            ("registry.example/app:/2", "IfNotPresent"),
            ("a:latest:latest", "IfNotPresent"),
            ("", "IfNotPresent"),
        ] {
            assert_eq!(default_pull_policy(image), policy, "{image}");
        }
    }
}
