//! How names must look. The rules themselves are those of [`rekindle_types::validation::names`];
//! here stands which of them a kind's names go by.

pub use rekindle_types::validation::names::*;

/// How the name of an object must look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain, at most 253 characters: most kinds.
    DnsSubdomain,
    /// RFC 1123 label, at most 63 characters: Namespace, Service.
    DnsLabel,
    /// Any path segment: RBAC kinds.
    PathSegment,
    /// The kind has no rule. The machinery wants a path segment once nothing else is wrong:
    /// CertificateSigningRequest.
    AnyText,
}

/// The messages of the rule of a kind's `metadata.name`. `generate_name` is checked as a prefix:
/// what follows makes the end fine.
pub fn by_rule(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::DnsSubdomain => dns_subdomain(name),
        NameRule::DnsLabel => dns_label(name),
        NameRule::PathSegment => path_segment(name),
        NameRule::AnyText => Vec::new(),
    }
}

/// The warning about a name that becomes a part of host names and is no DNS label.
pub fn host_name_warning(name: &str, whole: &str) -> Option<String> {
    let messages = dns_label(name);
    (!messages.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {whole}, which can result in surprising behavior; a \
             DNS label is recommended: [{}]",
            messages.join(" ")
        )
    })
}

/// The same for a `metadata.generateName`, which may end with a dash.
pub fn by_rule_prefix(rule: NameRule, prefix: &str) -> Vec<String> {
    match rule {
        NameRule::DnsSubdomain | NameRule::DnsLabel => {
            // upstream puts a letter for the dash and the character before it
            let stem = prefix
                .strip_suffix('-')
                .and_then(|stem| stem.strip_suffix(|last: char| last.is_ascii()));
            by_rule(rule, &stem.map_or_else(|| prefix.to_owned(), |stem| format!("{stem}a")))
        }
        NameRule::PathSegment | NameRule::AnyText => by_rule(rule, prefix),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_may_end_with_a_dash() {
        assert!(by_rule_prefix(NameRule::DnsSubdomain, "web-").is_empty());
        assert!(!by_rule(NameRule::DnsSubdomain, "web-").is_empty());
        assert!(by_rule_prefix(NameRule::DnsSubdomain, "web.-").is_empty());
        for prefix in ["-", "w_b-", "wé-"] {
            assert!(!by_rule_prefix(NameRule::DnsSubdomain, prefix).is_empty(), "{prefix}");
        }
    }
}
