//! What the store knows of labels: enough to leave out objects that a selector cannot select.

use std::collections::BTreeMap;

use rekindle_store::TermFilter;
use rekindle_types::label_query::LabelSelector;

/// The terms of all objects that are selected: of each label that has to have one value.
pub(super) fn of_selector(selector: &LabelSelector) -> TermFilter {
    let mut terms = TermFilter::default();
    selector.single_values().for_each(|label| terms.insert(&label));
    terms
}

/// The terms of an object with these labels.
pub(super) fn of_object(labels: &BTreeMap<String, String>) -> TermFilter {
    let mut terms = TermFilter::default();
    labels.iter().for_each(|label| terms.insert(&label));
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_leaves_out_what_is_not_selected_and_nothing_else() {
        let web = [("app", "web"), ("tier", "a"), ("size", "10")];
        let web = web.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        for (selector, is_looked_at) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier=a", true),
            ("app in (web, db)", true),
            ("app notin (db),tier", true),
            ("size>9", true),
            ("app=db", false),
            ("app=web,tier=b", false),
            ("tier in (app)", false),
        ] {
            let parsed = LabelSelector::parse(selector).unwrap();
            let may_be = of_object(&web).may_have_all(&of_selector(&parsed));
            assert_eq!(may_be, is_looked_at, "{selector}");
            assert!(may_be || !parsed.matches(&web), "the store leaves {selector} out");
        }
    }
}
