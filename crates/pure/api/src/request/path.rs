//! What a path names.

use std::borrow::Cow;

/// The subresource that hands requests on to a pod or a node.
pub(crate) const PROXY: &str = "proxy";

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathTarget {
    /// Objects, or one object, or a subresource.
    Resource(ResourcePath),
    /// Everything else: discovery, health, version, OpenAPI. Without a trailing slash.
    Other(String),
}

/// A resource in a group version, down to a subresource. Empty parts were not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The namespace; empty for all of them and for cluster-scoped resources.
    pub namespace: String,
    /// The plural resource name.
    pub resource: String,
    /// The object's name.
    pub name: String,
    /// The subresource.
    pub subresource: String,
    /// Whether it is one of the old paths of watches (`/api/v1/watch/…`). The name is that of the
    /// one object to watch.
    pub is_watch: bool,
    /// What follows the subresource, for those that hand it on (`proxy`).
    pub rest: String,
}

/// Subresources that go on for as long as the client wants.
const LONG_RUNNING: [&str; 5] = ["attach", "exec", "log", "portforward", PROXY];

impl ResourcePath {
    /// Whether requests go on for as long as the client wants. They have options of their own.
    pub fn is_long_running(&self) -> bool {
        LONG_RUNNING.contains(&self.subresource.as_str())
    }

    /// Whether requests are about a replica count alone.
    pub fn is_scale(&self) -> bool {
        self.subresource == "scale"
    }
}

impl PathTarget {
    /// Reads a path. Segments may be percent-encoded.
    pub fn parse(path: &str) -> Self {
        let segments: Vec<Cow<'_, str>> =
            path.split('/').filter(|part| !part.is_empty()).map(decode_segment).collect();
        let parts: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Self::Other(format!("/{}", parts.join("/"))),
        };
        let (is_watch, rest) = match rest {
            ["watch", watched @ ..] if !watched.is_empty() => (true, watched),
            _ => (false, rest),
        };
        let in_group = |namespace: &str, rest: &[&str]| {
            let part = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
            ResourcePath {
                group: group.to_owned(),
                version: version.to_owned(),
                namespace: namespace.to_owned(),
                resource: part(0),
                name: part(1),
                subresource: part(2),
                is_watch,
                rest: rest.get(3..).unwrap_or_default().join("/"),
            }
        };
        Self::Resource(match rest {
            // A namespace's own subresources look like resources inside it.
            ["namespaces", name, "status" | "finalize"] => {
                let mut path = in_group("", rest);
                path.name = (*name).to_owned();
                path
            }
            ["namespaces", namespace, inside @ ..] if !inside.is_empty() => {
                in_group(namespace, inside)
            }
            all => in_group("", all),
        })
    }
}

/// `%2F` and the like; what is no valid encoding stays as it stands.
fn decode_segment(segment: &str) -> Cow<'_, str> {
    if !segment.contains('%') {
        return Cow::Borrowed(segment);
    }
    decode_percent(segment, PlusMeaning::IsPlus)
}

/// A part of a header's name in which clients encode what a name cannot hold.
pub fn decode_percent_in_header(text: &str) -> String {
    decode_percent(text, PlusMeaning::IsPlus).into_owned().to_ascii_lowercase()
}

/// What a `+` means: itself in a path, a blank in a query.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PlusMeaning {
    IsPlus,
    IsBlank,
}

/// Undoes percent-encoding; bytes that are not UTF-8 become replacement characters.
pub(super) fn decode_percent(text: &str, plus: PlusMeaning) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let encoded = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match (bytes[at], encoded.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 3;
            }
            (b'+', _) if plus == PlusMeaning::IsBlank => {
                decoded.push(b' ');
                at += 1;
            }
            (byte, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_what_they_name_upstream() {
        let resource = |group: &str, version: &str, namespace: &str, rest: [&str; 3]| {
            PathTarget::Resource(ResourcePath {
                group: group.to_owned(),
                version: version.to_owned(),
                namespace: namespace.to_owned(),
                resource: rest[0].to_owned(),
                name: rest[1].to_owned(),
                subresource: rest[2].to_owned(),
                is_watch: false,
                rest: String::new(),
            })
        };
        for (path, target) in [
            ("/api/v1/pods", resource("", "v1", "", ["pods", "", ""])),
            ("/api/v1/namespaces/a/pods/", resource("", "v1", "a", ["pods", "", ""])),
            ("/api/v1/namespaces/a/pods/b/log", resource("", "v1", "a", ["pods", "b", "log"])),
            ("/api/v1/namespaces/a", resource("", "v1", "", ["namespaces", "a", ""])),
            (
                "/api/v1/namespaces/a/finalize",
                resource("", "v1", "", ["namespaces", "a", "finalize"]),
            ),
            ("/api/v1/nodes/n/status", resource("", "v1", "", ["nodes", "n", "status"])),
            (
                "/apis/apps/v1/namespaces/a/deployments/web%2e1",
                resource("apps", "v1", "a", ["deployments", "web.1", ""]),
            ),
            ("/", PathTarget::Other("/".to_owned())),
            ("/api/v1", PathTarget::Other("/api/v1".to_owned())),
            ("/apis/apps/v1/", PathTarget::Other("/apis/apps/v1".to_owned())),
            ("/openapi/v3/api/v1", PathTarget::Other("/openapi/v3/api/v1".to_owned())),
        ] {
            assert_eq!(PathTarget::parse(path), target, "{path}");
        }
    }

    #[test]
    fn percent_encoding_is_undone_and_nonsense_stays() {
        for (text, decoded) in [
            ("a%20b", "a b"),
            ("a+b", "a b"),
            ("%", "%"),
            ("%4", "%4"),
            ("%zz", "%zz"),
            ("%41", "A"),
        ] {
            assert_eq!(decode_percent(text, PlusMeaning::IsBlank), decoded, "{text}");
        }
        assert_eq!(decode_percent("a+b%2B", PlusMeaning::IsPlus), "a+b+");
    }
}
