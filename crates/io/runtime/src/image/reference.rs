//! Image references in their full form, as docker and containerd read them: `busybox` is
//! `docker.io/library/busybox:latest`.
//!
//! The grammar is that of the distribution project's `reference` package. `oci-spec` has a parser,
//! too, but its regular expression costs 79 ms and 16 MB at its first use (measured, release
//! build), more than the whole engine may take; the tests hold this one against it.

use std::fmt;

use super::ImageError;

/// Bytes of a name (registry and repository) at most.
const NAME_LENGTH_MAX: usize = 255;
/// Bytes of a tag at most.
const TAG_LENGTH_MAX: usize = 128;
/// Hex digits of a SHA-256.
const SHA256_HEX_LENGTH: usize = 64;

/// A reference in its full form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageReference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl ImageReference {
    /// Reads what a user wrote. What is no reference is `ImageError::InvalidName`.
    pub fn parse(image: &str) -> Result<Self, ImageError> {
        parse(image).map_err(|problem| ImageError::InvalidName {
            image: image.chars().take(NAME_LENGTH_MAX).collect(),
            problem: problem.to_owned(),
        })
    }

    /// The registry: `docker.io`, `localhost:5000`.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The repository in its registry: `library/busybox`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Registry and repository: `docker.io/library/busybox`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// The tag; `latest` when neither a tag nor a digest was given.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of the manifest, `sha256:…`. It decides when there is a tag, too.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// The id of an image, when `image` is one: `sha256:` and 64 hex digits, or the digits alone.
pub(crate) fn as_image_id(image: &str) -> Option<String> {
    let hex = image.strip_prefix("sha256:").unwrap_or(image);
    is_sha256_hex(hex).then(|| format!("sha256:{hex}"))
}

/// Whether these are the 64 lower-case hex digits of a SHA-256; then it is safe as a file name.
pub(crate) fn is_sha256_hex(hex: &str) -> bool {
    hex.len() == SHA256_HEX_LENGTH && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn parse(image: &str) -> Result<ImageReference, &'static str> {
    if image.is_empty() {
        return Err("an image name is empty");
    }
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    let path_start = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match rest[path_start..].rfind(':') {
        Some(colon) => (&rest[..path_start + colon], Some(&rest[path_start + colon + 1..])),
        None => (rest, None),
    };
    let (registry, repository) = split_registry(name);
    check_repository(&repository)?;
    if registry.len() + 1 + repository.len() > NAME_LENGTH_MAX {
        return Err("a repository name has 255 characters at most");
    }
    if let Some(tag) = tag {
        check_tag(tag)?;
    }
    if let Some(digest) = digest {
        check_digest(digest)?;
    }
    let tag = match (tag, digest) {
        (None, None) => Some("latest"),
        (tag, _) => tag,
    };
    Ok(ImageReference {
        registry,
        repository,
        tag: tag.map(str::to_owned),
        digest: digest.map(str::to_owned),
    })
}

/// The first part is a registry when it cannot be a folder of Docker Hub: it has a dot, a port or
/// capitals, or is localhost.
fn split_registry(name: &str) -> (String, String) {
    let (registry, repository) = match name.split_once('/') {
        Some((first, rest)) if is_registry(first) => (first, rest),
        Some(_) | None => ("docker.io", name),
    };
    let registry = if registry == "index.docker.io" { "docker.io" } else { registry };
    if registry == "docker.io" && !repository.contains('/') {
        return (registry.to_owned(), format!("library/{repository}"));
    }
    (registry.to_owned(), repository.to_owned())
}

fn is_registry(first: &str) -> bool {
    let (host, port) = match first.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (first, None),
    };
    let looks_like_one = port.is_some()
        || host.contains('.')
        || host == "localhost"
        || host.bytes().any(|b| b.is_ascii_uppercase());
    let host_ok = host.split('.').all(|label| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    });
    let port_ok =
        port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    looks_like_one && host_ok && port_ok
}

/// Folders of lower-case letters and digits, with `.`, `_`, `__` or any number of `-` between them.
fn check_repository(repository: &str) -> Result<(), &'static str> {
    for part in repository.split('/') {
        if part.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err("a repository name is lower-case");
        }
        let ends_ok = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        if !ends_ok(part.as_bytes().first()) || !ends_ok(part.as_bytes().last()) {
            return Err("each part of a repository name begins and ends with a letter or digit");
        }
        let separators = part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        for separator in separators {
            if !matches!(separator, "" | "." | "_" | "__") && separator.bytes().any(|b| b != b'-') {
                return Err("a repository name holds a-z, 0-9, and single separators . _ __ or -");
            }
        }
    }
    Ok(())
}

fn check_tag(tag: &str) -> Result<(), &'static str> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    match tag.as_bytes() {
        [] => Err("the tag is empty"),
        bytes if bytes.len() > TAG_LENGTH_MAX => Err("a tag has 128 characters at most"),
        [first, rest @ ..]
            if word(*first) && rest.iter().all(|b| word(*b) || matches!(b, b'.' | b'-')) =>
        {
            Ok(())
        }
        _ => Err("a tag holds letters, digits, _ . and -, and does not begin with . or -"),
    }
}

fn check_digest(digest: &str) -> Result<(), &'static str> {
    match digest.split_once(':') {
        Some(("sha256", hex)) if is_sha256_hex(hex) => Ok(()),
        Some(("sha256", _)) => Err("a sha256 digest has 64 hex digits, lower-case"),
        Some(_) => Err("only sha256 digests are supported"),
        None => Err("a digest has the form sha256:…"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn references_get_the_full_form_that_docker_gives_them() {
        let hex = "0123456789abcdef".repeat(4);
        let cases = [
            ("busybox", "docker.io/library/busybox:latest".to_owned()),
            ("busybox:1.36", "docker.io/library/busybox:1.36".to_owned()),
            ("grafana/loki", "docker.io/grafana/loki:latest".to_owned()),
            ("index.docker.io/busybox", "docker.io/library/busybox:latest".to_owned()),
            ("localhost/host", "localhost/host:latest".to_owned()),
            ("localhost:5000/a/b:v1", "localhost:5000/a/b:v1".to_owned()),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10".to_owned()),
            ("test.com:5000", "docker.io/library/test.com:5000".to_owned()),
            ("Upper/case", "Upper/case:latest".to_owned()),
            ("a__b/c--d.e_f", "docker.io/a__b/c--d.e_f:latest".to_owned()),
            (&format!("x@sha256:{hex}"), format!("docker.io/library/x@sha256:{hex}")),
            (&format!("x:t@sha256:{hex}"), format!("docker.io/library/x:t@sha256:{hex}")),
        ];
        for (given, full) in cases {
            assert_eq!(ImageReference::parse(given).unwrap().to_string(), full, "{given}");
        }
    }

    #[test]
    fn what_is_no_reference_is_an_invalid_name_with_a_reason() {
        let long = "a".repeat(256);
        let cases = [
            ("", "is empty"),
            ("Busybox", "lower-case"),
            ("a b", "holds a-z"),
            ("a:", "tag is empty"),
            ("a:-x", "a tag holds"),
            ("a@md5:0000", "only sha256"),
            ("a@sha256:12", "64 hex digits"),
            ("a@", "has the form"),
            ("/a", "begins and ends"),
            ("a//b", "begins and ends"),
            ("../../etc", "begins and ends"),
            ("a/../b", "begins and ends"),
            ("a..b", "holds a-z"),
            ("a___b", "holds a-z"),
            (&long, "255"),
            ("a:\u{e9}", "a tag holds"),
        ];
        for (given, reason) in cases {
            let error = ImageReference::parse(given).unwrap_err();
            assert_eq!(error.kind(), crate::error::ImageErrorKind::InvalidName);
            assert!(error.to_string().contains(reason), "{given:?}: {error}");
        }
    }

    #[test]
    fn ids_are_told_from_references() {
        let hex = "0123456789abcdef".repeat(4);
        assert_eq!(as_image_id(&hex), Some(format!("sha256:{hex}")));
        assert_eq!(as_image_id(&format!("sha256:{hex}")), Some(format!("sha256:{hex}")));
        assert_eq!(as_image_id("sha256:../../x"), None);
        assert_eq!(as_image_id("busybox"), None);
    }

    proptest! {
        #[test]
        fn agrees_with_oci_spec_on_lower_case_names(
            image in r"([a-z0-9.-]{1,6}(:[0-9]{1,4})?/)?[a-z0-9._/-]{1,12}(:[a-zA-Z0-9._-]{0,6})?"
        ) {
            // `0_a.a/0`: docker takes what has a dot before the first slash for a registry, whose
            // name has no underscore, and refuses; so do we. oci-spec falls back to a path.
            let registry = image.split_once('/').map_or("", |(first, _)| first);
            prop_assume!(!(registry.contains('_') && registry.contains(['.', ':'])));
            let ours = ImageReference::parse(&image).map(|r| r.to_string()).ok();
            let theirs = image.parse::<oci_spec::distribution::Reference>().map(|r| r.to_string()).ok();
            prop_assert_eq!(ours, theirs);
        }

        #[test]
        fn the_full_form_reads_back_as_itself(image in r"[a-zA-Z0-9._:/@-]{1,24}") {
            if let Ok(reference) = ImageReference::parse(&image) {
                prop_assert_eq!(ImageReference::parse(&reference.to_string()).unwrap(), reference);
            }
        }
    }
}
