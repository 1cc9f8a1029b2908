use super::*;

fn spec(rungs: &[Rung]) -> RestartLadderSpec {
    let mut spec = RestartLadderSpec::default();
    spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
    let rung = |rung: &Rung| LadderRung {
        rung: *rung,
        attempts: None,
        empty_dirs: None,
        avoid_node_for: None,
    };
    spec.rungs = rungs.iter().map(rung).collect();
    spec
}

fn told(spec: &RestartLadderSpec) -> Vec<String> {
    spec.faults().iter().map(ToString::to_string).collect()
}

#[test]
fn a_ladder_that_can_be_carried_out_has_no_fault() {
    let mut spec = spec(&Rung::ALL);
    spec.window = Some("720h".to_owned());
    spec.rungs[2].empty_dirs = Some(EmptyDirPolicy::Keep);
    spec.rungs[4].avoid_node_for = Some("1800000ms".to_owned());
    assert_eq!(told(&spec), Vec::<String>::new());
}

#[test]
fn the_rungs_stand_once_and_in_their_order() {
    for (rungs, says) in [
        (vec![], "spec.rungs: Required value: a ladder needs a rung"),
        (vec![Rung::Pod, Rung::Pod], "spec.rungs[1].rung: Duplicate value: \"Pod\""),
        (
            vec![Rung::Pod, Rung::Recreate, Rung::Containers],
            "spec.rungs[2].rung: Invalid value: \"Containers\": must stand before Pod: the order is",
        ),
    ] {
        let told = told(&spec(&rungs));
        assert!(told.len() == 1 && told[0].starts_with(says), "{told:?}");
    }
}

#[test]
fn a_span_of_time_is_more_than_nothing_no_more_than_thirty_days_and_short() {
    let long = format!("{}1h", "0".repeat(SPAN_BYTES_MAX));
    for (window, says) in [
        ("", "\"\" is not a duration such as 90s, 10m or 1h30m"),
        ("0s", "must be greater than zero"),
        ("720h1ms", "must be no more than 720h"),
        (long.as_str(), "may not be more than 32 bytes"),
    ] {
        let mut spec = spec(&[Rung::Pod]);
        spec.window = Some(window.to_owned());
        let told = told(&spec);
        assert!(told.len() == 1 && told[0].ends_with(says), "{window}: {told:?}");
    }
}

#[test]
fn a_budget_of_nothing_is_no_budget() {
    let mut spec = spec(&[Rung::Pod]);
    spec.budget = Some(LadderBudget { max_concurrent: Some(0), per_minute: Some(1) });
    assert_eq!(
        told(&spec),
        [
            "spec.budget.maxConcurrent: Invalid value: 0: must be at least 1; leave it out for no limit"
        ]
    );
}

#[test]
fn a_ladder_that_a_crash_loop_never_climbs_says_how_many_attempts_are_reached() {
    for (window, attempts, at_most) in [
        (None, 6, None),
        (None, 7, Some(6)),
        (Some("10m"), 1000, Some(6)),
        (Some("611s"), 7, None),
        (Some("1m"), 3, None),
        (Some("1m"), 4, Some(3)),
        (Some("1h"), 16, None),
        (Some("1h"), 17, Some(16)),
        (Some("720h"), 1000, None),
        (Some("soon"), 1000, None), // that is refused
    ] {
        let mut spec = spec(&[Rung::Container, Rung::Pod]);
        spec.window = window.map(str::to_owned);
        spec.rungs[0].attempts = Some(attempts);
        let told = spec.never_climbs();
        let ends = told.as_ref().map(|(_, text)| text.rsplit(' ').next().map(str::to_owned));
        assert_eq!(ends.flatten(), at_most.map(|n: u32| n.to_string()), "{window:?} {attempts}");
        assert!(told.is_none_or(|(index, _)| index == 0));
    }
    assert_eq!(spec(&[Rung::Pod]).never_climbs(), None, "nothing is left to the backoff");
}
