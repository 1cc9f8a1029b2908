//! Field selectors: `status.phase!=Running,spec.nodeName=a`.

use std::borrow::Cow;

use rekindle_kinds::registry::{KindEntry, KindOrigin};

use super::TERMS_MAX;
use crate::status::ApiError;

/// Terms that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldTerm {
    field: String,
    comparison: FieldComparison,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldComparison {
    Equal,
    NotEqual,
}

impl FieldSelector {
    /// Reads a selector; `\,`, `\=` and `\\` stand for themselves in values.
    pub fn parse(text: &str) -> Result<Self, String> {
        let terms: Vec<FieldTerm> = split_terms(text)
            .into_iter()
            .filter(|term| !term.is_empty())
            .take(TERMS_MAX + 1)
            .map(|term| parse_term(&term, text))
            .collect::<Result<_, _>>()?;
        match terms.len() > TERMS_MAX {
            true => Err(format!("a field selector may have at most {TERMS_MAX} terms")),
            false => Ok(Self { terms }),
        }
    }

    /// True when it selects everything.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether names are all that it asks for.
    pub(super) fn needs_only_names(&self) -> bool {
        self.terms.iter().all(|term| is_name_field(&term.field))
    }

    /// The one value that a field must have, if the selector says so.
    pub(crate) fn exact(&self, field: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.field == field && term.comparison == FieldComparison::Equal)
            .map(|term| term.value.as_str())
    }

    /// Whether all terms hold; `value_of` gives the value of a field. An absent value is an empty
    /// one.
    pub(super) fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<Cow<'a, str>>) -> bool {
        self.terms.iter().all(|term| {
            let value = value_of(&term.field).unwrap_or_default();
            match term.comparison {
                FieldComparison::Equal => value == term.value,
                FieldComparison::NotEqual => value != term.value,
            }
        })
    }

    /// Refuses fields that objects of this kind cannot be selected by.
    pub(super) fn check(&self, entry: &KindEntry) -> Result<(), ApiError> {
        for term in &self.terms {
            let field = term.field.as_str();
            let known = field == "metadata.name"
                || (field == "metadata.namespace" && entry.has_namespace_selector)
                || entry.selectable_fields.iter().any(|known| known == field);
            if known {
                continue;
            }
            return Err(ApiError::bad_request(
                if entry.origin == KindOrigin::BuiltIn && entry.selectable_fields.is_empty() {
                    format!(
                        "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                    )
                } else {
                    format!("field label not supported: {field}")
                },
            ));
        }
        Ok(())
    }
}

fn is_name_field(field: &str) -> bool {
    matches!(field, "metadata.name" | "metadata.namespace")
}

/// Splits at commas that are not escaped; escapes stay.
fn split_terms(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut chars = text.chars();
    while let Some(next) = chars.next() {
        if next == ',' {
            terms.push(String::new());
            continue;
        }
        let term = terms.last_mut().expect("it starts with one term and only grows");
        term.push(next);
        if next == '\\' {
            term.extend(chars.next());
        }
    }
    terms
}

fn parse_term(term: &str, selector: &str) -> Result<FieldTerm, String> {
    let at = term
        .char_indices()
        .find(|(at, char)| *char == '=' || (*char == '!' && term[*at..].starts_with("!=")))
        .map(|(at, _)| at)
        .ok_or_else(|| format!("invalid selector: '{selector}'; can't understand '{term}'"))?;
    let (field, rest) = term.split_at(at);
    let (comparison, value) = if let Some(value) = rest.strip_prefix("!=") {
        (FieldComparison::NotEqual, value)
    } else if let Some(value) = rest.strip_prefix("==") {
        (FieldComparison::Equal, value)
    } else {
        (FieldComparison::Equal, rest.get(1..).unwrap_or_default())
    };
    Ok(FieldTerm { field: field.to_owned(), comparison, value: unescape(value)? })
}

fn unescape(value: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut chars = value.chars();
    while let Some(next) = chars.next() {
        match next {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => text.push(escaped),
                other => {
                    let shown = other.map_or_else(|| "\\".to_owned(), |char| format!("\\{char}"));
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: {shown}"
                    ));
                }
            },
            '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(next)
                ));
            }
            other => text.push(other),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, phase: &str) -> bool {
        let value_of = |field: &str| match field {
            "status.phase" => Some(Cow::Owned(phase.to_owned())),
            _ => None,
        };
        FieldSelector::parse(selector).unwrap().matches(value_of)
    }

    #[test]
    fn terms_compare_values() {
        for (selector, phase, selected) in [
            ("", "Running", true),
            ("status.phase=Running", "Running", true),
            ("status.phase==Running", "Pending", false),
            ("status.phase!=Running", "Pending", true),
            ("status.phase!=Running,status.phase!=Pending", "Pending", false),
            ("spec.nodeName=", "Pending", true),
            (r"status.phase=a\,b\=c\\", r"a,b=c\", true),
        ] {
            assert_eq!(matches(selector, phase), selected, "{selector} on {phase}");
        }
    }

    #[test]
    fn the_number_of_terms_is_bounded() {
        assert!(FieldSelector::parse(&"metadata.name=a,".repeat(TERMS_MAX)).is_ok());
        let refused = FieldSelector::parse(&"metadata.name=a,".repeat(TERMS_MAX + 1)).unwrap_err();
        assert_eq!(refused, "a field selector may have at most 1000 terms");
    }

    #[test]
    fn texts_that_are_no_selectors_are_refused() {
        for (text, message) in [
            ("status.phase", "invalid selector: 'status.phase'; can't understand 'status.phase'"),
            (r"a=b\c", r"invalid field selector: invalid escape sequence: \c"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap_err(), message);
        }
    }
}
