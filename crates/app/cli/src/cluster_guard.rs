//! One installation of the operator acts in a cluster. The ClusterRoleBinding with the fixed name
//! says which: the one whose account it binds. The chart makes it, so a second release cannot be
//! installed, and applied by hand it takes the rights from the first (docs/adr/0099). This guard is
//! for operators with rights of another source, such as the kubeconfig of an administrator.

use std::convert::Infallible;

use anyhow::Context;
use futures::StreamExt;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::ListParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use rekindle_object_watch::watcher;
use tokio::sync::watch;

/// The binding of an operator's account to its rights.
const BINDING: &str = "rekindle-operator";

/// Whether the operator of this namespace may act.
#[derive(Clone)]
pub(crate) struct ClusterGuard {
    /// The namespace of another one that does.
    other: watch::Receiver<Option<String>>,
}

impl ClusterGuard {
    /// Looks once, and begins to watch until the future that is given back is dropped.
    ///
    /// # Errors
    /// When the binding cannot be read: two operators might act.
    pub(crate) async fn look(
        client: &Client,
        own_namespace: &str,
    ) -> anyhow::Result<(Self, impl Future<Output = Infallible> + use<>)> {
        let api = Api::<ClusterRoleBinding>::all(client.clone());
        let only = format!("metadata.name={BINDING}");
        let found = api.list(&ListParams::default().fields(&only)).await.with_context(|| {
            format!("look whether another release acts: list clusterrolebindings {BINDING}")
        })?;
        let own = own_namespace.to_owned();
        let first = found.items.first().and_then(|binding| other_namespace(binding, &own));
        let (sender, other) = watch::channel(first);
        let follow = async move {
            let config = watcher::Config::default().fields(&only);
            let mut events = watcher(api, config).default_backoff().boxed();
            let mut watched = WatchedBinding { own, listed: None };
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => watched.follow(event, &sender),
                    Err(error) => {
                        tracing::warn!(%error, "failed to watch ClusterRoleBinding {BINDING}")
                    }
                }
            }
            std::future::pending().await
        };
        Ok((Self { other }, follow))
    }

    /// Why this operator does nothing; none while it may act.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.other.borrow().as_deref().map(why)
    }

    /// Resolves when this operator may act.
    pub(crate) async fn until_free(&mut self) {
        self.until(|other| other.is_none()).await;
    }

    /// Resolves when another one acts.
    pub(crate) async fn until_refused(&mut self) {
        self.until(Option::is_some).await;
    }

    async fn until(&mut self, is_so: impl FnMut(&Option<String>) -> bool) {
        if self.other.wait_for(is_so).await.is_err() {
            // nothing follows it any more: the process ends
            std::future::pending().await
        }
    }
}

/// What a watch of the binding has shown.
struct WatchedBinding {
    /// The operator's own namespace.
    own: String,
    /// Of the list that is being read: the binding may have gone before it began.
    listed: Option<String>,
}

impl WatchedBinding {
    fn follow(&mut self, event: Event<ClusterRoleBinding>, other: &watch::Sender<Option<String>>) {
        let other_namespace = |binding| other_namespace(&binding, &self.own);
        match event {
            Event::Init => self.listed = None,
            Event::InitApply(binding) => self.listed = other_namespace(binding),
            Event::InitDone => drop(other.send_replace(self.listed.take())),
            Event::Apply(binding) => drop(other.send_replace(other_namespace(binding))),
            Event::Delete(_) => drop(other.send_replace(None)),
        }
    }
}

fn why(namespace: &str) -> String {
    format!(
        "the operator of namespace {namespace} acts in this cluster, as ClusterRoleBinding {BINDING} says: this one does nothing"
    )
}

/// The namespace of the account that is bound, where it is another one.
fn other_namespace(binding: &ClusterRoleBinding, own: &str) -> Option<String> {
    let accounts = binding.subjects.iter().flatten();
    let mut namespaces = accounts.filter_map(|subject| subject.namespace.as_deref());
    let first = namespaces.clone().next()?;
    (!namespaces.any(|namespace| namespace == own)).then(|| first.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(subjects: &str) -> ClusterRoleBinding {
        let text = format!(
            r#"{{"metadata": {{}}, "roleRef": {{"apiGroup": "", "kind": "", "name": ""}}, "subjects": {subjects}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_account_that_is_bound_says_which_operator_acts() {
        for (subjects, expected) in [
            (r#"[{"kind": "ServiceAccount", "name": "a", "namespace": "tools"}]"#, Some("tools")),
            (r#"[{"kind": "ServiceAccount", "name": "a", "namespace": "own"}]"#, None),
            (r#"[{"kind": "User", "name": "ana"}]"#, None),
            ("[]", None),
        ] {
            let found = other_namespace(&binding(subjects), "own");
            assert_eq!(found.as_deref(), expected, "{subjects}");
        }
    }

    #[test]
    fn a_binding_that_goes_between_two_watches_is_gone() {
        let tools =
            || binding(r#"[{"kind": "ServiceAccount", "name": "a", "namespace": "tools"}]"#);
        let (sender, other) = watch::channel(None);
        let mut watched = WatchedBinding { own: "own".to_owned(), listed: None };
        for (event, expected) in [
            (Event::Init, None),
            (Event::InitApply(tools()), None),
            (Event::InitDone, Some("tools")),
            (Event::Init, Some("tools")),
            (Event::InitDone, None),
            (Event::Apply(tools()), Some("tools")),
            (Event::Delete(tools()), None),
        ] {
            watched.follow(event, &sender);
            assert_eq!(other.borrow().as_deref(), expected);
        }
    }
}
