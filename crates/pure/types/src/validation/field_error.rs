//! One thing wrong with one field, in the words the API server uses (apimachinery `field.Error`).

use std::fmt;

use super::quoted::quoted;

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldError {
    /// The path, for example `spec.containers[0].image`.
    pub field: String,
    /// The kind of mistake.
    pub problem: FieldProblem,
    /// What to do, or what is allowed. May be empty.
    pub detail: String,
}

/// The kinds of mistakes; each has its reason in `Status.details.causes`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldProblem {
    /// The value is not acceptable. Carries the value as shown to the user; empty where it is not
    /// shown.
    Invalid(String),
    /// A value must be given.
    Required,
    /// The value must be unique. Carries it; empty where it is not shown.
    Duplicate(String),
    /// The value names something that is not there. Carries it.
    NotFound(String),
    /// The value is none of the known ones. Carries it; the detail lists them.
    NotSupported(String),
    /// It may not be set (here, or in this combination).
    Forbidden,
    /// It is longer than this many bytes, or characters; the detail says which.
    TooLong(usize),
    /// It has too many entries: how many were found, where that is shown, and how many it may have.
    TooMany {
        /// How many entries it has.
        found: Option<usize>,
        /// How many it may have.
        max: usize,
    },
    /// The value has the wrong type. Carries it as shown to the user.
    TypeInvalid(String),
    /// The server could not look at the value. The detail says why.
    Internal,
}

impl FieldError {
    /// A value that is not acceptable.
    pub fn invalid(
        field: impl Into<String>,
        value: impl fmt::Debug,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            problem: FieldProblem::Invalid(quoted(value)),
            detail: detail.into(),
        }
    }

    /// A list or an object that is not acceptable, which is shown as JSON.
    pub fn invalid_json(
        field: impl Into<String>,
        value: &impl serde::Serialize,
        detail: impl Into<String>,
    ) -> Self {
        let shown = serde_json::to_string(value)
            .expect("lists and objects of the API have text keys, so JSON can hold them");
        Self { field: field.into(), problem: FieldProblem::Invalid(shown), detail: detail.into() }
    }

    /// A value that must be given.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: field.into(), problem: FieldProblem::Required, detail: detail.into() }
    }

    /// A value that stands there already.
    pub fn duplicate(field: impl Into<String>, value: impl fmt::Debug) -> Self {
        Self {
            field: field.into(),
            problem: FieldProblem::Duplicate(quoted(value)),
            detail: String::new(),
        }
    }

    /// A reference to something that is not there.
    pub fn not_found(field: impl Into<String>, value: impl fmt::Debug) -> Self {
        Self {
            field: field.into(),
            problem: FieldProblem::NotFound(quoted(value)),
            detail: String::new(),
        }
    }

    /// A value outside a fixed set.
    pub fn not_supported(
        field: impl Into<String>,
        value: impl fmt::Debug,
        supported: &[&str],
    ) -> Self {
        let names: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        Self {
            field: field.into(),
            problem: FieldProblem::NotSupported(quoted(value)),
            detail: format!("supported values: {}", names.join(", ")),
        }
    }

    /// A field that may not be set.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: field.into(), problem: FieldProblem::Forbidden, detail: detail.into() }
    }

    /// A text beyond its limit in bytes.
    pub fn too_long(field: impl Into<String>, max_bytes: usize) -> Self {
        Self {
            field: field.into(),
            problem: FieldProblem::TooLong(max_bytes),
            detail: format!("may not be more than {}", counted(max_bytes, "byte")),
        }
    }

    /// A text beyond its limit in characters.
    pub fn too_many_characters(field: impl Into<String>, max_characters: usize) -> Self {
        Self {
            field: field.into(),
            problem: FieldProblem::TooLong(max_characters),
            detail: format!("may not be more than {}", counted(max_characters, "character")),
        }
    }

    /// A list beyond its limit.
    pub fn too_many(field: impl Into<String>, max_items: usize) -> Self {
        Self {
            field: field.into(),
            problem: FieldProblem::TooMany { found: None, max: max_items },
            detail: format!("must have at most {}", counted(max_items, "item")),
        }
    }

    /// A list beyond its limit, with the number of its entries.
    pub fn too_many_of(field: impl Into<String>, found: usize, max_items: usize) -> Self {
        Self {
            problem: FieldProblem::TooMany { found: Some(found), max: max_items },
            ..Self::too_many(field, max_items)
        }
    }

    /// The reason of the cause in `Status.details.causes`, as upstream spells it.
    pub const fn cause_reason(&self) -> &'static str {
        match self.problem {
            FieldProblem::Invalid(_) => "FieldValueInvalid",
            FieldProblem::Required => "FieldValueRequired",
            FieldProblem::Duplicate(_) => "FieldValueDuplicate",
            FieldProblem::NotFound(_) => "FieldValueNotFound",
            FieldProblem::NotSupported(_) => "FieldValueNotSupported",
            FieldProblem::Forbidden => "FieldValueForbidden",
            FieldProblem::TooLong(_) => "FieldValueTooLong",
            FieldProblem::TooMany { .. } => "FieldValueTooMany",
            FieldProblem::TypeInvalid(_) => "FieldValueTypeInvalid",
            FieldProblem::Internal => "InternalError",
        }
    }

    /// What is wrong, without the field: the message of the cause.
    pub fn body(&self) -> String {
        let head = match &self.problem {
            FieldProblem::Invalid(value) if value.is_empty() => "Invalid value".to_owned(),
            FieldProblem::Invalid(value) => format!("Invalid value: {value}"),
            FieldProblem::Required => "Required value".to_owned(),
            FieldProblem::Duplicate(value) if value.is_empty() => "Duplicate value".to_owned(),
            FieldProblem::Duplicate(value) => format!("Duplicate value: {value}"),
            FieldProblem::NotFound(value) => format!("Not found: {value}"),
            FieldProblem::NotSupported(value) => format!("Unsupported value: {value}"),
            FieldProblem::Forbidden => "Forbidden".to_owned(),
            FieldProblem::TooLong(_) => "Too long".to_owned(),
            FieldProblem::TooMany { found: None, .. } => "Too many".to_owned(),
            FieldProblem::TooMany { found: Some(found), .. } => format!("Too many: {found}"),
            FieldProblem::TypeInvalid(value) => format!("Invalid value: {value}"),
            FieldProblem::Internal => "Internal error".to_owned(),
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }
}

/// A number of things: `1 item`, `2 items`.
fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}
