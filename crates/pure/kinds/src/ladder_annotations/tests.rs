use rekindle_types::v1alpha1::{LADDER_AVOID_NODE_FOR, LADDER_EMPTY_DIRS, LADDER_WINDOW};

use super::*;

fn told(pairs: &[(&str, &str)]) -> Vec<String> {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let field = Path::new("metadata").child("annotations");
    check(Some(&pairs.collect()), &field).iter().map(ToString::to_string).collect()
}

#[test]
fn a_ladder_that_a_restart_ladder_could_be_is_accepted() {
    for pairs in [
        vec![],
        vec![("team", "shop"), ("rekindle.dev/avoided-nodes", "{}")],
        vec![(LADDER, "Container:3, Pod:2, Recreate, Reschedule:2"), (LADDER_WINDOW, "1h30m")],
        vec![(LADDER, "Pod"), (LADDER_EMPTY_DIRS, "Keep")],
        vec![(LADDER, "Reschedule"), (LADDER_AVOID_NODE_FOR, "720h")],
    ] {
        assert_eq!(told(&pairs), Vec::<String>::new(), "{pairs:?}");
    }
}

#[test]
fn a_mistake_is_told_with_its_annotation_and_what_to_do() {
    for (pairs, says) in [
        (
            vec![(LADDER, "Contaner:3")],
            "metadata.annotations[rekindle.dev/ladder]: Invalid value: \"Contaner:3\": \"Contaner\" is no rung; write such as",
        ),
        (
            vec![(LADDER, "Pod, Container")],
            "metadata.annotations[rekindle.dev/ladder]: Invalid value: \"Pod, Container\": \"Container\": must stand \
             before Pod",
        ),
        (
            vec![(LADDER, "Pod, Pod")],
            "metadata.annotations[rekindle.dev/ladder]: Invalid value: \"Pod, Pod\": Duplicate value: \"Pod\"",
        ),
        (vec![(LADDER, "Pod:0")], "between 1 and 1000"),
        (vec![(LADDER, "Pod:1001")], "between 1 and 1000"),
        (
            vec![(LADDER, "Pod"), (LADDER_WINDOW, "soon")],
            "metadata.annotations[rekindle.dev/ladder-window]: Invalid value: \"soon\": \"soon\" is not a duration",
        ),
        (
            vec![(LADDER, "Pod"), (LADDER_WINDOW, "721h")],
            "metadata.annotations[rekindle.dev/ladder-window]: Invalid value: \"721h\": must be no more than 720h",
        ),
        (
            vec![(LADDER, "Pod"), (LADDER_EMPTY_DIRS, "Empty")],
            "metadata.annotations[rekindle.dev/ladder-empty-dirs]: Invalid value: \"Empty\": is Clear or Keep",
        ),
        (
            vec![(LADDER, "Reschedule"), (LADDER_AVOID_NODE_FOR, "0s")],
            "metadata.annotations[rekindle.dev/ladder-avoid-node-for]: Invalid value: \"0s\": must be greater than zero",
        ),
        (
            vec![(LADDER_WINDOW, "5m")],
            "metadata.annotations[rekindle.dev/ladder]: Required value: rekindle.dev/ladder-window needs it",
        ),
        (
            vec![("rekindle.dev/ladder-windw", "5m")],
            "metadata.annotations: Unsupported value: \"rekindle.dev/ladder-windw\": supported values: \"rekindle.dev/ladder\"",
        ),
    ] {
        let told = told(&pairs);
        assert!(told.len() == 1 && told[0].contains(says), "{pairs:?}: {told:?}");
    }
}

#[test]
fn a_rung_that_gets_no_turn_is_warned_of() {
    let field = Path::new("metadata").child("annotations");
    let warned = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        warnings(Some(&pairs.collect()), &field)
    };
    assert_eq!(warned(&[(LADDER, "Pod")]).len(), 0);
    assert_eq!(warned(&[(LADDER, "Contaner")]).len(), 0, "that is refused");
    assert_eq!(warned(&[(LADDER, "Container:6, Pod")]).len(), 0);
    let never = warned(&[(LADDER, "Container:7, Pod")]).join("\n");
    let expected =
        "metadata.annotations[rekindle.dev/ladder]: 7: what comes after Container is never reached";
    assert!(never.starts_with(expected) && never.ends_with("at most 6"), "{never}");
}
