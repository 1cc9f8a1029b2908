//! `rekindle restart pod/NAME`: creates a PodRestart and, with --wait, tells how it goes.

use std::process::ExitCode;

use anyhow::{Context, bail};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, PodRestartSpec, Rung};

use crate::args::{Restart, RungArg};
use crate::client;

/// Carries the command out.
pub fn run(args: &Restart) -> anyhow::Result<ExitCode> {
    let Some(pod_name) = args.target.strip_prefix("pod/").or(args.target.strip_prefix("pods/"))
    else {
        bail!("{:?}: name the pod as pod/NAME", args.target);
    };
    client::block_on(async {
        let client = client::connect(&args.data_dir.data_dir).await?;
        let pods: Api<Pod> = Api::namespaced(client.clone(), &args.namespace);
        let pod = pods.get(pod_name).await.with_context(|| format!("restart pod {pod_name:?}"))?;
        let restarts: Api<PodRestart> = Api::namespaced(client, &args.namespace);
        let request = restarts
            .create(&PostParams::default(), &request(args, &pod))
            .await
            .with_context(|| format!("ask for a restart of pod {pod_name:?}"))?;
        let name = request.metadata.name.clone().unwrap_or_default();
        println!("podrestart.rekindle.dev/{name} created");
        if args.wait { wait(&restarts, &request).await } else { Ok(ExitCode::SUCCESS) }
    })
}

fn request(args: &Restart, pod: &Pod) -> PodRestart {
    let pod_name = pod.metadata.name.clone().unwrap_or_default();
    PodRestart {
        metadata: ObjectMeta {
            generate_name: Some(format!("{pod_name}-")),
            namespace: Some(args.namespace.clone()),
            ..Default::default()
        },
        spec: PodRestartSpec {
            pod_name,
            pod_uid: pod.metadata.uid.clone(),
            rung: Some(match args.rung {
                RungArg::Container => Rung::Container,
                RungArg::Containers => Rung::Containers,
                RungArg::Pod => Rung::Pod,
                RungArg::Recreate => Rung::Recreate,
                RungArg::Reschedule => Rung::Reschedule,
                RungArg::Rollback => Rung::Rollback,
            }),
            refresh: None,
            reason: args.reason.clone(),
            grace_period_seconds: args.grace_period.map(i64::from),
            ..Default::default()
        },
        ..Default::default()
    }
}

/// Follows the request until nothing more will happen.
async fn wait(restarts: &Api<PodRestart>, created: &PodRestart) -> anyhow::Result<ExitCode> {
    let name = created.metadata.name.as_deref().unwrap_or_default();
    let version = created.metadata.resource_version.as_deref().unwrap_or_default();
    let params = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut shown = None;
    let mut watch = Box::pin(restarts.watch(&params, version).await.context("watch the restart")?);
    while let Some(event) = watch.try_next().await.context("watch the restart")? {
        let restart = match event {
            WatchEvent::Added(restart) | WatchEvent::Modified(restart) => restart,
            WatchEvent::Deleted(_) => bail!("podrestart {name} was deleted before it was done"),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => bail!("watch the restart: {}", status.message),
        };
        let status = restart.status.unwrap_or_default();
        let Some(phase) = status.phase else { continue };
        let message = status.message.unwrap_or_default();
        if shown.as_ref() != Some(&(phase, message.clone())) {
            println!("{phase:?}: {message}");
            shown = Some((phase, message));
        }
        if phase.is_final() {
            return Ok(match phase {
                PodRestartPhase::Succeeded => ExitCode::SUCCESS,
                PodRestartPhase::Running | PodRestartPhase::Failed | PodRestartPhase::Refused => {
                    ExitCode::FAILURE
                }
            });
        }
    }
    bail!(
        "the engine ended the watch before the restart was done; look again with kubectl get podrestart {name}"
    )
}
