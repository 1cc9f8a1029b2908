//! `rekindle report`: what ladders did on a cluster, what they would have done, and the ladders to
//! begin with.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Context;
use comfy_table::{Table, presets};
use rekindle_api_server::SystemClock;
use rekindle_operator::{ClusterReport, LADDER_LABEL, LADDER_LABEL_ENABLED, WorkloadReport};
use serde_json::Value;

use crate::args::{ReportArgs, ReportOutput};
use crate::{client, output};

/// Carries the command out.
pub fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    client::block_on(async {
        let namespace = args.access.namespace.as_deref();
        let client = client::connect_to(&args.access).await?.client;
        let now = SystemClock::start().now();
        let report = rekindle_operator::report(&client, namespace, now).await?;
        output::print(&match args.output {
            ReportOutput::Table => table(&report, namespace),
            ReportOutput::Json => serde_json::to_string_pretty(&report)? + "\n",
            ReportOutput::Yaml => manifests(&report)?,
        })?;
        Ok(ExitCode::SUCCESS)
    })
}

fn table(report: &ClusterReport, namespace: Option<&str>) -> String {
    if report.namespaces.is_empty() {
        let name = namespace.unwrap_or("NAME");
        return format!(
            "no namespace is enabled: kubectl label namespace {name} {LADDER_LABEL}={LADDER_LABEL_ENABLED}\n"
        );
    }
    let enabled = report.namespaces.join(", ");
    if report.workloads.is_empty() {
        return format!("nothing has restarted in {enabled}\n");
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header([
        "NAMESPACE",
        "WORKLOAD",
        "PODS",
        "RESTARTS",
        "LADDER",
        "DONE",
        "WOULD HAVE DONE",
        "NOW",
    ]);
    for workload in &report.workloads {
        table.add_row([
            workload.namespace.clone(),
            format!("{}/{}", workload.kind.to_lowercase(), workload.name),
            workload.pods.to_string(),
            workload.restarts.to_string(),
            ladder(workload),
            counts(&workload.done),
            counts(&workload.would_have_done),
            workload.summary.clone().unwrap_or_default(),
        ]);
    }
    let mut text = format!("{table}\n\n{}\n", sentence(report));
    if report.workloads.iter().any(|workload| workload.proposal.is_some()) {
        text.push_str(
            "Ladders to begin with: the same command with -o yaml | kubectl apply -f -\n",
        );
    }
    text
}

fn sentence(report: &ClusterReport) -> String {
    let would: u64 = report.workloads.iter().flat_map(|w| w.would_have_done.values()).sum();
    let done: u64 = report.workloads.iter().flat_map(|w| w.done.values()).sum();
    let workloads = match report.workloads.len() {
        1 => "1 workload".to_owned(),
        several => format!("{several} workloads"),
    };
    format!(
        "{workloads} restarted {} times; ladders restarted pods {done} times, and would have {would} times.",
        report.restarts
    )
}

fn ladder(workload: &WorkloadReport) -> String {
    match (&workload.ladder, &workload.proposal) {
        (Some(ladder), _) => ladder.clone(),
        (None, Some(_)) => "(proposed)".to_owned(),
        (None, None) => "-".to_owned(),
    }
}

fn counts(counts: &BTreeMap<&'static str, u64>) -> String {
    if counts.is_empty() {
        return "-".to_owned();
    }
    let each: Vec<String> = counts.iter().map(|(rung, count)| format!("{rung} {count}")).collect();
    each.join(", ")
}

/// The proposed ladders, as kubectl applies them.
fn manifests(report: &ClusterReport) -> anyhow::Result<String> {
    let proposals = report.workloads.iter().filter_map(|workload| workload.proposal.as_ref());
    let values: Vec<Value> = proposals
        .map(serde_json::to_value)
        .collect::<Result<_, _>>()
        .context("write the ladders")?;
    rekindle_manifest::yaml(&values).context("write the ladders")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(workloads: Vec<WorkloadReport>) -> ClusterReport {
        let restarts = workloads.iter().map(|workload| workload.restarts).sum();
        ClusterReport { namespaces: vec!["shop".to_owned()], restarts, workloads }
    }

    #[test]
    fn the_table_says_what_to_do_where_there_is_nothing_to_tell() {
        let none = table(&ClusterReport::default(), None);
        assert_eq!(
            none,
            "no namespace is enabled: kubectl label namespace NAME rekindle.dev/ladder=enabled\n"
        );
        assert_eq!(table(&report(Vec::new()), None), "nothing has restarted in shop\n");
    }

    #[test]
    fn the_table_counts_what_was_done_and_what_was_noted() {
        let web = WorkloadReport {
            namespace: "shop".to_owned(),
            kind: "Deployment".to_owned(),
            name: "web".to_owned(),
            pods: 3,
            restarts: 412,
            ladder: Some("web".to_owned()),
            would_have_done: BTreeMap::from([("Recreate", 2), ("Reschedule", 1)]),
            summary: Some("exit 1 again after 20s; would be: new pod 2 of 2".to_owned()),
            ..WorkloadReport::default()
        };
        let text = table(&report(vec![web]), None);
        let line = text.lines().find(|line| line.contains("deployment/web")).unwrap_or_default();
        assert!(line.contains("412") && line.contains("Recreate 2, Reschedule 1"), "{text}");
        let end = "1 workload restarted 412 times; ladders restarted pods 0 times, and would have 3 times.\n";
        assert!(text.ends_with(end), "{text}");
    }
}
