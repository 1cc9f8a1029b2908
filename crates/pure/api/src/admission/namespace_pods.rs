//! The pods of a namespace, for warnings that look at them inside a write. A write must not take as
//! long as a list of its namespace, so the warnings are for small namespaces only.

use std::sync::Arc;

use rekindle_kinds::registry::KindEntry;
use rekindle_store::{RangeQuery, StoredObject};

use crate::call::ApiCall;
use crate::keys;
use crate::weight::LIGHT_LIST_OBJECTS;

/// The kind and its objects in the namespace of the call. None when there are more than a light
/// request may list: the keys are counted that far, and no object is looked at.
pub(super) fn listed<'a>(call: &ApiCall<'a>) -> Option<(&'a KindEntry, Vec<Arc<StoredObject>>)> {
    let entry = call.api.registry.find("", "v1", "pods")?;
    let prefix = keys::collection(entry, &call.path.namespace);
    if call.api.store.has_more_than(&prefix, LIGHT_LIST_OBJECTS) {
        return None;
    }
    let limit = Some(LIGHT_LIST_OBJECTS);
    let query = RangeQuery { prefix, limit, ..RangeQuery::default() };
    let pods = call.api.store.range(&query).ok()?.objects;
    #[cfg(test)]
    tests::LISTED.with(|listed| listed.set(listed.get() + pods.len()));
    Some((entry, pods))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use bytes::Bytes;
    use rekindle_store::memory::MemoryDisk;
    use rekindle_store::{Committer, Store, StoreLimits};
    use rekindle_types::Tick;
    use serde_json::{Value, json};

    use rekindle_kinds::identity::{ClientIdentity, UserInfo};

    use super::LIGHT_LIST_OBJECTS;
    use crate::auth::AuthorizationMode;
    use crate::{Api, ApiAnswer, ApiParts, ApiRequest, Entropy, RequestOutcome};

    std::thread_local! {
        /// Pods that writes of this thread have listed.
        pub(super) static LISTED: Cell<usize> = const { Cell::new(0) };
    }

    const PODS: &str = "/api/v1/namespaces/default/pods";
    const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    const LADDERS: &str = "/apis/rekindle.dev/v1alpha1/namespaces/default/restartladders";

    /// UIDs that differ.
    struct Counted(u128);

    impl Entropy for Counted {
        fn fill(&mut self, bytes: &mut [u8]) {
            self.0 += 1;
            for (byte, counted) in bytes.iter_mut().zip(self.0.to_le_bytes()) {
                *byte = counted;
            }
        }
    }

    struct Namespace {
        api: Api,
        committer: Committer<MemoryDisk>,
    }

    impl Namespace {
        fn new() -> Self {
            let (store, mut committer) =
                Store::open(MemoryDisk::new(), StoreLimits::default()).unwrap();
            let api = Api::new(ApiParts {
                registry: rekindle_kinds::all(),
                store,
                entropy: Box::new(Counted(0)),
                authorizer: AuthorizationMode::Rbac,
                ca_bundle: String::new(),
            });
            drop(api.bootstrap(Tick::ZERO).unwrap());
            committer.commit_pending().unwrap();
            Self { api, committer }
        }

        fn post(&mut self, path: &str, body: &Value) -> ApiAnswer {
            let request = ApiRequest {
                method: http::Method::POST,
                path: path.to_owned(),
                query: String::new(),
                accept: String::new(),
                user_agent: String::new(),
                content_type: "application/json".to_owned(),
                body: Bytes::from(body.to_string()),
                identity: ClientIdentity::User(UserInfo::internal("tester")),
                now: Tick::ZERO,
                notes: None,
            };
            let RequestOutcome::Write(mut write) = self.api.handle(&request) else {
                panic!("refused: {body}");
            };
            self.committer.commit_pending().unwrap();
            write.try_answer().expect("the commit answers the write")
        }

        fn add_pod(&mut self, name: &str) {
            let labels = json!({"app": "web", "tier": "front"});
            let spec = json!({"containers": [{"name": "c", "image": "localhost/demo"}]});
            self.post(PODS, &json!({"metadata": {"name": name, "labels": labels}, "spec": spec}));
        }

        /// How many warnings a write gets, and how many pods it lists.
        fn cost_of(&mut self, path: &str, body: &Value) -> (usize, usize) {
            LISTED.set(0);
            let answer = self.post(path, body);
            (answer.warnings.len(), LISTED.get())
        }

        fn cost_of_budget(&mut self, name: &str) -> (usize, usize) {
            let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}});
            self.cost_of(BUDGETS, &json!({"metadata": {"name": name}, "spec": spec}))
        }

        fn cost_of_ladder(&mut self, name: &str, labels: &Value) -> (usize, usize) {
            let spec = json!({"selector": {"matchLabels": labels}, "rungs": [{"rung": "Pod"}]});
            self.cost_of(LADDERS, &json!({"metadata": {"name": name}, "spec": spec}))
        }
    }

    #[test]
    fn a_write_lists_the_pods_of_a_small_namespace_and_none_of_a_large_one() {
        let mut namespace = Namespace::new();
        for index in 0..LIGHT_LIST_OBJECTS {
            namespace.add_pod(&format!("web-{index}"));
        }
        // the first ladder has nothing to overlap with
        assert_eq!(namespace.cost_of_ladder("first", &json!({"app": "web"})), (0, 0));
        let tier = json!({"tier": "front"});
        assert_eq!(namespace.cost_of_budget("small"), (1, LIGHT_LIST_OBJECTS));
        assert_eq!(namespace.cost_of_ladder("small", &tier), (1, LIGHT_LIST_OBJECTS));
        namespace.add_pod("one-more");
        assert_eq!(namespace.cost_of_budget("large"), (0, 0));
        // that both are of the same selector is seen without a pod
        assert_eq!(namespace.cost_of_ladder("large", &tier), (1, 0));
        assert_eq!(namespace.cost_of_ladder("other", &json!({"role": "back"})), (0, 0));
    }
}
