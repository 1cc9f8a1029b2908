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
            "message": format!("Internal error occurred: {error}"),
            "reason": "InternalError",
            "details": {"causes": [{"message": error.to_string()}]},
            "code": 500,
        }),
    };
    status.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kubelet tells it (`NewInternalError`): kubectl prints the message, and ends with 1.
    #[test]
    fn a_command_that_could_not_be_started_is_an_internal_error_with_its_cause() {
        let problem =
            "error executing command in container: exec \"x\": executable file not found in $PATH";
        let bytes = of_end(&Err(StreamError(problem.to_owned())));
        let status: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(status["message"], format!("Internal error occurred: {problem}"));
        assert_eq!(status["details"]["causes"][0]["message"], problem);
        assert_eq!(status["reason"], "InternalError");
    }
}
