//! How violations name what they found.

use super::ControlViolation;

/// `"a", "b"`.
pub(super) fn quoted<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let quoted = names.into_iter().map(|name| format!("\"{}\"", name.as_ref()));
    quoted.collect::<Vec<_>>().join(", ")
}

/// The word for one of it, or for several.
pub(super) const fn plural<'a>(count: usize, one: &'a str, several: &'a str) -> &'a str {
    if count == 1 { one } else { several }
}

/// `container "a"`, `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", plural(names.len(), "container", "containers"), quoted(names))
}

/// `volume "a"`, `volumes "a", "b"`.
pub(super) fn volumes(names: &[&str]) -> String {
    format!("{} {}", plural(names.len(), "volume", "volumes"), quoted(names))
}

/// Who asks for something: `pod`, `container "a"`, `pod and containers "a", "b"`; none when it is
/// neither.
pub(super) fn setters(is_pod: bool, names: &[&str]) -> Option<String> {
    match (is_pod, names) {
        (false, []) => None,
        (true, []) => Some("pod".to_owned()),
        (false, names) => Some(containers(names)),
        (true, names) => Some(format!("pod and {}", containers(names))),
    }
}

/// The violation of containers, if there are any: `detail` gets their names.
pub(super) fn violation_of_containers(
    reason: &'static str,
    names: &[&str],
    detail: impl FnOnce(String) -> String,
) -> Option<ControlViolation> {
    let detail = (!names.is_empty()).then(|| detail(containers(names)))?;
    Some(ControlViolation { reason, detail })
}
