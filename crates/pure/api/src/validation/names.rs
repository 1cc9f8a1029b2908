//! How names must look. The rules themselves are those of [`rekindle_types::validation::names`];
//! here stands which of them a kind's names go by.

pub use rekindle_types::validation::names::*;

use crate::registry::resource::NameRule;

/// The messages of the rule of a kind's `metadata.name`. `generate_name` is checked as a prefix:
/// what follows makes the end fine.
pub fn by_rule(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::DnsSubdomain => dns_subdomain(name),
        NameRule::DnsLabel => dns_label(name),
        NameRule::Dns1035Label => dns_1035_label(name),
        NameRule::PathSegment => path_segment(name),
    }
}

/// The same for a `metadata.generateName`, which may end with a dash.
pub fn by_rule_prefix(rule: NameRule, prefix: &str) -> Vec<String> {
    match rule {
        NameRule::DnsSubdomain | NameRule::DnsLabel | NameRule::Dns1035Label => {
            let masked = match prefix.strip_suffix('-') {
                Some(stem) if !stem.is_empty() => format!("{stem}a"),
                Some(_) | None => prefix.to_owned(),
            };
            by_rule(rule, &masked)
        }
        NameRule::PathSegment => path_segment(prefix),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_may_end_with_a_dash() {
        assert!(by_rule_prefix(NameRule::DnsSubdomain, "web-").is_empty());
        assert!(!by_rule(NameRule::DnsSubdomain, "web-").is_empty());
    }
}
