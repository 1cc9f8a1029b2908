//! What a registry asks for in `WWW-Authenticate` (RFC 9110, section 11.6.1; token flow:
//! distribution project, "Token Authentication Specification").

/// A challenge that can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User name and password with each request.
    Basic,
    /// A token from the address in `realm`.
    Bearer {
        /// An absolute URL.
        realm: String,
        /// Passed on; empty when not given.
        service: String,
        /// What to ask for; empty when the registry does not say.
        scope: String,
    },
}

/// The challenge to answer among the header's values: a token is preferred to a password with each
/// request.
pub(super) fn parse<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Challenge> {
    let found: Vec<Challenge> = headers.flat_map(challenges).collect();
    let bearer = found.iter().find(|challenge| matches!(challenge, Challenge::Bearer { .. }));
    bearer.or_else(|| found.first()).cloned()
}

/// The challenges of one header value that we know.
fn challenges(text: &str) -> Vec<Challenge> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((scheme, after)) = take_token(rest) {
        let (parameters, after) = take_parameters(after);
        rest = after;
        let value = |name: &str| {
            let mut matching = parameters.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
            matching.next().map(|(_, value)| value.clone()).unwrap_or_default()
        };
        if scheme.eq_ignore_ascii_case("basic") {
            found.push(Challenge::Basic);
        } else if scheme.eq_ignore_ascii_case("bearer") && !value("realm").is_empty() {
            let (realm, service, scope) = (value("realm"), value("service"), value("scope"));
            found.push(Challenge::Bearer { realm, service, scope });
        }
    }
    found
}

fn take_token(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let end = text.find([' ', '\t', ',', '=']).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// `name=value` and `name="value"` pairs up to the next scheme.
fn take_parameters(mut text: &str) -> (Vec<(String, String)>, &str) {
    let mut parameters = Vec::new();
    loop {
        let Some((name, after)) = take_token(text) else { return (parameters, "") };
        let Some(value) = after.trim_start().strip_prefix('=') else {
            return (parameters, text); // a name alone is the next scheme
        };
        let (value, after) = take_value(value.trim_start());
        parameters.push((name.to_owned(), value));
        text = after;
    }
}

fn take_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut escaped = false;
    for (at, c) in quoted.char_indices() {
        match c {
            _ if escaped => {
                value.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, &quoted[at + 1..]),
            _ => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bearer(realm: &str, service: &str, scope: &str) -> Option<Challenge> {
        let (realm, service, scope) = (realm.into(), service.into(), scope.into());
        Some(Challenge::Bearer { realm, service, scope })
    }

    #[test]
    fn challenges_of_known_registries_are_read() {
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        let cases: [(&[&str], Option<Challenge>); 8] = [
            (
                &[hub],
                bearer(
                    "https://auth.docker.io/token",
                    "registry.docker.io",
                    "repository:a/b:pull,push",
                ),
            ),
            (&[r#"Basic realm="Registry Realm""#], Some(Challenge::Basic)),
            (&[r#"basic realm=x, bearer realm="https://t""#], bearer("https://t", "", "")),
            (&["Basic realm=x", r#"Bearer realm="https://t""#], bearer("https://t", "", "")),
            (&[r#"Bearer realm = "https://t?a=\"b\"", x"#], bearer("https://t?a=\"b\"", "", "")),
            (&["Bearer service=x"], None),
            (&["Negotiate"], None),
            (&[""], None),
        ];
        for (given, expected) in cases {
            assert_eq!(parse(given.iter().copied()), expected, "{given:?}");
        }
    }

    proptest! {
        #[test]
        fn no_header_makes_it_fail(text in r#"[a-zB ,="\\]{0,40}|.{0,40}"#) {
            parse([text.as_str()].into_iter());
        }
    }
}
