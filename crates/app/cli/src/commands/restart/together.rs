//! `--together`: one PodRestart for all pods with some labels, which restarts them as one.

use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::api::Api;
use rekindle_api::selectors::LabelSelector;
use rekindle_types::v1alpha1::{GroupRestartMember, PodRestart, PodRestartSpec, is_rung_of_groups};

use super::follow::{self, FollowResult};
use super::printed::RestartOutputLines;
use super::screen::ProgressScreen;
use super::{FollowedRestart, ahead, ask, spec_of};
use crate::args::{DryRunArg, Restart};
use crate::target::Lookup;

/// What the names of these requests begin with.
const NAME_PREFIX: &str = "together-";

/// Asks for the restart of the pods as one, and follows it to its end.
///
/// # Errors
/// When the request cannot be made, or not be followed.
pub(super) async fn restart(
    args: &Restart,
    lookup: &Lookup,
    printed: &RestartOutputLines,
) -> anyhow::Result<ExitCode> {
    let request = request(args, &lookup.namespace)?;
    match args.dry_run {
        DryRunArg::None => {}
        DryRunArg::Client => {
            ahead::show(lookup, &request, printed);
            return Ok(ExitCode::SUCCESS);
        }
        DryRunArg::Server => {
            return ahead::look(lookup, std::iter::once(request), printed).await;
        }
    }
    let (FollowedRestart::Now(asked) | FollowedRestart::Before(asked)) =
        ask(args, lookup, &request, printed).await?;
    let screen = ProgressScreen::new(1, printed);
    let followed = follow::restart(lookup, &asked, None, &screen).await?;
    let name = asked.name_any();
    let restarts: Api<PodRestart> = Api::namespaced(lookup.client.clone(), &lookup.namespace);
    let over = restarts.get_opt(&name).await.with_context(|| format!("read podrestart {name}"))?;
    let members = over.iter().filter_map(PodRestart::group).flat_map(|group| &group.members);
    members.for_each(|member| screen.line(&line(member)));
    Ok(match followed {
        FollowResult::Done => ExitCode::SUCCESS,
        FollowResult::NotDone | FollowResult::Refused => ExitCode::FAILURE,
    })
}

fn request(args: &Restart, namespace: &str) -> anyhow::Result<PodRestart> {
    if args.all_namespaces {
        bail!("the pods of one namespace can be restarted together: give -n NAMESPACE");
    }
    let labels = args.selector.as_deref().unwrap_or_default();
    let selector = LabelSelector::parse(labels).and_then(|labels| labels.to_object());
    let selector = selector.map_err(|why| anyhow!("-l {labels}: {why}"))?;
    let spec = PodRestartSpec { selector: Some(selector), ..spec_of(args) };
    if !is_rung_of_groups(spec.rung()) {
        bail!(
            "no pods are restarted together on the rungs container and rollback: leave --rung or --together out"
        );
    }
    let metadata = ObjectMeta {
        generate_name: args.name.is_none().then(|| NAME_PREFIX.to_owned()),
        name: args.name.clone(),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    };
    Ok(PodRestart { metadata, spec, ..PodRestart::default() })
}

/// What happened to a member.
fn line(member: &GroupRestartMember) -> String {
    let phase = member.phase.map_or_else(|| "Pending".to_owned(), |phase| format!("{phase:?}"));
    let message = member.message.as_deref().unwrap_or_default();
    let line = format!("pod/{} {phase}: {message}", member.pod_name);
    line.trim_end_matches(": ").to_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rekindle_types::validation::selector;

    use super::*;
    use crate::args::{Cli, Command};

    fn asked(line: &[&str]) -> anyhow::Result<PodRestart> {
        match Cli::try_parse_from(line)?.command {
            Command::Restart(args) => request(&args, "shop"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_labels_of_the_command_are_the_selector_of_one_request() {
        let line = ["rekindle", "restart", "--together", "-l", "job=train,tier in (a,b),!old"];
        let request = asked(&line).unwrap();
        let labels = request.spec.selector.as_ref().map(selector::format);
        assert_eq!(labels.as_deref(), Some("job=train,!old,tier in (a,b)"));
        assert_eq!(request.metadata.generate_name.as_deref(), Some(NAME_PREFIX));
        let named = ["rekindle", "restart", "-l", "job=train", "--together", "--name", "again"];
        let named = asked(&named).unwrap();
        assert_eq!(
            (named.metadata.name.as_deref(), named.metadata.generate_name),
            (Some("again"), None)
        );
    }

    #[test]
    fn what_cannot_be_restarted_together_is_refused_with_what_to_give() {
        for (line, says) in [
            (
                vec!["--together", "-l", "job=train", "--rung", "rollback"],
                "rungs container and rollback",
            ),
            (
                vec!["--together", "-l", "job=train", "--rung", "container"],
                "rungs container and rollback",
            ),
            (vec!["--together", "-l", "job>3"], "> and < are for lists only"),
            (vec!["--together", "-l", "job in"], "-l job in:"),
            (vec!["--together", "pod/web"], "cannot be used with"),
            (vec!["--together"], "--selector"),
            (vec!["--together", "-l", "job=train", "-c", "app"], "cannot be used with"),
        ] {
            let line = [&["rekindle", "restart"], &line[..]].concat();
            let error = asked(&line).unwrap_err().to_string();
            assert!(error.contains(says), "{line:?}: {error}");
        }
    }
}
