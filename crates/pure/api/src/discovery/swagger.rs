//! `/openapi/v2`, for clients that fall back to it: a document without definitions. kubectl asks
//! for it before it sends the items of a `v1` List, and for kinds that no version 3 document has;
//! what it finds no definition of it leaves to the server, which validates everything anyway.

use http::StatusCode;

use crate::outcome::ApiAnswer;

use super::version;

/// The title, as upstream's document has it.
const TITLE: &str = "Kubernetes";
/// Gnostic's openapi.v2.Document in protobuf. client-go asks for it with an `@` for the last dot of
/// the version's name, which no media type may have and which it refuses in an answer.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// In the form that is asked for.
pub(super) fn document(accept: &str) -> ApiAnswer {
    let version = version::git_version();
    if accept.contains("proto-openapi.spec.v2") {
        return ApiAnswer::new(StatusCode::OK, PROTOBUF, protobuf(&version));
    }
    super::json(&serde_json::json!({
        "swagger": "2.0",
        "info": {"title": TITLE, "version": version},
        "paths": {},
    }))
}

/// Fields 1 (swagger), 2 (info: 1 title, 2 version) and 8 (paths, none).
fn protobuf(version: &str) -> Vec<u8> {
    let info = [field(1, TITLE.as_bytes()), field(2, version.as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info), field(8, b"")].concat()
}

/// A field of bytes, fewer than 128.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).ok().filter(|length| *length < 0x80);
    let length = length.expect("title and version are short");
    [&[number << 3 | 2, length][..], bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_there_in_both_forms() {
        let text = document("application/json");
        assert_eq!(text.content_type, "application/json");
        assert!(text.body.starts_with(b"{\"info\":{\"title\":\"Kubernetes\""), "{:?}", text.body);
        let asked = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf, */*";
        let binary = document(asked);
        assert_eq!(binary.content_type, PROTOBUF);
        assert!(binary.body.starts_with(b"\x0a\x032.0\x12"), "{:?}", binary.body);
        assert!(binary.body.ends_with(b"\x42\x00"), "{:?}", binary.body);
    }
}
