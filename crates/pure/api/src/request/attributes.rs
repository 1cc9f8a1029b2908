//! What a request is about, in the words of authorization and of the audit log.

use http::Method;

use super::{PathTarget, RequestLine, RequestOptions, RequestVerb, ResourcePath};
use crate::auth::AccessAttributes;
use crate::selectors::FieldSelector;

/// Shows what a request is about, with the version of the resource.
pub fn of_request<T>(
    asked: &RequestLine<'_>,
    see: impl FnOnce(&AccessAttributes<'_>, &str) -> T,
) -> T {
    match PathTarget::parse(asked.path) {
        // as it is served, however it is spelled
        PathTarget::Other(path) => {
            let verb = path_verb(asked.method);
            see(&AccessAttributes::Path { verb: &verb, path: &path }, "")
        }
        PathTarget::Resource(path) => {
            let options = RequestOptions::of_path(&path, asked.query);
            let verb = RequestVerb::from_request(asked.method, &path, &options);
            of_resource(asked.method, &path, (verb, &options), |what| see(what, &path.version))
        }
    }
}

/// The verb of a request to a path that is no resource.
pub(crate) fn path_verb(method: &Method) -> String {
    method.as_str().to_ascii_lowercase()
}

/// Shows what a request to a resource is about.
pub(crate) fn of_resource<T>(
    method: &Method,
    path: &ResourcePath,
    (verb, options): (Option<RequestVerb>, &RequestOptions),
    see: impl FnOnce(&AccessAttributes<'_>) -> T,
) -> T {
    // who may read may ask for the head; that only a proxy answers it is another question
    let verb = match *method {
        Method::HEAD => RequestVerb::from_request(&Method::GET, path, options),
        _ => verb,
    };
    let verb_name = verb.map_or_else(|| path_verb(method), |v| v.name().to_owned());
    // A selection by name counts as naming the object, so that rules with resourceNames allow
    // it, as upstream.
    let selected = selected_name(verb, options);
    let is_namespace = path.group.is_empty() && path.resource == "namespaces";
    see(&AccessAttributes::Resource {
        verb: &verb_name,
        group: &path.group,
        resource: &path.resource,
        // `pods/x/proxy/a/b` is about `pods/proxy`
        subresource: path.subresource.split('/').next().unwrap_or_default(),
        namespace: if is_namespace { &path.name } else { &path.namespace },
        name: if path.name.is_empty() { &selected } else { &path.name },
    })
}

/// The name that a list, watch or deletion of many asks for by field selector; empty when it asks
/// for none.
fn selected_name(verb: Option<RequestVerb>, options: &RequestOptions) -> String {
    let many = matches!(
        verb,
        Some(RequestVerb::List | RequestVerb::Watch | RequestVerb::DeleteCollection)
    );
    if !many || options.field_selector.is_empty() {
        return String::new();
    }
    // a selector that cannot be read is refused later on, and names nothing until then
    let selector = FieldSelector::parse(&options.field_selector).ok();
    let name = selector.as_ref().and_then(|selector| selector.exact("metadata.name"));
    name.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_the_same_however_it_is_spelled() {
        for path in ["/backup", "/backup/", "//backup", "/%62ackup"] {
            let line = RequestLine { method: &Method::GET, path, query: "" };
            let seen = of_request(&line, |what, _| format!("{what:?}"));
            assert!(seen.contains("\"/backup\""), "{path}: {seen}");
        }
    }
}
