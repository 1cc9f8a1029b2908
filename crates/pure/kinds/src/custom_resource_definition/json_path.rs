//! The paths of printer columns, selectable fields and scales.
//!
//! Kubernetes writes `.spec.replicas` for what RFC 9535 calls `$.spec.replicas`, and a backslash
//! before a character of a name that would otherwise have a meaning.

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

/// The longest path.
const PATH_BYTES_MAX: usize = 1_000;

/// A path as read.
pub struct JsonPath(JpQuery);

/// Reads a path.
///
/// # Errors
/// What is wrong with it.
pub fn read(path: &str) -> Result<JsonPath, String> {
    if path.len() > PATH_BYTES_MAX {
        return Err(format!("is longer than {PATH_BYTES_MAX} bytes"));
    }
    parse_json_path(&standard_form(path)).map(JsonPath).map_err(|error| error.to_string())
}

impl JsonPath {
    /// The values that it leads to.
    pub(crate) fn values<'v>(&self, object: &'v Value) -> Vec<&'v Value> {
        let found = js_path_process(&self.0, object).unwrap_or_default();
        found.into_iter().map(|found| found.val()).collect()
    }

    /// The first of them.
    pub fn value<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        self.values(object).into_iter().next()
    }
}

/// The path as RFC 9535 has it. Names with a backslash, a slash or a dash stand in brackets there.
fn standard_form(path: &str) -> String {
    let path = path.trim();
    let path = path.strip_prefix('{').and_then(|p| p.strip_suffix('}')).unwrap_or(path);
    let mut standard = "$".to_owned();
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    while let Some(after_dot) = rest.strip_prefix('.').filter(|rest| !rest.starts_with('.')) {
        let (name, after) = name(after_dot);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match name.as_str() {
            "" | "*" => standard.push_str(&format!(".{name}")),
            name if name.chars().all(is_plain)
                && !name.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                standard.push_str(&format!(".{name}"));
            }
            name => standard.push_str(&format!("['{}']", name.replace('\'', "\\'"))),
        }
        rest = after;
        let Some(end) = end_of_brackets(rest) else { break };
        standard.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    standard.push_str(rest);
    standard
}

/// A name, its backslashes taken away, and what follows it.
fn name(path: &str) -> (String, &str) {
    let mut name = String::new();
    let mut letters = path.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, letter)| letter)),
            '.' | '[' => return (name, &path[at..]),
            letter => name.push(letter),
        }
    }
    (name, "")
}

/// Where the brackets end that a path begins with; None when they do not.
fn end_of_brackets(path: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_u32, None);
    for (at, letter) in path.char_indices() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.checked_sub(1)?,
            (None, _) if depth == 0 => return Some(at),
            (None, _) => {}
        }
    }
    (depth == 0).then_some(path.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_kubernetes_lead_where_they_do_there() {
        let object = json!({
            "metadata": {"annotations": {"a.b/c-d": "x"}},
            "spec": {"tags": ["one", "two"], "node-port": 3},
            "status": {"conditions": [
                {"type": "Ready", "status": "True"}, {"type": "Live", "status": "False"},
            ]},
        });
        for (path, values) in [
            (".spec.tags", json!([["one", "two"]])),
            (".spec.tags[1]", json!(["two"])),
            (".spec.tags[*]", json!(["one", "two"])),
            ("{.spec.tags[0]}", json!(["one"])),
            (".spec.node-port", json!([3])),
            (r".metadata.annotations.a\.b/c-d", json!(["x"])),
            (".metadata.annotations['a.b/c-d']", json!(["x"])),
            (".status.conditions[?(@.type==\"Live\")].status", json!(["False"])),
            (".status.conditions[?(@.type=='Ready')].status", json!(["True"])),
            (".status.missing", json!([])),
        ] {
            let found = read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(json!(found.values(&object)), values, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [".spec[", ".spec.[?(", "spec replicas", &".a".repeat(PATH_BYTES_MAX)] {
            assert!(read(path).is_err(), "{path}");
        }
    }
}
