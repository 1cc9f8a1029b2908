use super::*;

fn read_all(pairs: &[(&str, &str)]) -> Result<Option<RestartLadderSpec>, Vec<String>> {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let errors = |errors: Vec<LadderAnnotationError>| {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    annotated_ladder(Some(&pairs.collect())).map_err(errors)
}

fn step(rung: Rung, attempts: Option<u32>) -> LadderRung {
    LadderRung { rung, attempts, empty_dirs: None, avoid_node_for: None }
}

#[test]
fn a_pod_without_the_annotations_has_no_ladder() {
    assert_eq!(annotated_ladder(None), Ok(None));
    assert_eq!(read_all(&[("team", "shop"), ("rekindle.dev/avoided-nodes", "{}")]), Ok(None));
}

#[test]
fn the_rungs_come_with_their_attempts_in_the_order_they_are_written() {
    let rungs = [step(Rung::Container, Some(3)), step(Rung::Pod, None)];
    for text in ["Container:3,Pod", "Container:3, Pod", " Container : 3 ,Pod "] {
        let spec = read_all(&[(LADDER, text)]).expect(text).expect("it is a ladder");
        assert_eq!(spec.rungs, rungs, "{text}");
        assert_eq!((spec.window, spec.on_exhausted, spec.budget), (None, None, None));
    }
}

#[test]
fn the_other_annotations_say_more_about_it() {
    let spec = read_all(&[
        (LADDER, "Pod:2, Reschedule"),
        (LADDER_WINDOW, "90s"),
        (LADDER_EMPTY_DIRS, "Keep"),
        (LADDER_AVOID_NODE_FOR, "2h"),
        (LADDER_ON_EXHAUSTED, "Fail"),
    ]);
    let spec = spec.expect("valid").expect("it is a ladder");
    assert_eq!(spec.window.as_deref(), Some("90s"));
    assert_eq!(spec.rungs[0].empty_dirs, Some(EmptyDirPolicy::Keep));
    assert_eq!(spec.rungs[1].avoid_node_for.as_deref(), Some("2h"));
    assert_eq!(spec.on_exhausted, Some(OnExhausted::Fail));
}

#[test]
fn what_cannot_be_read_is_named_with_what_can() {
    let known = "Container, Containers, Pod, Recreate, Reschedule";
    let example = "write such as \"Container:3, Pod:2, Recreate\"";
    for (pairs, says) in [
        (
            vec![(LADDER, "Contaner:3")],
            format!("\"Contaner:3\": \"Contaner\" is no rung; {example}, with rungs of {known}"),
        ),
        (vec![(LADDER, "")], format!("\"\" is no rung; {example}, with rungs of {known}")),
        (
            vec![(LADDER, "Pod:many")],
            "\"many\" is no number of attempts; write such as Pod:3".to_owned(),
        ),
        (
            vec![(LADDER, "Pod, Rollback")],
            "Rollback changes the Deployment and not the pod: it takes a RestartLadder".to_owned(),
        ),
        (vec![(LADDER, "Pod:-1")], "\"-1\" is no number of attempts".to_owned()),
        (
            vec![(LADDER_WINDOW, "5m")],
            "rekindle.dev/ladder-window needs it: name the rungs".to_owned(),
        ),
        (vec![(LADDER, "Pod"), (LADDER_ON_EXHAUSTED, "Stop")], "is Hold or Fail".to_owned()),
        (vec![(LADDER, "Pod"), (LADDER_EMPTY_DIRS, "keep")], "is Clear or Keep".to_owned()),
        (
            vec![(LADDER, "Recreate"), (LADDER_EMPTY_DIRS, "Keep")],
            "is about the rung Pod, which rekindle.dev/ladder does not name".to_owned(),
        ),
        (
            vec![(LADDER, "Pod"), (LADDER_AVOID_NODE_FOR, "1h")],
            "is about the rung Reschedule".to_owned(),
        ),
    ] {
        let errors = read_all(&pairs).expect_err(&says);
        assert!(errors.len() == 1 && errors[0].contains(&says), "{pairs:?}: {errors:?}");
    }
}

#[test]
fn what_makes_no_ladder_is_told_with_the_annotation_that_is_to_blame() {
    for (pairs, says) in [
        (vec![(LADDER, "Pod, Container")], "ladder: \"Pod, Container\": \"Container\": "),
        (vec![(LADDER, "Pod:0")], "ladder: \"Pod:0\": 0: must be between 1 and 1000"),
        (
            vec![(LADDER, "Pod"), (LADDER_WINDOW, "721h")],
            "ladder-window: \"721h\": must be no more",
        ),
        (
            vec![(LADDER, "Reschedule"), (LADDER_AVOID_NODE_FOR, "0s")],
            "ladder-avoid-node-for: \"0s\": must be greater than zero",
        ),
    ] {
        let errors = read_all(&pairs).expect_err(says);
        let starts = errors[0].starts_with(&format!("annotation rekindle.dev/{says}"));
        assert!(errors.len() == 1 && starts, "{pairs:?}: {errors:?}");
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let pairs = [(LADDER, "Pod"), (LADDER_ON_EXHAUSTED, "Stop"), (LADDER_AVOID_NODE_FOR, "1h")];
    assert_eq!(read_all(&pairs).expect_err("two mistakes").len(), 2);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(rungs in ".{0,40}", other in ".{0,20}") {
        let _ = read_all(&[(LADDER, rungs.as_str()), (LADDER_EMPTY_DIRS, other.as_str())]);
    }
}

#[test]
fn a_long_list_of_rungs_has_few_faults() {
    let text = "Pod,".repeat(50_000) + "Pod";
    let annotations = [(LADDER.to_owned(), text)].into();
    let errors = annotated_ladder(Some(&annotations)).unwrap_err();
    assert!(errors.len() <= 6, "{}", errors.len());
    let expected = "must have at most 6 items";
    assert_eq!(errors[0].problem, expected);
}
