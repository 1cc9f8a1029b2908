//! Label selectors in their text form: `app=web,tier in (a, b),!canary`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{self as meta, LabelSelectorRequirement};

use crate::validation::names;

/// The requirements of a label selector, or the terms of a field selector, in a query. Each is
/// looked at for each object of a list. Upstream bounds them by the length of the query alone.
pub const TERMS_MAX: usize = 1_000;

/// Requirements that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelRequirement {
    key: String,
    condition: LabelCondition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelCondition {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelSelector {
    /// Reads a selector. The empty text selects everything.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = SelectorLexer::new(text);
        let mut requirements = Vec::new();
        while tokens.peek() != SelectorToken::End {
            match tokens.peek() {
                SelectorToken::Word(_) | SelectorToken::Not => {}
                other => {
                    return Err(match requirements.is_empty() {
                        true => {
                            format!("found '{other}', expected: !, identifier, or 'end of string'")
                        }
                        false => format!("found '{other}', expected: identifier after ','"),
                    });
                }
            }
            let requirement = parse_requirement(&mut tokens);
            requirements
                .push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
            if requirements.len() > TERMS_MAX {
                return Err(format!("a label selector may have at most {TERMS_MAX} requirements"));
            }
            match tokens.next() {
                SelectorToken::End => break,
                SelectorToken::Comma if tokens.peek() != SelectorToken::End => {}
                SelectorToken::Comma => {
                    return Err("found '', expected: identifier after ','".to_owned());
                }
                other => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
            }
        }
        Ok(Self { requirements })
    }

    /// The same as it stands inside objects, which know no `>` and `<`.
    ///
    /// # Errors
    /// It compares numbers.
    pub fn to_object(&self) -> Result<meta::LabelSelector, String> {
        let (mut equal, mut others) = (BTreeMap::new(), Vec::new());
        for LabelRequirement { key, condition } in &self.requirements {
            let (operator, values) = match condition {
                // of one key a map says one value
                LabelCondition::In(values) if values.len() == 1 && !equal.contains_key(key) => {
                    equal.extend(values.first().map(|value| (key.clone(), value.clone())));
                    continue;
                }
                LabelCondition::In(values) => ("In", Some(values)),
                LabelCondition::NotIn(values) => ("NotIn", Some(values)),
                LabelCondition::Exists => ("Exists", None),
                LabelCondition::DoesNotExist => ("DoesNotExist", None),
                LabelCondition::GreaterThan(_) | LabelCondition::LessThan(_) => {
                    return Err(format!("{key}: > and < are for lists only, not for objects"));
                }
            };
            let values = values.map(|values| values.iter().cloned().collect());
            let (key, operator) = (key.clone(), operator.to_owned());
            others.push(LabelSelectorRequirement { key, operator, values });
        }
        Ok(meta::LabelSelector {
            match_labels: Some(equal).filter(|equal| !equal.is_empty()),
            match_expressions: Some(others).filter(|others| !others.is_empty()),
        })
    }

    /// True when it selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The labels that have to have one value, with that.
    pub fn single_values(&self) -> impl Iterator<Item = (&String, &String)> {
        self.requirements.iter().filter_map(|requirement| match &requirement.condition {
            LabelCondition::In(values) if values.len() == 1 => {
                values.first().map(|value| (&requirement.key, value))
            }
            LabelCondition::In(_)
            | LabelCondition::NotIn(_)
            | LabelCondition::Exists
            | LabelCondition::DoesNotExist
            | LabelCondition::GreaterThan(_)
            | LabelCondition::LessThan(_) => None,
        })
    }

    /// Whether labels satisfy all requirements.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match &requirement.condition {
                LabelCondition::In(values) => value.is_some_and(|value| values.contains(value)),
                LabelCondition::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                LabelCondition::Exists => value.is_some(),
                LabelCondition::DoesNotExist => value.is_none(),
                LabelCondition::GreaterThan(bound) => {
                    number().is_some_and(|number| number > *bound)
                }
                LabelCondition::LessThan(bound) => number().is_some_and(|number| number < *bound),
            }
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SelectorToken {
    Word(String),
    Comma,
    Open,
    Close,
    Not,
    Equal,
    DoubleEqual,
    NotEqual,
    Greater,
    Less,
    End,
}

impl std::fmt::Display for SelectorToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Word(word) => word,
            Self::Comma => ",",
            Self::Open => "(",
            Self::Close => ")",
            Self::Not => "!",
            Self::Equal => "=",
            Self::DoubleEqual => "==",
            Self::NotEqual => "!=",
            Self::Greater => ">",
            Self::Less => "<",
            Self::End => "",
        })
    }
}

/// A cursor over the text.
struct SelectorLexer<'a> {
    rest: &'a str,
}

impl<'a> SelectorLexer<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text.trim() }
    }

    fn peek(&self) -> SelectorToken {
        Self { rest: self.rest }.next()
    }

    fn next(&mut self) -> SelectorToken {
        self.rest = self.rest.trim_start();
        for (symbol, token) in [
            ("!=", SelectorToken::NotEqual),
            ("==", SelectorToken::DoubleEqual),
            ("=", SelectorToken::Equal),
            ("!", SelectorToken::Not),
            (",", SelectorToken::Comma),
            ("(", SelectorToken::Open),
            (")", SelectorToken::Close),
            (">", SelectorToken::Greater),
            ("<", SelectorToken::Less),
        ] {
            if let Some(rest) = self.rest.strip_prefix(symbol) {
                self.rest = rest;
                return token;
            }
        }
        let end = self
            .rest
            .find(|char: char| char.is_whitespace() || "!=,()<>".contains(char))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if word.is_empty() { SelectorToken::End } else { SelectorToken::Word(word.to_owned()) }
    }
}

fn parse_requirement(tokens: &mut SelectorLexer<'_>) -> Result<LabelRequirement, String> {
    if tokens.peek() == SelectorToken::Not {
        tokens.next();
        let key = parse_key(tokens)?;
        return Ok(LabelRequirement { key, condition: LabelCondition::DoesNotExist });
    }
    let key = parse_key(tokens)?;
    if matches!(tokens.peek(), SelectorToken::End | SelectorToken::Comma) {
        return Ok(LabelRequirement { key, condition: LabelCondition::Exists });
    }
    let condition = match tokens.next() {
        SelectorToken::Equal | SelectorToken::DoubleEqual => {
            LabelCondition::In(BTreeSet::from([parse_value(&key, tokens)?]))
        }
        SelectorToken::NotEqual => {
            LabelCondition::NotIn(BTreeSet::from([parse_value(&key, tokens)?]))
        }
        SelectorToken::Word(word) if word == "in" => LabelCondition::In(parse_set(&key, tokens)?),
        SelectorToken::Word(word) if word == "notin" => {
            LabelCondition::NotIn(parse_set(&key, tokens)?)
        }
        SelectorToken::Greater => LabelCondition::GreaterThan(parse_bound(&key, tokens)?),
        SelectorToken::Less => LabelCondition::LessThan(parse_bound(&key, tokens)?),
        other => {
            return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt"));
        }
    };
    Ok(LabelRequirement { key, condition })
}

fn parse_key(tokens: &mut SelectorLexer<'_>) -> Result<String, String> {
    match tokens.next() {
        SelectorToken::Word(key) => match names::qualified(&key).as_slice() {
            [] => Ok(key),
            messages => Err(format!("key: Invalid value: {key:?}: {}", messages.join("; "))),
        },
        other => Err(format!("found '{other}', expected: identifier")),
    }
}

/// A value; an empty one may stand before a comma or the end.
fn parse_value(key: &str, tokens: &mut SelectorLexer<'_>) -> Result<String, String> {
    match tokens.peek() {
        SelectorToken::End | SelectorToken::Comma | SelectorToken::Close => Ok(String::new()),
        SelectorToken::Word(value) => {
            tokens.next();
            match names::label_value(&value).as_slice() {
                [] => Ok(value),
                messages => Err(format!(
                    "values[0][{key}]: Invalid value: {value:?}: {}",
                    messages.join("; ")
                )),
            }
        }
        other => Err(format!("found '{other}', expected: identifier")),
    }
}

fn parse_set(key: &str, tokens: &mut SelectorLexer<'_>) -> Result<BTreeSet<String>, String> {
    match tokens.next() {
        SelectorToken::Open => {}
        other => return Err(format!("found '{other}' expected: '('")),
    }
    let mut values = BTreeSet::new();
    loop {
        match tokens.peek() {
            SelectorToken::Word(_) | SelectorToken::Comma | SelectorToken::Close => {}
            other if values.is_empty() => {
                return Err(format!("found '{other}', expected: ',', ')' or identifier"));
            }
            other => return Err(format!("found '{other}', expected: ',', or identifier")),
        }
        values.insert(parse_value(key, tokens)?);
        match tokens.next() {
            SelectorToken::Comma => {}
            SelectorToken::Close => return Ok(values),
            other => return Err(format!("found '{other}', expected: ',' or ')'")),
        }
    }
}

fn parse_bound(key: &str, tokens: &mut SelectorLexer<'_>) -> Result<i64, String> {
    let value = parse_value(key, tokens)?;
    value.parse().map_err(|_| {
        format!("values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_selector_in_an_object_selects_what_its_text_selects() {
        let shown = |text: &str| {
            let object = LabelSelector::parse(text).and_then(|selector| selector.to_object());
            object.map(|object| crate::validation::selector::format(&object))
        };
        for (text, expected) in [
            ("app=web", "app=web"),
            (
                "app=web,app!=db,tier in (a,b),!old,new",
                "app=web,app notin (db),new,!old,tier in (a,b)",
            ),
            ("app=web,app=db", "app=web,app in (db)"),
            ("", "<none>"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
        }
        assert!(shown("size>3").unwrap_err().contains("for lists only"));
    }

    #[test]
    fn requirements_hold_as_the_api_reference_says() {
        let web = labels(&[("app", "web"), ("tier", "a"), ("size", "10")]);
        for (selector, selected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier=a", true),
            ("app=web,tier=b", false),
            ("app!=web", false),
            ("other!=x", true),
            ("app in (web, db)", true),
            ("app in (db)", false),
            ("app notin (db),tier", true),
            ("other notin (db)", true),
            ("app", true),
            ("!app", false),
            ("! other", true),
            ("size>9", true),
            ("size<10", false),
            ("app>1", false),
            ("app=", false),
            ("example.com/x notin (,a)", true),
        ] {
            let parsed = LabelSelector::parse(selector).expect(selector);
            assert_eq!(parsed.matches(&web), selected, "{selector}");
        }
    }

    #[test]
    fn the_number_of_requirements_is_bounded() {
        let text = |count: usize| (0..count).map(|n| format!("k{n}!=x,")).collect::<String>() + "a";
        assert!(LabelSelector::parse(&text(TERMS_MAX - 1)).is_ok());
        let refused = LabelSelector::parse(&text(TERMS_MAX)).unwrap_err();
        assert_eq!(refused, "a label selector may have at most 1000 requirements");
    }

    #[test]
    fn texts_that_are_no_selectors_are_refused() {
        for text in [
            "app=web tier=a",
            "=a",
            "a in b",
            "a in (b",
            "a,",
            ",",
            "a>b",
            "-a=b",
            "a=-",
            "a in ()x",
            "a=(b)",
            "!",
        ] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-c/.=!,()<> -]{0,30}") {
            let _ = LabelSelector::parse(&text);
        }

        #[test]
        fn a_selector_selects_as_its_terms_do(
            pairs in proptest::collection::btree_map("[a-c]", "[x-z]", 0..3),
            terms in proptest::collection::vec(("[a-c]", "[x-z]", any::<bool>()), 0..4),
        ) {
            let text: Vec<String> = terms.iter()
                .map(|(key, value, equal)| format!("{key}{}{value}", if *equal { "=" } else { "!=" }))
                .collect();
            let expected = terms.iter()
                .all(|(key, value, equal)| (pairs.get(key) == Some(value)) == *equal);
            prop_assert_eq!(LabelSelector::parse(&text.join(",")).unwrap().matches(&pairs), expected);
        }
    }
}
