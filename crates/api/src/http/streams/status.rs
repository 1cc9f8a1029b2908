//! How a stream went, as clients read it from the error channel.

use serde_json::json;

use super::node::StreamError;

/// The `Status` for the end of a process.
pub(super) fn of_end(end: &Result<i32, StreamError>) -> Vec<u8> {
    let status = match end {
        Ok(0) => json!({"metadata": {}, "status": "Success"}),
        Ok(code) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Err(error) => json!({
            "metadata": {},
            "status": "Failure",
            "message": error.to_string(),
            "reason": "InternalError",
            "details": {"causes": [{"message": error.to_string()}]},
            "code": 500,
        }),
    };
    status.to_string().into_bytes()
}
