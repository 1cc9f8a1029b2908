//! Waits until an object is as wanted, also through an API that is away for a while: an engine that
//! is started again goes on with what was asked of the one before.

use std::fmt::Debug;
use std::pin::pin;

use futures::StreamExt;
use kube::Resource;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watch_object};
use rekindle_types::causes;
use serde::de::DeserializeOwned;

use super::screen::ProgressScreen;

/// Waits until the object, or that it is not there, is as `wanted`; answers it then. What goes
/// wrong meanwhile is told once, and tried again.
///
/// # Errors
/// When the API answers that the object may not be watched.
pub(super) async fn until<K>(
    api: Api<K>,
    name: &str,
    screen: &ProgressScreen<'_>,
    mut wanted: impl FnMut(Option<&K>) -> bool,
) -> Result<Option<K>, watcher::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut seen = pin!(watch_object(api, name).default_backoff());
    let mut told = String::new();
    loop {
        match seen.next().await.expect("a watch begins anew and does not end") {
            Ok(object) if wanted(object.as_ref()) => return Ok(object),
            Ok(_) => told.clear(),
            Err(error) => match trouble(&error) {
                WatchErrorKind::Refused => return Err(error),
                WatchErrorKind::Expired => {}
                WatchErrorKind::Away => {
                    let why = causes(&error);
                    if told != why {
                        let kind = K::kind(&()).to_lowercase();
                        screen.note(&format!(
                            "rekindle: watch {kind} {name}: {why}; it is tried again"
                        ));
                        told = why;
                    }
                }
            },
        }
    }
}

/// What an error of a watch means.
enum WatchErrorKind {
    /// The API says no, and would again.
    Refused,
    /// The watch is too old, which is the course of things: it begins anew.
    Expired,
    /// The API is not there, or has trouble itself.
    Away,
}

fn trouble(error: &watcher::Error) -> WatchErrorKind {
    let code = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(answer))
        | watcher::Error::WatchStartFailed(kube::Error::Api(answer))
        | watcher::Error::WatchFailed(kube::Error::Api(answer)) => answer.code,
        watcher::Error::WatchError(answer) => answer.code,
        _ => return WatchErrorKind::Away,
    };
    match code {
        410 => WatchErrorKind::Expired,
        // too slow, and too much at once
        408 | 429 => WatchErrorKind::Away,
        400..500 => WatchErrorKind::Refused,
        _ => WatchErrorKind::Away,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::{Client, ResourceExt};
    use serde_json::json;

    use super::super::printed::RestartOutputLines;
    use super::super::testing::{answer, api};
    use super::*;
    use crate::args::RestartOutput;

    fn wait_for_a_pod(answers: Vec<String>) -> anyhow::Result<Option<Pod>> {
        let config = api(answers);
        crate::client::block_on(async {
            let pods: Api<Pod> = Api::namespaced(Client::try_from(config)?, "shop");
            let printed = RestartOutputLines::new(RestartOutput::Text);
            let screen = ProgressScreen::new(1, &printed);
            Ok(until(pods, "web", &screen, |pod| pod.is_some()).await?)
        })
    }

    #[test]
    fn an_api_that_is_away_is_waited_for_and_one_that_says_no_is_not() {
        let pods = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7"},
            "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}]});
        let pod = wait_for_a_pod(vec![String::new(), answer("200 OK", &pods)]).unwrap();
        assert_eq!(pod.map(|pod| pod.name_any()).as_deref(), Some("web"));

        let no = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden",
            "message": "it is not yours to see", "code": 403});
        let error = wait_for_a_pod(vec![answer("403 Forbidden", &no)]).unwrap_err();
        assert!(causes(&*error).contains("it is not yours to see"), "{error:#}");
    }
}
