//! `rekindle restart`: a PodRestart for each pod of a target, one after the other, or one for all
//! of them together, and how it goes.

mod ahead;
mod follow;
mod printed;
mod rollback;
mod screen;
mod select;
#[cfg(test)]
mod testing;
mod together;
mod wait;

use std::cell::Cell;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use rekindle_types::name_stem::name_stem;
use rekindle_types::v1alpha1::{PodRestart, PodRestartSpec, Rung};

use crate::args::{DryRunArg, Restart, RungArg};
use crate::target::Lookup;
use crate::{client, output};
use follow::FollowResult;
use printed::RestartOutputLines;
use screen::ProgressScreen;
use select::{PodSelection, SelectedPod};

/// The code of timeout(1), for a restart that goes on after the command gave up waiting.
const TIMED_OUT: u8 = 124;
/// Bytes of a pod's name in the name of its request: a suffix follows, and a name has at most 253.
const STEM_BYTES_MAX: usize = 200;
/// What a shell tells of a command that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Carries the command out.
pub fn run(args: &Restart) -> anyhow::Result<ExitCode> {
    if args.container.is_some() && args.rung != RungArg::Container {
        bail!(
            "a container can be restarted by itself on the rung container only: leave --rung out, or -c"
        );
    }
    client::block_on(async {
        let lookup = client::connect_to(&args.access).await?;
        let left = Cell::new(0);
        let printed = RestartOutputLines::new(args.output);
        let work = restart(args, &lookup, &left, &printed);
        let done = tokio::select! {
            done = within(args.timeout, work) => done,
            Ok(()) = tokio::signal::ctrl_c() => {
                output::note("rekindle: interrupted; what was asked for goes on");
                Ok(ExitCode::from(INTERRUPTED))
            }
        };
        // they end with success when none is left
        if let left @ 1.. = left.get() {
            output::note(format!("rekindle: the {left} pods after it are left alone"));
        }
        if done.is_ok() || !printed.is_empty() {
            printed.finish()?;
        }
        done
    })
}

/// The work, as long as it may be waited for.
async fn within(
    limit: Option<Duration>,
    work: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    let Some(limit) = limit else { return work.await };
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_elapsed| {
        let limit = humantime::format_duration(limit);
        output::note(format!("rekindle: not done within {limit}; what was asked for goes on"));
        Ok(ExitCode::from(TIMED_OUT))
    })
}

/// `left` tells how many pods nothing is asked for while one is restarted.
async fn restart(
    args: &Restart,
    lookup: &Lookup,
    left: &Cell<usize>,
    printed: &RestartOutputLines,
) -> anyhow::Result<ExitCode> {
    if args.together {
        return together::restart(args, lookup, printed).await;
    }
    let pods = select::pods(args, lookup, printed).await?;
    let together = match pods.len() {
        0 => {
            printed.line("no pods to restart");
            return Ok(ExitCode::SUCCESS);
        }
        1 => RestartBatch::Alone,
        _ => RestartBatch::OneByOne,
    };
    let requests = pods.iter().map(|selected| request(args, &selected.pod, together));
    match args.dry_run {
        DryRunArg::None => {}
        DryRunArg::Client => {
            requests.for_each(|request| ahead::show(lookup, &request, printed));
            return Ok(ExitCode::SUCCESS);
        }
        DryRunArg::Server => return ahead::look(lookup, requests, printed).await,
    }
    let screen = ProgressScreen::new(pods.len(), printed);
    for (place, selected) in pods.iter().enumerate() {
        left.set(pods.len() - place - 1);
        match one(args, lookup, selected, together, &screen).await? {
            FollowResult::Done => {}
            FollowResult::NotDone | FollowResult::Refused => {
                if together == RestartBatch::OneByOne {
                    let pod = lookup.name_of(&selected.pod);
                    output::note(format!("rekindle: pod {pod} was not restarted"));
                }
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks for the restart of a pod and follows it. One of a group that has ended or is gone by now is
/// passed over.
async fn one(
    args: &Restart,
    lookup: &Lookup,
    selected: &SelectedPod,
    together: RestartBatch,
    screen: &ProgressScreen<'_>,
) -> anyhow::Result<FollowResult> {
    let pod = &selected.pod;
    let request = request(args, pod, together);
    let (asked, before) = match ask(args, lookup, &request, screen.printed).await? {
        FollowedRestart::Now(restart) => (restart, pod.clone()),
        // its containers may be those after the restart already
        FollowedRestart::Before(restart) => (restart, Pod { status: None, ..pod.clone() }),
    };
    if !args.wait && together == RestartBatch::Alone {
        return Ok(FollowResult::Done);
    }
    let before = match together {
        RestartBatch::Alone => None,
        // of a new pod done means that it is ready
        RestartBatch::OneByOne => (!select::makes_a_new_pod(args.rung)).then_some(&before),
    };
    let followed = follow::restart(lookup, &asked, before, screen).await?;
    match (followed, selected.by) {
        (FollowResult::Done, _)
        | (FollowResult::Refused | FollowResult::NotDone, PodSelection::Name) => {
            return Ok(followed);
        }
        // it may be the request itself that ended the pod
        (FollowResult::NotDone, PodSelection::Group) if select::makes_a_new_pod(args.rung) => {
            return Ok(followed);
        }
        (FollowResult::Refused | FollowResult::NotDone, PodSelection::Group) => {}
    }
    let passed_over = select::passed_over_now(args.rung, lookup, pod).await?;
    Ok(passed_over.map_or(followed, |line| {
        screen.line(&line);
        screen.one_done();
        FollowResult::Done
    }))
}

/// Whether others are restarted by the same command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestartBatch {
    Alone,
    OneByOne,
}

/// What there is to follow.
enum FollowedRestart {
    /// A request of this command.
    Now(PodRestart),
    /// One of the same name and content that was there.
    Before(PodRestart),
}

/// Creates the request, or finds the one that was created under its name before.
async fn ask(
    args: &Restart,
    lookup: &Lookup,
    request: &PodRestart,
    printed: &RestartOutputLines,
) -> anyhow::Result<FollowedRestart> {
    let namespace = request.namespace().unwrap_or_default();
    let restarts: Api<PodRestart> = Api::namespaced(lookup.client.clone(), &namespace);
    let asking = || ahead::asking(request);
    let asked = match (restarts.create(&PostParams::default(), request).await, &args.name) {
        (Ok(created), _) => created,
        (Err(kube::Error::Api(answer)), Some(_)) if answer.reason == "AlreadyExists" => {
            let name = request.name_any();
            let there = restarts.get(&name).await.with_context(asking)?;
            if !asks_for_the_same(&there, request) {
                bail!("{}", other_there(&name));
            }
            let line = format!("podrestart.rekindle.dev/{} unchanged", lookup.name_of(&there));
            printed.asked(&there, &line);
            return Ok(FollowedRestart::Before(there));
        }
        (Err(error), _) => return Err(error).with_context(asking),
    };
    let line = format!("podrestart.rekindle.dev/{} created", lookup.name_of(&asked));
    printed.asked(&asked, &line);
    Ok(FollowedRestart::Now(asked))
}

/// What makes a request of the same name the same request. A new pod of the same name is another
/// pod, unless it is what the request that is there has led to.
fn asks_for_the_same(there: &PodRestart, request: &PodRestart) -> bool {
    let asked = |restart: &PodRestart| {
        let spec = &restart.spec;
        let of = (spec.pod_name.clone(), spec.container_name.clone(), spec.selector.clone());
        (of, spec.rung(), spec.grace_seconds())
    };
    let replacement = there.status.as_ref().and_then(|status| status.replacement.as_ref());
    let new_pod = replacement.and_then(|replacement| replacement.new_pod_uid.as_ref());
    let pod = request.spec.pod_uid.as_ref();
    let is_of_pod =
        pod.is_none_or(|uid| there.is_for(uid)) || new_pod.is_some_and(|uid| Some(uid) == pod);
    is_of_pod && asked(there) == asked(request)
}

fn other_there(name: &str) -> String {
    format!(
        "podrestart {name} is there already and asks for something else, or for an earlier pod of that name: give another --name"
    )
}

fn request(args: &Restart, pod: &Pod, together: RestartBatch) -> PodRestart {
    let pod_name = pod.name_any();
    let name = match (&args.name, together) {
        (None, _) => None,
        (Some(name), RestartBatch::Alone) => Some(name.clone()),
        (Some(name), RestartBatch::OneByOne) => Some(format!("{name}-{pod_name}")),
    };
    PodRestart {
        metadata: ObjectMeta {
            generate_name: name
                .is_none()
                .then(|| format!("{}-", name_stem(&pod_name, STEM_BYTES_MAX))),
            name,
            namespace: pod.namespace(),
            ..Default::default()
        },
        spec: PodRestartSpec {
            pod_uid: pod.uid(),
            pod_name,
            container_name: args.container.clone(),
            ..spec_of(args)
        },
        ..Default::default()
    }
}

/// What the arguments say of a request, whichever pods it is for.
fn spec_of(args: &Restart) -> PodRestartSpec {
    PodRestartSpec {
        rung: Some(match args.rung {
            RungArg::Container => Rung::Container,
            RungArg::Containers => Rung::Containers,
            RungArg::Pod => Rung::Pod,
            RungArg::Recreate => Rung::Recreate,
            RungArg::Reschedule => Rung::Reschedule,
            RungArg::Rollback => Rung::Rollback,
        }),
        reason: args.reason.clone(),
        grace_period_seconds: args.grace_period.filter(|seconds| *seconds >= 0),
        fast: args.fast.then_some(true),
        ttl_seconds_after_finished: args.ttl.map(seconds),
        ..Default::default()
    }
}

/// What is left of a second is one.
fn seconds(length: Duration) -> i64 {
    let seconds = length.as_secs().saturating_add(u64::from(length.subsec_nanos() > 0));
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use kube::Client;
    use serde_json::json;

    use super::testing::{answer, api};
    use super::*;
    use crate::args::{Cli, Command};

    fn restart(spec: serde_json::Value, status: serde_json::Value) -> PodRestart {
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec, "status": status}))
            .unwrap()
    }

    #[test]
    fn a_request_of_the_same_name_is_the_same_when_it_asks_the_same_of_the_same_pod() {
        let asked =
            json!({"podName": "web-0", "podUID": "1", "rung": "Pod", "gracePeriodSeconds": 5});
        let request = restart(asked.clone(), json!({}));
        let led_to = |uid: &str| {
            json!({"replacement": {"step": "Starting", "since": "2026-11-21T11:55:00Z", "podUID": "0", "nodeName": "n",
                "newPodName": "web-0", "newPodUID": uid}})
        };
        // (the request that is there, its status, whether it is the same)
        for (other, status, is_same) in [
            (json!({}), json!({}), true),
            (json!({"podUID": null}), json!({}), true),
            (json!({"podUID": "0"}), json!({}), false),
            (json!({"podUID": "0"}), led_to("1"), true),
            (json!({"podUID": "0"}), led_to("2"), false),
            (json!({"podUID": null}), json!({"podUID": "1"}), true),
            (json!({"podUID": null}), json!({"podUID": "0"}), false),
            (json!({"podName": "web-1"}), json!({}), false),
            (json!({"rung": "Container"}), json!({}), false),
            (json!({"gracePeriodSeconds": 6}), json!({}), false),
            (json!({"gracePeriodSeconds": null}), json!({}), false),
            (json!({"containerName": "app"}), json!({}), false),
            (json!({"selector": {"matchLabels": {"app": "web"}}}), json!({}), false),
            (json!({"reason": "another word for it"}), json!({}), true),
        ] {
            let mut there = asked.clone();
            there.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
            let there = restart(there, status);
            assert_eq!(asks_for_the_same(&there, &request), is_same, "{other}");
        }
    }

    fn parsed(line: &[&str]) -> Restart {
        let line = crate::plugin::arguments(line.iter().map(Into::into));
        match Cli::parse_from(line).command {
            Command::Restart(restart) => restart,
            other => panic!("{other:?}"),
        }
    }

    fn web() -> Pod {
        let pod = json!({"metadata": {"name": "web", "uid": "1"}});
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn a_fast_restart_is_one_of_all_containers() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web"}})).unwrap();
        let of = |given: &[&str]| {
            let line = ["rekindle", "restart", "pod/web"].iter().chain(given);
            let Command::Restart(args) = Cli::try_parse_from(line).unwrap().command else {
                panic!()
            };
            request(&args, &pod, RestartBatch::Alone).spec
        };
        let spec = of(&["--fast"]);
        assert_eq!((spec.rung(), spec.fast), (Rung::Containers, Some(true)));
        assert_eq!((of(&[]).rung(), of(&[]).fast), (Rung::Pod, None));
        for other in [["--grace-period", "3"], ["--container", "app"]] {
            let line = ["rekindle", "restart", "pod/web", "--fast"].iter().chain(&other);
            assert!(Cli::try_parse_from(line).is_err(), "{other:?}");
        }
    }

    #[test]
    fn a_grace_period_of_minus_one_is_the_pods_own_as_with_kubectl() {
        for (given, expected) in
            [(&[][..], None), (&["--grace-period", "-1"], None), (&["--grace-period=7"], Some(7))]
        {
            let args = parsed(&[&["rekindle", "restart", "pod/web"], given].concat());
            let spec = request(&args, &web(), RestartBatch::Alone).spec;
            assert_eq!(spec.grace_period_seconds, expected, "{given:?}");
        }
        let line = ["rekindle", "restart", "pod/web", "--grace-period", "-2"];
        let error = Cli::try_parse_from(line).unwrap_err().to_string();
        assert!(error.contains("invalid value '-2' for '--grace-period"), "{error}");
    }

    #[test]
    fn a_container_that_is_named_means_the_rung_of_one_container() {
        let of = |line: &[&str]| {
            let args = parsed(line);
            let spec = request(&args, &web(), RestartBatch::Alone).spec;
            (spec.rung(), spec.container_name)
        };
        let proxy = Some("proxy".to_owned());
        for (line, expected) in [
            (vec!["rekindle", "restart", "pod/web"], (Rung::Pod, None)),
            (
                vec!["rekindle", "restart", "pod/web", "-c", "proxy"],
                (Rung::Container, proxy.clone()),
            ),
            (
                vec!["kubectl-restart", "pod/web", "--container=proxy", "--rung", "Container"],
                (Rung::Container, proxy),
            ),
        ] {
            assert_eq!(of(&line), expected, "{line:?}");
        }
        let other = parsed(&["rekindle", "restart", "pod/web", "-c", "proxy", "--rung", "pod"]);
        let error = run(&other).unwrap_err().to_string();
        assert!(error.contains("on the rung container only"), "{error}");
    }

    #[test]
    fn one_of_a_group_that_ended_meanwhile_is_passed_over_and_one_that_was_named_is_not() {
        let request = |phase: &str| {
            json!({"apiVersion": "rekindle.dev/v1alpha1", "kind": "PodRestart",
                "metadata": {"name": "web-a-1", "namespace": "shop"}, "spec": {"podName": "web-a"},
                "status": {"phase": phase}})
        };
        let pod = |uid: &str, phase: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-a", "namespace": "shop", "uid": uid},
                "spec": {"nodeName": "node-1", "containers": []}, "status": {"phase": phase}})
        };
        let gone = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound",
            "message": "it is not there", "code": 404});
        let now = |body: &serde_json::Value| vec![answer("200 OK", body)];
        let mut going = pod("1", "Running");
        going["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
        let not_found = || vec![answer("404 Not Found", &gone)];
        // (the rung, how the request ended, how the pod was chosen, how it is by now, what comes of
        // it)
        for (rung, phase, by, now, expected) in [
            (
                "pod",
                "Refused",
                PodSelection::Group,
                now(&pod("1", "Succeeded")),
                FollowResult::Done,
            ),
            ("pod", "Refused", PodSelection::Group, now(&pod("2", "Running")), FollowResult::Done),
            ("pod", "Refused", PodSelection::Group, not_found(), FollowResult::Done),
            (
                "pod",
                "Refused",
                PodSelection::Group,
                now(&pod("1", "Running")),
                FollowResult::Refused,
            ),
            ("pod", "Refused", PodSelection::Name, vec![], FollowResult::Refused),
            ("pod", "Failed", PodSelection::Group, now(&going), FollowResult::Done),
            (
                "pod",
                "Failed",
                PodSelection::Group,
                now(&pod("1", "Running")),
                FollowResult::NotDone,
            ),
            ("pod", "Failed", PodSelection::Name, vec![], FollowResult::NotDone),
            ("recreate", "Failed", PodSelection::Group, vec![], FollowResult::NotDone),
        ] {
            let request = request(phase);
            let list = json!({"apiVersion": "rekindle.dev/v1alpha1", "kind": "PodRestartList",
                "metadata": {"resourceVersion": "7"}, "items": [request]});
            let answers = vec![answer("201 Created", &request), answer("200 OK", &list)];
            let config = api(answers.into_iter().chain(now).collect());
            let args = parsed(&["rekindle", "restart", "deploy/web", "--rung", rung]);
            let followed = client::block_on(async {
                let client = Client::try_from(config)?;
                let lookup = Lookup { client, namespace: "shop".to_owned() };
                let pod = serde_json::from_value(pod("1", "Running"))?;
                let selected = SelectedPod { pod, by };
                let printed = RestartOutputLines::new(args.output);
                let screen = ProgressScreen::new(2, &printed);
                one(&args, &lookup, &selected, RestartBatch::OneByOne, &screen).await
            });
            assert_eq!(followed.unwrap(), expected, "{rung} {phase} {by:?}");
        }
    }

    #[test]
    fn a_request_is_kept_for_whole_seconds() {
        for (length, expected) in [(0, 0), (1, 1), (1000, 1), (1001, 2), (3_600_000, 3600)] {
            assert_eq!(seconds(Duration::from_millis(length)), expected, "{length}");
        }
    }
}
