//! The limits of what is read for autoscalers, and what a refusal says. Servers of other people
//! give these answers, too.

use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use rekindle_types::TickDuration;

/// Answers that are not there by then are not waited for: the next reading is due soon.
pub const READING_TIMEOUT: TickDuration = TickDuration::from_secs(10);

/// Bytes of the largest answer. A pod takes some hundred.
pub const READING_BYTES_MAX: usize = 16 << 20;
/// Bytes of a refusal that are shown.
const REFUSAL_BYTES_MAX: usize = 1_024;

/// Why nothing was read, as a server says it that refuses: by a Status, or in plain text. Where no
/// server has the API, the words are client-go's.
pub fn reason_of_refusal(code: StatusCode, text: &[u8]) -> String {
    let status = serde_json::from_slice::<Status>(text).ok();
    let plain = || match code {
        StatusCode::NOT_FOUND => "the server could not find the requested resource".to_owned(),
        _ => String::from_utf8_lossy(text).trim().to_owned(),
    };
    let mut reason = status.and_then(|status| status.message).unwrap_or_else(plain);
    reason.truncate(reason.floor_char_boundary(REFUSAL_BYTES_MAX));
    reason
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_is_shown_as_the_server_says_it_and_not_at_any_length() {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "code": 404,
            "status": "Failure", "message": "the server could not find the metric"});
        let text = status.to_string();
        let (absent, busy) = (StatusCode::NOT_FOUND, StatusCode::BAD_GATEWAY);
        assert_eq!(
            reason_of_refusal(absent, text.as_bytes()),
            "the server could not find the metric"
        );
        let unserved = "the server could not find the requested resource";
        assert_eq!(reason_of_refusal(absent, b"404 page not found\n"), unserved);
        assert_eq!(reason_of_refusal(busy, b"bad gateway\n"), "bad gateway");
        assert_eq!(reason_of_refusal(busy, "é".repeat(1_000).as_bytes()).len(), REFUSAL_BYTES_MAX);
    }
}
