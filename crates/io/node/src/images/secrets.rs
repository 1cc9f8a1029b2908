//! From Secrets to a keyring: pure. Source: Kubernetes documentation, "Secrets", types
//! `kubernetes.io/dockerconfigjson` and `kubernetes.io/dockercfg`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use rekindle_runtime::image::registry::Keyring;

use crate::objects::{FetchedObjects, ObjectRef};

/// What pull secrets give.
#[derive(Clone, Debug, Default)]
pub(crate) struct PullSecrets {
    pub(crate) keyring: Keyring,
    /// Names of those that are absent or hold no logins; what is in them is never told.
    pub(crate) unusable: Vec<String>,
}

/// Reads the secrets of a pod, in the order of their names.
pub(crate) fn pull_secrets(wanted: &BTreeSet<ObjectRef>, objects: &FetchedObjects) -> PullSecrets {
    let mut found = PullSecrets::default();
    for reference in wanted {
        match objects.secret(reference).and_then(|secret| keyring(reference, secret)) {
            Some(keyring) => found.keyring.extend(keyring),
            None => found.unusable.push(reference.name.clone()),
        }
    }
    found
}

fn keyring(reference: &ObjectRef, secret: &Secret) -> Option<Keyring> {
    let data = |key| secret.data.as_ref()?.get(key);
    let read = match (data(".dockerconfigjson"), data(".dockercfg")) {
        (Some(bytes), _) => Keyring::from_docker_config_json(&bytes.0),
        (None, Some(bytes)) => Keyring::from_dockercfg(&bytes.0),
        (None, None) => return None,
    };
    match read {
        Ok(keyring) => Some(keyring),
        Err(error) => {
            tracing::warn!(secret = %reference, namespace = reference.namespace, %error, "failed to read a pull secret");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use k8s_openapi::ByteString;
    use rekindle_runtime::image::ImageReference;

    use super::*;
    use crate::objects::ReferencedObject;

    fn secret(key: &str, text: &str) -> ReferencedObject {
        let data = BTreeMap::from([(key.to_owned(), ByteString(text.as_bytes().to_vec()))]);
        ReferencedObject::Secret(Arc::new(Secret { data: Some(data), ..Secret::default() }))
    }

    #[test]
    fn secrets_of_both_kinds_count_and_others_are_named() {
        let contents = [
            ("new", secret(".dockerconfigjson", r#"{"auths":{"r.test":{"username":"n"}}}"#)),
            ("old", secret(".dockercfg", r#"{"r.test":{"username":"o"}}"#)),
            ("broken", secret(".dockerconfigjson", "hidden")),
            ("opaque", secret("password", "hidden")),
        ];
        let mut objects = FetchedObjects::default();
        let mut wanted = BTreeSet::from([ObjectRef::secret("shop", "absent")]);
        for (name, object) in contents {
            objects.insert(ObjectRef::secret("shop", name), object);
            wanted.insert(ObjectRef::secret("shop", name));
        }
        let found = pull_secrets(&wanted, &objects);
        assert_eq!(found.unusable, ["absent", "broken", "opaque"]);
        let reference = ImageReference::parse("r.test/app").unwrap();
        assert_eq!(found.keyring.lookup(&reference).len(), 2);
    }
}
