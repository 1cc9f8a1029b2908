//! How names must look. Each rule answers with messages, none when the name is fine. Wording:
//! apimachinery's `util/validation` and `api/validate/content`.

const LABEL_REGEX: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_WITH_UNDERSCORE_REGEX: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
const QUALIFIED_REGEX: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_TEXT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                              alphanumeric character";

/// RFC 1123 label: container names, Namespaces.
pub fn dns_label(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if name.len() > 63 {
        messages.push(max_characters(63));
    }
    if !is_label(name) {
        if is_subdomain(name) {
            messages.push("must not contain dots".to_owned());
        } else {
            messages.push(regex_message(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
                 end with an alphanumeric character",
                LABEL_REGEX,
                &["my-name", "123-abc"],
            ));
        }
    }
    messages
}

/// RFC 1123 subdomain: most object names.
pub fn dns_subdomain(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if name.len() > 253 {
        messages.push(max_characters(253));
    }
    if !is_subdomain(name) {
        messages.push(regex_message(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
             and end with an alphanumeric character",
            &format!("{LABEL_REGEX}(\\.{LABEL_REGEX})*"),
            &["example.com"],
        ));
    }
    messages
}

/// `*.` before an RFC 1123 subdomain: hosts of an Ingress.
pub fn wildcard_dns_subdomain(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if name.len() > 253 {
        messages.push(max_characters(253));
    }
    if !name.strip_prefix("*.").is_some_and(is_subdomain) {
        messages.push(regex_message(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an \
             alphanumeric character",
            &format!("\\*\\.{LABEL_REGEX}(\\.{LABEL_REGEX})*"),
            &["*.example.com"],
        ));
    }
    messages
}

/// RFC 1123 subdomain whose labels may have underscores, at their begin too, as SRV records have
/// them: search domains.
pub fn dns_subdomain_with_underscore(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if name.len() > 253 {
        messages.push(max_characters(253));
    }
    if !name.split('.').all(is_label_with_underscore) {
        messages.push(regex_message(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must \
             start and end with an alphanumeric character",
            &format!("{LABEL_WITH_UNDERSCORE_REGEX}(\\.{LABEL_WITH_UNDERSCORE_REGEX})*"),
            &["example.com"],
        ));
    }
    messages
}

/// RFC 1035 label: Services.
pub fn dns_1035_label(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if name.len() > 63 {
        messages.push(max_characters(63));
    }
    if !(is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase())) {
        messages.push(regex_message(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    messages
}

/// Any one segment of a path.
pub fn path_segment(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .into_iter()
        .filter(|part| name.contains(part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// The key of a label or an annotation, a condition type, a finalizer, a resource name.
pub fn qualified(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let parts: Vec<&str> = name.split('/').collect();
    let local = match parts[..] {
        [local] => local,
        [prefix, local] => {
            if prefix.is_empty() {
                messages.push("prefix part must be non-empty".to_owned());
            } else {
                let wrong = dns_subdomain(prefix);
                messages.extend(wrong.into_iter().map(|message| format!("prefix part {message}")));
            }
            local
        }
        _ => {
            let rule = qualified_message("a valid label key");
            messages.push(format!(
                "{rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return messages;
        }
    };
    if local.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if local.len() > 63 {
        messages.push(format!("name part {}", max_bytes(63)));
    }
    if !is_qualified_part(local) {
        messages.push(qualified_message("name part"));
    }
    messages
}

/// The value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > 63 {
        messages.push(max_bytes(63));
    }
    if !value.is_empty() && !is_qualified_part(value) {
        messages.push(regex_message(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
             and end with an alphanumeric character",
            &format!("({QUALIFIED_REGEX})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    messages
}

/// A key of a ConfigMap or a Secret; it is a file name too.
pub fn config_map_key(key: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if key.len() > 253 {
        messages.push(max_characters(253));
    }
    if key.is_empty() || !key.bytes().all(is_qualified_byte) {
        messages.push(regex_message(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match key {
        "." | ".." => messages.push(format!("must not be '{key}'")),
        _ if key.starts_with("..") => messages.push("must not start with '..'".to_owned()),
        _ => {}
    }
    messages
}

/// The name of an environment variable (or a prefix of one).
pub fn env_var(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if name.is_empty() {
        messages.push("environment variable name must be non-empty".to_owned());
    }
    if name.chars().any(|c| !(c.is_ascii_graphic() || c == ' ') || c == '=') {
        messages.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    messages
}

/// The name of an HTTP header in a probe.
pub fn http_header(name: &str) -> Vec<String> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Vec::new();
    }
    vec![regex_message(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// The name of a port (RFC 6335, lower case).
pub fn port(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if name.len() > 15 {
        messages.push(max_characters(15));
    }
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || !name.bytes().all(allowed) {
        messages.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

fn is_label(name: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    matches!(
        name.as_bytes(),
        [first, ..] if edge(*first)
            && edge(name.as_bytes()[name.len() - 1])
            && name.bytes().all(|byte| edge(byte) || byte == b'-')
    )
}

fn is_label_with_underscore(label: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = label.strip_prefix('_').unwrap_or(label).as_bytes();
    bytes.first().is_some_and(|first| edge(*first))
        && bytes.last().is_some_and(|last| edge(*last))
        && bytes.iter().all(|byte| edge(*byte) || matches!(byte, b'-' | b'_'))
}

fn is_subdomain(name: &str) -> bool {
    name.split('.').all(is_label)
}

const fn is_qualified_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

fn is_qualified_part(part: &str) -> bool {
    let bytes = part.as_bytes();
    matches!(
        bytes,
        [first, ..] if first.is_ascii_alphanumeric()
            && bytes[bytes.len() - 1].is_ascii_alphanumeric()
            && bytes.iter().copied().all(is_qualified_byte)
    )
}

fn qualified_message(what: &str) -> String {
    regex_message(
        &format!("{what} {QUALIFIED_TEXT}"),
        QUALIFIED_REGEX,
        &["MyName", "my.name", "123-abc"],
    )
}

/// The shape of upstream's messages, two blanks after each example included.
fn regex_message(rule: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

fn max_characters(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn max_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn good_names_pass() {
        for name in ["a", "0", "a-b", "a.b", "a-1.b-2"] {
            assert!(dns_subdomain(name).is_empty(), "{name}");
        }
        for name in ["a", "_sip._tcp.shop.svc", "a_b.c", "a-_b"] {
            assert!(dns_subdomain_with_underscore(name).is_empty(), "{name}");
        }
        for name in ["", "a_", "x_.y", "__a", "_", "_-a", "x..y", "A"] {
            assert!(!dns_subdomain_with_underscore(name).is_empty(), "{name}");
        }
        for key in ["a", "A.b_c", "example.com/Name"] {
            assert!(qualified(key).is_empty(), "{key}");
        }
        assert!(label_value("").is_empty());
        assert!(env_var("A.B-C d").is_empty());
        assert!(port("http-2").is_empty());
    }

    #[test]
    fn bad_names_are_explained_in_upstreams_words() {
        let all = [
            dns_label("Web_1"),
            dns_label("a.b"),
            dns_subdomain(&format!("{}-", "a".repeat(253))),
            dns_1035_label("1a"),
            path_segment("a/b"),
            qualified("a/b/c"),
            qualified("/"),
            label_value("-"),
            config_map_key("..a"),
            config_map_key(""),
            env_var("A=B"),
            port("UPPER--"),
            port("123"),
        ];
        expect![[r#"
            a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            must not contain dots
            must be no more than 253 characters
            a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            may not contain '/'
            a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')
            prefix part must be non-empty
            name part must be non-empty
            name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            must not start with '..'
            a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
            a valid environment variable name must consist only of printable ASCII characters other than '='
            must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)
            must contain at least one letter (a-z)
            must not contain consecutive hyphens
            must not begin or end with a hyphen
            must contain at least one letter (a-z)"#]]
        .assert_eq(&all.concat().join("\n"));
    }
}
