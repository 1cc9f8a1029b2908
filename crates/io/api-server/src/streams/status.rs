//! How a stream went, as clients read it from the error channel.

use serde_json::json;

use super::node::NodeStreamError;

/// The text for the end of a process that clients before v4 read; none when all went well.
pub(super) fn text_of_end(end: &Result<i32, NodeStreamError>) -> Option<Vec<u8>> {
    let message = message_of_end(end)?;
    Some(message.into_bytes())
}

fn message_of_end(end: &Result<i32, NodeStreamError>) -> Option<String> {
    match end {
        Ok(0) => None,
        Ok(code) => Some(format!("command terminated with non-zero exit code: exit status {code}")),
        Err(error) => Some(format!("Internal error occurred: {error}")),
    }
}

/// The `Status` for the end of a process.
pub(super) fn status_of_end(end: &Result<i32, NodeStreamError>) -> Vec<u8> {
    let message = message_of_end(end);
    let status = match end {
        Ok(0) => json!({"metadata": {}, "status": "Success"}),
        Ok(code) => json!({
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Err(error) => json!({
            "metadata": {},
            "status": "Failure",
            "message": message,
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

    /// As the kubelet's `v1WriteStatusFunc`.
    #[test]
    fn clients_before_v4_read_text_and_nothing_when_all_went_well() {
        assert_eq!(text_of_end(&Ok(0)), None);
        let text = text_of_end(&Ok(3)).unwrap();
        assert_eq!(text, b"command terminated with non-zero exit code: exit status 3");
    }

    /// As the kubelet tells it (`NewInternalError`): kubectl prints the message, and ends with 1.
    #[test]
    fn a_command_that_could_not_be_started_is_an_internal_error_with_its_cause() {
        let problem =
            "error executing command in container: exec \"x\": executable file not found in $PATH";
        let bytes = status_of_end(&Err(NodeStreamError(problem.to_owned())));
        let status: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(status["message"], format!("Internal error occurred: {problem}"));
        assert_eq!(status["details"]["causes"][0]["message"], problem);
        assert_eq!(status["reason"], "InternalError");
    }
}
