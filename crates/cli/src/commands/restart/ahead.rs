//! `--dry-run`: what would become of each request, without asking for any.

use std::process::ExitCode;

use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use rekindle_api::http::SystemClock;
use rekindle_operator::Preview;
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{PodRestart, Rung};

use crate::target::Lookup;

/// Shows what would be asked for.
pub(super) fn show(request: &PodRestart) {
    println!("{} would be asked for (client dry run)", words(request));
}

/// Tells what would become of each; fails when one would be refused.
pub(super) async fn look(
    lookup: &Lookup,
    requests: impl Iterator<Item = PodRestart>,
) -> anyhow::Result<ExitCode> {
    let now = SystemClock::start().now();
    let mut code = ExitCode::SUCCESS;
    for request in requests {
        let what = words(&request);
        match ahead(&lookup.client, &request, now).await {
            Ahead::Known(Preview::Goes) => {
                println!("{what} would be carried out (server dry run)");
            }
            Ahead::Known(Preview::Waits(why)) => {
                println!("{what} would wait: {why} (server dry run)");
            }
            Ahead::Done(name) => {
                println!(
                    "{what} was asked for before, as podrestart {name}: nothing would be done (server dry run)"
                );
            }
            Ahead::Known(Preview::Refused(why)) => {
                println!("{what} would be refused: {why} (server dry run)");
                code = ExitCode::FAILURE;
            }
            Ahead::Unknown(why) => {
                println!(
                    "{what} would be taken; what would become of it cannot be told: {why} (server dry run)"
                );
            }
        }
    }
    Ok(code)
}

/// What is known of a request's future.
enum Ahead {
    Known(Preview),
    /// The same was asked for under this name.
    Done(String),
    /// The API takes it, and does not let the caller read what would decide about it.
    Unknown(String),
}

async fn ahead(client: &Client, request: &PodRestart, now: Tick) -> Ahead {
    let namespace = request.namespace().unwrap_or_default();
    let restarts: Api<PodRestart> = Api::namespaced(client.clone(), &namespace);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    match restarts.create(&dry, request).await {
        Ok(_) => {}
        Err(kube::Error::Api(answer)) if answer.reason == "AlreadyExists" => {
            return there_already(&restarts, request).await;
        }
        // rights, and what the API finds wrong with it
        Err(kube::Error::Api(answer)) => return Ahead::Known(Preview::Refused(answer.message)),
        Err(error) => return Ahead::Unknown(error.to_string()),
    }
    match rekindle_operator::preview(client, request, now).await {
        Ok(preview) => Ahead::Known(preview),
        Err(error) => Ahead::Unknown(format!("{:#}", anyhow::Error::from(error))),
    }
}

async fn there_already(restarts: &Api<PodRestart>, request: &PodRestart) -> Ahead {
    let name = request.name_any();
    match restarts.get(&name).await {
        Ok(there) if super::asks_for_the_same(&there, request) => Ahead::Done(name),
        Ok(_) => Ahead::Known(Preview::Refused(super::other_there(&name))),
        Err(error) => Ahead::Unknown(error.to_string()),
    }
}

/// `pod/web-0: a restart of rung Pod`.
fn words(request: &PodRestart) -> String {
    let rung = request.spec.rung.unwrap_or(Rung::Pod);
    format!("pod/{}: a restart of rung {rung}", request.spec.pod_name)
}
