//! `/openapi/v2`: one document of everything, in JSON or in protobuf.
//!
//! It is made part by part, one for each group version, when a client asks for it: as a tree the
//! whole would take many times its text.

use http::StatusCode;
use rekindle_kinds::openapi::v2;
use rekindle_kinds::registry::Registry;
use serde_json::{Map, Value, json};

use super::{gnostic, version};
use crate::outcome::ApiAnswer;

/// The title, as upstream's document has it.
const TITLE: &str = "Kubernetes";

/// Gnostic's openapi.v2.Document in protobuf. client-go asks for it with an `@` for the last dot of
/// the version's name, which no media type may have and which it refuses in an answer.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// In the form that is asked for.
pub(super) fn document(registry: &Registry, accept: &str) -> ApiAnswer {
    let info = json!({"title": TITLE, "version": version::git_version()});
    let parts = v2::parts(registry);
    if accept.contains("proto-openapi.spec.v2") {
        return ApiAnswer::new(StatusCode::OK, PROTOBUF, gnostic::document(&info, parts));
    }
    let (mut paths, mut definitions) = (String::new(), String::new());
    for part in parts {
        add_members(&mut paths, &part.paths);
        add_members(&mut definitions, &part.definitions);
    }
    let text = format!(
        r#"{{"swagger":"2.0","info":{info},"paths":{{{paths}}},"definitions":{{{definitions}}}}}"#
    );
    ApiAnswer::json(StatusCode::OK, text)
}

/// Adds members to the text of an object.
fn add_members(text: &mut String, members: &Map<String, Value>) {
    for (name, value) in members {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&format!("{}:{value}", Value::from(name.as_str())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_every_kind_in_both_forms() {
        let registry = rekindle_kinds::all();
        let text = document(&registry, "application/json");
        assert_eq!(text.content_type, "application/json");
        let whole: Value = serde_json::from_slice(&text.body).unwrap();
        assert_eq!(whole["swagger"], "2.0");
        assert_eq!(whole["info"]["title"], "Kubernetes");
        for entry in registry.kinds() {
            let name = entry.codec.schema_name();
            let kinds = &whole["definitions"][&*name]["x-kubernetes-group-version-kind"];
            assert_eq!(kinds[0]["kind"], *entry.kind, "{name}");
        }
        let asked = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf, */*";
        let binary = document(&registry, asked);
        assert_eq!(binary.content_type, PROTOBUF);
        assert!(binary.body.starts_with(b"\x0a\x032.0\x12"), "{:?}", &binary.body[..20]);
        let pod = b"io.k8s.api.core.v1.Pod";
        assert!(binary.body.windows(pod.len()).any(|window| window == pod));
    }
}
