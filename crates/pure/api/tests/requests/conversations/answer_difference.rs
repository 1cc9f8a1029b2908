//! Where two answers differ.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// One difference between the answer that was recorded and ours.
pub(super) struct AnswerDifference {
    /// The step of the case and its request.
    step: String,
    /// The path inside the answer.
    path: String,
    /// What was recorded, and what came.
    problem: String,
}

impl AnswerDifference {
    pub(super) fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { step: String::new(), path: path.into(), problem: problem.into() }
    }

    /// The same, said of this step.
    pub(super) fn in_step(self, step: &str) -> Self {
        Self { step: step.to_owned(), ..self }
    }

    /// Whether only the words of a message or a warning differ.
    pub(super) fn is_in_words_only(&self) -> bool {
        self.path.ends_with(".message")
            || self.path.starts_with("Warning")
            || self.path.contains(".warnings")
    }
}

impl fmt::Display for AnswerDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.step, self.path, self.problem)
    }
}

/// All differences between two values, `path` being theirs.
pub(super) fn differences(want: &Value, got: &Value, path: &str) -> Vec<AnswerDifference> {
    match (want, got) {
        (Value::Object(wanted), Value::Object(found)) => {
            let keys: BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
            keys.into_iter()
                .flat_map(|key| {
                    let path = format!("{path}.{key}");
                    match (wanted.get(key), found.get(key)) {
                        (Some(want), Some(got)) => differences(want, got, &path),
                        (Some(want), None) => {
                            vec![AnswerDifference::new(path, format!("missing: {}", short(want)))]
                        }
                        (None, Some(got)) => {
                            vec![AnswerDifference::new(path, format!("not wanted: {}", short(got)))]
                        }
                        (None, None) => Vec::new(),
                    }
                })
                .collect()
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            let pairs = wanted.iter().zip(found).enumerate();
            pairs
                .flat_map(|(index, (want, got))| {
                    differences(want, got, &format!("{path}[{index}]"))
                })
                .collect()
        }
        _ if want == got => Vec::new(),
        _ => {
            vec![AnswerDifference::new(
                path,
                format!("want {}\n      got  {}", short(want), short(got)),
            )]
        }
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(700).collect()
}
