//! `--dry-run`: what would become of each request, without asking for any.

use std::process::ExitCode;

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use rekindle_api_server::SystemClock;
use rekindle_operator::RestartPreview;
use rekindle_types::v1alpha1::PodRestart;
use rekindle_types::validation::selector;
use rekindle_types::{Tick, causes};

use super::printed::RestartOutputLines;
use crate::target::Lookup;

/// Shows what would be asked for.
pub(super) fn show(lookup: &Lookup, request: &PodRestart, printed: &RestartOutputLines) {
    printed.would_be(request);
    printed.line(&format!("{} would be asked for (client dry run)", words(lookup, request)));
}

/// Tells what would become of each; fails when one would be refused, or cannot be asked about.
pub(super) async fn look(
    lookup: &Lookup,
    requests: impl Iterator<Item = PodRestart>,
    printed: &RestartOutputLines,
) -> anyhow::Result<ExitCode> {
    let now = SystemClock::start().now();
    let mut code = ExitCode::SUCCESS;
    for request in requests {
        let (taken, ahead) = ahead(&lookup.client, &request, now).await?;
        if let Some(taken) = taken {
            printed.would_be(&taken);
        }
        let future = match ahead {
            RestartForecast::Known(RestartPreview::Goes) => "would be carried out".to_owned(),
            RestartForecast::Known(RestartPreview::Waits(why)) => format!("would wait: {why}"),
            RestartForecast::Done(name) => {
                format!("was asked for before, as podrestart {name}: nothing would be done")
            }
            RestartForecast::Known(RestartPreview::Refused(why)) => {
                code = ExitCode::FAILURE;
                format!("would be refused: {why}")
            }
            RestartForecast::Unknown(why) => {
                format!("would be taken; what would become of it cannot be told: {why}")
            }
        };
        printed.line(&format!("{} {future} (server dry run)", words(lookup, &request)));
    }
    Ok(code)
}

/// What is known of a request's future.
enum RestartForecast {
    Known(RestartPreview),
    /// The same was asked for under this name.
    Done(String),
    /// The API takes it, and does not let the caller read what would decide about it.
    Unknown(String),
}

/// The request as the API takes it, or as it is there, and what would become of it. Fails when the
/// API cannot be asked: then nothing is known of the request, not even whether it would be taken.
async fn ahead(
    client: &Client,
    request: &PodRestart,
    now: Tick,
) -> anyhow::Result<(Option<PodRestart>, RestartForecast)> {
    let namespace = request.namespace().unwrap_or_default();
    let restarts: Api<PodRestart> = Api::namespaced(client.clone(), &namespace);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let taken = match restarts.create(&dry, request).await {
        Ok(taken) => taken,
        Err(kube::Error::Api(answer)) if answer.reason == "AlreadyExists" => {
            return there_already(&restarts, request).await;
        }
        // rights, and what the API finds wrong with it
        Err(kube::Error::Api(answer)) => {
            return Ok((None, RestartForecast::Known(RestartPreview::Refused(answer.message))));
        }
        Err(error) => return Err(error).with_context(|| asking(request)),
    };
    let ahead = match rekindle_operator::preview(client, request, now).await {
        Ok(preview) => RestartForecast::Known(preview),
        Err(error) => RestartForecast::Unknown(causes(&error)),
    };
    Ok((Some(taken), ahead))
}

async fn there_already(
    restarts: &Api<PodRestart>,
    request: &PodRestart,
) -> anyhow::Result<(Option<PodRestart>, RestartForecast)> {
    let name = request.name_any();
    match restarts.get(&name).await {
        Ok(there) if super::asks_for_the_same(&there, request) => {
            Ok((Some(there), RestartForecast::Done(name)))
        }
        Ok(_) => {
            Ok((None, RestartForecast::Known(RestartPreview::Refused(super::other_there(&name)))))
        }
        Err(error) => Err(error).with_context(|| asking(request)),
    }
}

/// What is done when a request is made.
pub(super) fn asking(request: &PodRestart) -> String {
    match &request.spec.selector {
        Some(labels) => format!("ask for a restart of the pods {:?}", selector::format(labels)),
        None => format!("ask for a restart of pod {:?}", request.spec.pod_name),
    }
}

/// `pod/web-0: a restart of rung Pod`, or `of container app`.
fn words(lookup: &Lookup, request: &PodRestart) -> String {
    let rung = request.spec.rung();
    if let Some(labels) = &request.spec.selector {
        return format!("pods {}: a restart of rung {rung} as one", selector::format(labels));
    }
    let pod = pod_of(lookup, request);
    match &request.spec.container_name {
        Some(container) => format!("pod/{pod}: a restart of container {container}"),
        None => format!("pod/{pod}: a restart of rung {rung}"),
    }
}

/// The pod or pods of a request, as what is waited for names them.
pub(super) fn target_of(lookup: &Lookup, request: &PodRestart) -> String {
    match &request.spec.selector {
        Some(labels) => format!("pods {} as one", selector::format(labels)),
        None => format!("pod {}", pod_of(lookup, request)),
    }
}

/// The pod of a request, as lines name it.
pub(super) fn pod_of(lookup: &Lookup, request: &PodRestart) -> String {
    let metadata = ObjectMeta {
        name: Some(request.spec.pod_name.clone()),
        namespace: request.namespace(),
        ..ObjectMeta::default()
    };
    lookup.name_of(&Pod { metadata, ..Pod::default() })
}

#[cfg(test)]
mod tests {
    use rekindle_types::v1alpha1::PodRestartSpec;

    use super::super::testing::{answer, api};
    use super::*;

    fn there_already() -> String {
        let status = serde_json::json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "reason": "AlreadyExists",
            "message": "it is there",
            "code": 409,
        });
        answer("409 Conflict", &status)
    }

    #[test]
    fn of_what_could_not_be_asked_nothing_is_said() {
        let metadata = ObjectMeta {
            name: Some("again".to_owned()),
            namespace: Some("shop".to_owned()),
            ..ObjectMeta::default()
        };
        let spec = PodRestartSpec { pod_name: "web-0".to_owned(), ..PodRestartSpec::default() };
        let request = PodRestart { metadata, spec, ..PodRestart::default() };
        for (case, answers) in [("asked", vec![]), ("looked for", vec![there_already()])] {
            let config = api(answers);
            let said = crate::client::block_on(async {
                let client = Client::try_from(config)?;
                ahead(&client, &request, Tick::ZERO).await
            });
            let Err(error) = said else { panic!("{case}: there is no API") };
            let text = format!("{error:#}");
            assert!(text.starts_with("ask for a restart of pod \"web-0\": "), "{case}: {text}");
        }
    }
}
