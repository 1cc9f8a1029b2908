//! The account as text.

use std::fmt::Write;

use rekindle_types::{Tick, TickDuration};

use crate::account::{
    Account, AccountState, ClosedNodes, ContainerAccount, ExamplePod, HistoryEntry, LadderAccount,
    MemberAccount, NextEvent, PodGroup,
};
use crate::words::{and_more, show_span, show_time, times};

/// Writes the account for a person; `now` is what times to come are measured from.
pub fn render(account: &Account, now: Tick) -> String {
    let mut text = String::new();
    put(&mut text, account, now).expect("a String takes all that is written to it");
    text
}

fn put(text: &mut String, account: &Account, now: Tick) -> std::fmt::Result {
    let kind = account.kind.to_lowercase();
    let namespace = account.namespace.as_ref().map_or_else(String::new, |n| format!("{n}/"));
    writeln!(text, "{kind} {namespace}{}: {}", account.name, word(account.state))?;
    writeln!(text, "  {}", account.summary)?;
    for container in account.containers.iter().filter(|container| has_details(container)) {
        put_container(text, container)?;
    }
    if !account.nodes.is_empty() {
        writeln!(text, "\nNodes that are closed to it")?;
        account.nodes.iter().try_for_each(|nodes| writeln!(text, "  {}", closed_words(nodes)))?;
    }
    let is_gone = |group: &&PodGroup| group.state == AccountState::Gone;
    let (gone, unwell): (Vec<&PodGroup>, Vec<&PodGroup>) = account.pods.iter().partition(is_gone);
    for (title, groups) in [("Pods that are not well", unwell), ("Pods that are gone", gone)] {
        if !groups.is_empty() {
            writeln!(text, "\n{title}")?;
            groups.into_iter().try_for_each(|group| put_group(text, group, now))?;
        }
    }
    if !account.history.is_empty() {
        writeln!(text, "\nWhat happened")?;
        account.history.iter().try_for_each(|entry| put_entry(text, entry))?;
    }
    if let Some(ladder) = &account.ladder {
        put_ladder(text, ladder)?;
    }
    if let Some(next) = &account.next {
        writeln!(text, "\nNext\n  {}", next_words(next, now))?;
    }
    if !account.advice.is_empty() {
        writeln!(text, "\nWhat would help")?;
        account.advice.iter().try_for_each(|advice| writeln!(text, "  - {advice}"))?;
    }
    Ok(())
}

fn next_words(next: &NextEvent, now: Tick) -> String {
    let when = match &next.at {
        None => String::new(),
        Some(at) => match Tick::from(at).since(now) {
            TickDuration::ZERO => format!("{}: ", show_time(at)),
            ahead => format!("in {}, {}: ", show_span(ahead), show_time(at)),
        },
    };
    format!("{when}{}", next.what)
}

fn word(state: AccountState) -> &'static str {
    match state {
        AccountState::Healthy => "healthy",
        AccountState::Completed => "completed",
        AccountState::Gone => "gone",
        AccountState::Starting => "starting",
        AccountState::Terminating => "terminating",
        AccountState::Unchecked => "unchecked",
        AccountState::Restricted => "restricted",
        AccountState::NotReady => "not ready",
        AccountState::Blocked => "blocked",
        AccountState::Failing => "failing",
        AccountState::Failed => "failed",
    }
}

fn has_details(container: &ContainerAccount) -> bool {
    !container.evidence.is_empty() || !container.last_lines.is_empty()
}

fn put_container(text: &mut String, container: &ContainerAccount) -> std::fmt::Result {
    writeln!(text, "\nContainer {:?} {}", container.name, container.what)?;
    container.evidence.iter().try_for_each(|line| writeln!(text, "  {line}"))?;
    if !container.last_lines.is_empty() {
        writeln!(text, "  its last lines:")?;
        container.last_lines.iter().try_for_each(|line| writeln!(text, "    | {line}"))?;
    }
    Ok(())
}

fn put_group(text: &mut String, group: &PodGroup, now: Tick) -> std::fmt::Result {
    let more = and_more(group.count - group.names.len());
    writeln!(text, "  {} {}: {}", group.count, word(group.state), group.summary)?;
    writeln!(text, "      {}{more}", group.names.join(", "))?;
    match &group.example {
        Some(example) => put_example(text, example, group.count, now),
        None => Ok(()),
    }
}

fn closed_words(nodes: &ClosedNodes) -> String {
    let more = and_more(nodes.count - nodes.names.len());
    format!("{}{more}: {}", nodes.names.join(", "), nodes.why)
}

/// The evidence of one pod, as far as the group's summary does not hold it.
fn put_example(text: &mut String, example: &ExamplePod, of: usize, now: Tick) -> std::fmt::Result {
    let mut lines: Vec<String> = Vec::new();
    for container in example.containers.iter().filter(|container| has_details(container)) {
        let evidence = container.evidence.iter().map(|line| format!("{}: {line}", container.name));
        lines.extend(evidence);
        lines
            .extend(container.last_lines.iter().map(|line| format!("{} | {line}", container.name)));
    }
    lines.extend(example.nodes.iter().map(closed_words));
    if let Some(ladder) = &example.ladder {
        let phase = ladder.phase.map_or_else(String::new, |phase| format!(", {phase:?}"));
        let words = ladder.message.as_deref().map_or_else(String::new, |m| format!(": {m}"));
        lines.push(format!("ladder {:?}{phase}{words}", ladder.name));
    }
    lines.extend(example.next.iter().map(|next| format!("next: {}", next_words(next, now))));
    if lines.is_empty() {
        return Ok(());
    }
    if of > 1 {
        writeln!(text, "      of {}:", example.name)?;
    }
    lines.iter().try_for_each(|line| writeln!(text, "        {line}"))
}

fn put_entry(text: &mut String, entry: &HistoryEntry) -> std::fmt::Result {
    let repeats = match (entry.count, entry.every_seconds) {
        (1, _) => String::new(),
        (count, None) => format!(" ({} until {})", times(count), show_time(&entry.last)),
        (count, Some(every)) => {
            let every = show_span(TickDuration::from_secs(every));
            format!(" ({} until {}, every {every})", times(count), show_time(&entry.last))
        }
    };
    writeln!(text, "  {}  {}{repeats}", show_time(&entry.first), entry.what)
}

fn put_ladder(text: &mut String, ladder: &LadderAccount) -> std::fmt::Result {
    let phase = ladder.phase.map_or_else(String::new, |phase| format!(", {phase:?}"));
    let rung = ladder.rung.map_or_else(String::new, |rung| format!(", on rung {rung}"));
    writeln!(text, "\nLadder {:?}{phase}{rung}", ladder.name)?;
    if let Some(message) = &ladder.message {
        writeln!(text, "  {message}")?;
    }
    let attempts: Vec<String> = ladder
        .attempts
        .iter()
        .map(|attempts| format!("{} {}", attempts.rung, attempts.at.len()))
        .collect();
    if !attempts.is_empty() {
        writeln!(text, "  attempts inside the window: {}", attempts.join(", "))?;
    }
    writeln!(text, "  failures counted: {}", ladder.failures_total)?;
    if let Some(group) = &ladder.group {
        writeln!(text, "  all pods of group {group} restart as one:")?;
    }
    ladder.members.iter().try_for_each(|member| writeln!(text, "    {}", member_words(member)))
}

/// `train-0: 3 failures, the last: container "train-0/app" exited with 1`.
fn member_words(member: &MemberAccount) -> String {
    let MemberAccount { pod, failures, message } = member;
    match (failures, message) {
        (0, _) => format!("{pod}: no failure"),
        (1, Some(message)) => format!("{pod}: 1 failure: {message}"),
        (1, None) => format!("{pod}: 1 failure"),
        (many, Some(message)) => format!("{pod}: {many} failures, the last: {message}"),
        (many, None) => format!("{pod}: {many} failures"),
    }
}
