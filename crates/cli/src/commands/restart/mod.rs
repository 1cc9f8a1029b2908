//! `rekindle restart`: a PodRestart for each pod of a target, one after the other, and how it goes.

mod ahead;
mod follow;
mod rollback;
mod select;

use std::process::ExitCode;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use rekindle_types::v1alpha1::{PodRestart, PodRestartSpec, Rung};

use crate::args::{DryRunArg, Restart, RungArg};
use crate::target::Lookup;
use crate::{client, output};
use follow::{Followed, Screen};

/// The code of timeout(1), for a restart that goes on after the command gave up waiting.
const TIMED_OUT: u8 = 124;

/// Carries the command out.
pub fn run(args: &Restart) -> anyhow::Result<ExitCode> {
    client::block_on(async {
        let lookup = client::connect_to(&args.access).await?;
        let work = restart(args, &lookup);
        match args.timeout {
            None => work.await,
            Some(limit) => match tokio::time::timeout(limit, work).await {
                Ok(done) => done,
                Err(_elapsed) => {
                    let limit = humantime::format_duration(limit);
                    output::note(format!(
                        "rekindle: not done within {limit}; what was asked for goes on"
                    ));
                    Ok(ExitCode::from(TIMED_OUT))
                }
            },
        }
    })
}

async fn restart(args: &Restart, lookup: &Lookup) -> anyhow::Result<ExitCode> {
    let pods = select::pods(args, lookup).await?;
    let together = match pods.len() {
        0 => {
            output::tell("no pods to restart");
            return Ok(ExitCode::SUCCESS);
        }
        1 => Together::Alone,
        _ => Together::OneByOne,
    };
    match args.dry_run {
        DryRunArg::None => {}
        DryRunArg::Client => {
            for pod in &pods {
                ahead::show(&request(args, pod, together));
            }
            return Ok(ExitCode::SUCCESS);
        }
        DryRunArg::Server => {
            let requests = pods.iter().map(|pod| request(args, pod, together));
            return ahead::look(lookup, requests).await;
        }
    }
    carry_out(args, lookup, &pods, together).await
}

/// Asks for the restarts, one after the other.
async fn carry_out(
    args: &Restart,
    lookup: &Lookup,
    pods: &[Pod],
    together: Together,
) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(pods.len());
    for (place, pod) in pods.iter().enumerate() {
        let request = request(args, pod, together);
        let name = pod.name_any();
        let restarts: Api<PodRestart> =
            Api::namespaced(lookup.client.clone(), &pod.namespace().unwrap_or_default());
        let (asked, before) = match ask(args, &restarts, &request).await? {
            Asked::Now(restart) => (restart, pod.clone()),
            // its containers may be those after the restart already
            Asked::Before(restart) => (restart, Pod { status: None, ..pod.clone() }),
        };
        if !args.wait && together == Together::Alone {
            break;
        }
        let before = match (together, args.rung) {
            (Together::Alone, _) => None,
            // done means that the new pod is ready
            (Together::OneByOne, RungArg::Recreate | RungArg::Reschedule | RungArg::Rollback) => {
                None
            }
            (Together::OneByOne, RungArg::Container | RungArg::Containers | RungArg::Pod) => {
                Some(&before)
            }
        };
        let followed = follow::restart(&lookup.client, &asked, before, &screen).await?;
        if followed == Followed::NotDone {
            if let left @ 1.. = pods.len() - place - 1 {
                output::note(format!(
                    "rekindle: pod {name} was not restarted: the {left} after it are left alone"
                ));
            }
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether others are restarted by the same command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Together {
    Alone,
    OneByOne,
}

/// What there is to follow.
enum Asked {
    /// A request of this command.
    Now(PodRestart),
    /// One of the same name and content that was there.
    Before(PodRestart),
}

/// Creates the request, or finds the one that was created under its name before.
async fn ask(
    args: &Restart,
    restarts: &Api<PodRestart>,
    request: &PodRestart,
) -> anyhow::Result<Asked> {
    let pod = &request.spec.pod_name;
    let asking = || format!("ask for a restart of pod {pod:?}");
    let asked = match (restarts.create(&PostParams::default(), request).await, &args.name) {
        (Ok(created), _) => created,
        (Err(kube::Error::Api(answer)), Some(_)) if answer.reason == "AlreadyExists" => {
            let name = request.name_any();
            let there = restarts.get(&name).await.with_context(asking)?;
            if !asks_for_the_same(&there, request) {
                bail!("{}", other_there(&name));
            }
            output::tell(format!("podrestart.rekindle.dev/{name} unchanged"));
            return Ok(Asked::Before(there));
        }
        (Err(error), _) => return Err(error).with_context(asking),
    };
    let name = asked.name_any();
    output::tell(format!("podrestart.rekindle.dev/{name} created"));
    Ok(Asked::Now(asked))
}

/// What makes a request of the same name the same request.
fn asks_for_the_same(there: &PodRestart, request: &PodRestart) -> bool {
    (&there.spec.pod_name, there.spec.rung) == (&request.spec.pod_name, request.spec.rung)
}

fn other_there(name: &str) -> String {
    format!("podrestart {name} is there already and asks for something else")
}

fn request(args: &Restart, pod: &Pod, together: Together) -> PodRestart {
    let pod_name = pod.name_any();
    let name = match (&args.name, together) {
        (None, _) => None,
        (Some(name), Together::Alone) => Some(name.clone()),
        (Some(name), Together::OneByOne) => Some(format!("{name}-{pod_name}")),
    };
    PodRestart {
        metadata: ObjectMeta {
            generate_name: name.is_none().then(|| format!("{pod_name}-")),
            name,
            namespace: pod.namespace(),
            ..Default::default()
        },
        spec: PodRestartSpec {
            pod_uid: pod.uid(),
            pod_name,
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
