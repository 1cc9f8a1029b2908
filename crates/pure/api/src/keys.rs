//! Where objects live in the store: `/pods/default/web-0`, `/deployments.apps/default/web`,
//! `/nodes/one`.

use rekindle_kinds::registry::{KindEntry, ResourceScope};

/// The key of one object. `namespace` counts for namespaced kinds only.
pub fn object(entry: &KindEntry, namespace: &str, name: &str) -> String {
    let mut key = collection(entry, namespace);
    key.push_str(name);
    key
}

/// What all keys of a kind begin with; within one namespace, unless that is empty.
pub fn collection(entry: &KindEntry, namespace: &str) -> String {
    let resource = entry.home().resource();
    match entry.scope {
        ResourceScope::Namespaced if !namespace.is_empty() => {
            ["/", &resource, "/", namespace, "/"].concat()
        }
        ResourceScope::Namespaced | ResourceScope::Cluster => ["/", &resource, "/"].concat(),
    }
}
