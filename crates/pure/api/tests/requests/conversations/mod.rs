//! Conversations with a kube-apiserver of Kubernetes 1.36.2, played on this API core.
//!
//! Each `AREA.json` here holds recorded cases: requests, and the answers of the real server. A
//! case is played on an API of its own, and the answers are compared whole, after what varies
//! from run to run was replaced (`normal_form`). What is not equal but for the words of messages
//! is listed in `unequal.txt` with its reason. A case that is listed and equal fails the test, so
//! the list stays true.

mod answer_difference;
mod case_player;
mod json_paths;
mod normal_form;

use std::collections::BTreeMap;

use answer_difference::AnswerDifference;
use case_player::RecordedCase;

/// `AREA/NAME` of each case that is not equal yet, below the reason.
const UNEQUAL: &str = include_str!("unequal.txt");

/// The most differences that are shown of one case.
const SHOWN_MAX: usize = 16;

#[test]
fn server_side_apply_is_as_recorded() {
    play("apply", include_str!("apply.json"));
}

#[test]
fn patches_are_answered_as_recorded() {
    play("patch", include_str!("patch.json"));
}

#[test]
fn custom_resources_are_as_recorded() {
    play("crd", include_str!("crd.json"));
}

#[test]
fn admission_decides_as_recorded() {
    play("admission", include_str!("admission.json"));
}

#[test]
fn invalid_objects_are_answered_as_recorded() {
    play("validation", include_str!("validation.json"));
}

#[test]
fn defaults_are_set_as_recorded() {
    play("defaults", include_str!("defaults.json"));
}

#[test]
fn lists_and_watches_are_as_recorded() {
    play("lists", include_str!("lists.json"));
}

#[test]
fn writes_are_answered_as_recorded() {
    play("writes", include_str!("writes.json"));
}

#[test]
fn options_forms_and_updates_are_answered_as_recorded() {
    play("verbs", include_str!("verbs.json"));
}

#[test]
fn mistakes_in_each_kind_are_named_as_recorded() {
    play("mistakes", include_str!("mistakes.json"));
}

#[test]
fn fields_of_each_kind_are_owned_as_recorded() {
    play("ownership", include_str!("ownership.json"));
}

#[test]
fn kinds_of_devices_are_as_recorded() {
    play("devices", include_str!("devices.json"));
}

#[test]
fn details_of_each_kind_are_as_recorded() {
    play("details", include_str!("details.json"));
}

#[test]
fn bodies_that_were_changed_at_random_are_answered_as_recorded() {
    play("mutations", include_str!("mutations.json"));
}

#[test]
fn patches_and_the_owners_that_they_leave_are_as_recorded() {
    play("patches", include_str!("patches.json"));
}

#[test]
fn details_of_admission_and_reviews_are_as_recorded() {
    play("admission_details", include_str!("admission_details.json"));
}

#[test]
fn definitions_that_were_made_at_random_are_answered_as_recorded() {
    play("definitions", include_str!("definitions.json"));
}

/// Plays an area, prints what differs, and compares what is unequal with the list.
fn play(area: &str, recorded: &str) {
    let cases: Vec<RecordedCase> = serde_json::from_str(recorded).unwrap();
    let listed = listed(area);
    let (mut equal, mut equal_but_for_words, mut wrong) = (0, 0, Vec::new());
    for case in &cases {
        let differences = case.play();
        let name = format!("{area}/{}", case.name);
        equal += usize::from(differences.is_empty());
        let alike = differences.iter().all(AnswerDifference::is_in_words_only);
        equal_but_for_words += usize::from(alike);
        let shown = shown(&name, case, &differences);
        print!("{shown}");
        match (alike, listed.contains_key(name.as_str())) {
            (true, true) => wrong.push(format!("{name} is equal: take it off the list\n")),
            (false, false) => wrong.push(shown),
            (true, false) | (false, true) => {}
        }
    }
    println!(
        "{area}: {equal} of {} equal, {equal_but_for_words} but for the words of messages",
        cases.len()
    );
    for name in listed.keys() {
        let exists = cases.iter().any(|case| *name == format!("{area}/{}", case.name));
        assert!(exists, "{name} is listed as unequal, and there is no such case");
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

fn shown(name: &str, case: &RecordedCase, differences: &[AnswerDifference]) -> String {
    if differences.is_empty() {
        return String::new();
    }
    let mut text = format!("{name}: {}\n", case.why);
    for difference in differences.iter().take(SHOWN_MAX) {
        text.push_str(&format!("    {difference}\n"));
    }
    text
}

/// The cases of an area that are not equal, each with its reason.
fn listed(area: &str) -> BTreeMap<&'static str, &'static str> {
    let mut reason = "";
    let mut listed = BTreeMap::new();
    for line in UNEQUAL.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(text) => reason = text,
            None => {
                assert!(!reason.is_empty(), "{line} is listed without a reason");
                if line.split('/').next() == Some(area) {
                    listed.insert(line, reason);
                }
            }
        }
    }
    listed
}
