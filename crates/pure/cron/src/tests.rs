use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Tick {
    let time: Timestamp = text.parse().unwrap();
    Tick::from_micros(u64::try_from(time.as_microsecond()).unwrap())
}

fn shown(at: Tick, zone: &str) -> String {
    wall(at, &time_zone(zone).unwrap()).unwrap().strftime("%Y-%m-%d %a %H:%M:%S %Z").to_string()
}

/// The next times after one, in the zone.
fn next(schedule: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::parse(schedule, time_zone(zone).unwrap()).unwrap();
    let mut point = at(after);
    let mut times = Vec::new();
    while let Some(time) = schedule.next_after(point).filter(|_| times.len() < count) {
        times.push(shown(time, zone));
        point = time;
    }
    times
}

#[test]
fn the_next_time_is_the_first_minute_that_matches() {
    let cases = [
        ("* * * * *", "2026-11-21T16:30:00Z", "2026-11-21 Sat 16:31:00 UTC"),
        ("* * * * *", "2026-11-21T16:30:59.9Z", "2026-11-21 Sat 16:31:00 UTC"),
        ("*/15 * * * *", "2026-11-21T16:46:00Z", "2026-11-21 Sat 17:00:00 UTC"),
        ("5/20 * * * *", "2026-11-21T16:46:00Z", "2026-11-21 Sat 17:05:00 UTC"),
        ("20-35/15 * * * *", "2026-11-21T16:21:00Z", "2026-11-21 Sat 16:35:00 UTC"),
        ("0,30 8-18 * * mon-fri", "2026-11-20T18:30:00Z", "2026-11-23 Mon 08:00:00 UTC"),
        ("0 0 29 feb ?", "2026-11-21T00:00:00Z", "2028-02-29 Tue 00:00:00 UTC"),
        ("0 0 1 jan *", "2026-01-01T00:00:00Z", "2027-01-01 Fri 00:00:00 UTC"),
        // both name days: either will do
        ("0 0 13 * 5", "2026-11-21T00:00:00Z", "2026-11-27 Fri 00:00:00 UTC"),
        ("0 0 24 * 5", "2026-11-21T00:00:00Z", "2026-11-24 Tue 00:00:00 UTC"),
        // a star with a step names days, too
        ("0 0 */10 * SUN", "2026-11-21T01:00:00Z", "2026-11-22 Sun 00:00:00 UTC"),
        ("0 0 31 * *", "2026-11-21T00:00:00Z", "2026-12-31 Thu 00:00:00 UTC"),
        ("@hourly", "2026-11-21T16:30:00Z", "2026-11-21 Sat 17:00:00 UTC"),
        ("@daily", "2026-11-21T16:30:00Z", "2026-11-22 Sun 00:00:00 UTC"),
        ("@midnight", "2026-11-21T16:30:00Z", "2026-11-22 Sun 00:00:00 UTC"),
        ("@weekly", "2026-11-21T16:30:00Z", "2026-11-22 Sun 00:00:00 UTC"),
        ("@monthly", "2026-11-21T16:30:00Z", "2026-12-01 Tue 00:00:00 UTC"),
        ("@yearly", "2026-11-21T16:30:00Z", "2027-01-01 Fri 00:00:00 UTC"),
        ("@annually", "2026-11-21T16:30:00Z", "2027-01-01 Fri 00:00:00 UTC"),
        ("@every 90s", "2026-11-21T16:30:00.7Z", "2026-11-21 Sat 16:31:30 UTC"),
        ("@every 1h30m", "2026-11-21T16:30:00Z", "2026-11-21 Sat 18:00:00 UTC"),
        ("@every 1.5h", "2026-11-21T16:30:00Z", "2026-11-21 Sat 18:00:00 UTC"),
        ("@every 10ms", "2026-11-21T16:30:00Z", "2026-11-21 Sat 16:30:01 UTC"),
        ("@every -5m", "2026-11-21T16:30:00Z", "2026-11-21 Sat 16:30:01 UTC"),
        ("  5   4  * * * ", "2026-11-21T16:30:00Z", "2026-11-22 Sun 04:05:00 UTC"),
    ];
    for (schedule, after, wanted) in cases {
        assert_eq!(next(schedule, "UTC", after, 1), [wanted], "{schedule} after {after}");
    }
}

#[test]
fn times_that_clocks_leave_out_do_not_come_and_those_that_come_twice_are_two() {
    let new_york = |schedule, after, count| next(schedule, "America/New_York", after, count);
    // 2026-03-08: 02:00 EST is 03:00 EDT.
    assert_eq!(
        new_york("30 2 * * *", "2026-03-07T08:00:00Z", 2),
        ["2026-03-09 Mon 02:30:00 EDT", "2026-03-10 Tue 02:30:00 EDT"]
    );
    assert_eq!(
        new_york("0 * * * *", "2026-03-08T05:30:00Z", 3),
        [
            "2026-03-08 Sun 01:00:00 EST",
            "2026-03-08 Sun 03:00:00 EDT",
            "2026-03-08 Sun 04:00:00 EDT"
        ]
    );
    // 2026-11-01: 02:00 EDT is 01:00 EST.
    assert_eq!(
        new_york("30 1 * * *", "2026-11-01T04:00:00Z", 3),
        [
            "2026-11-01 Sun 01:30:00 EDT",
            "2026-11-01 Sun 01:30:00 EST",
            "2026-11-02 Mon 01:30:00 EST"
        ]
    );
    let berlin = |schedule, after, count| next(schedule, "Europe/Berlin", after, count);
    assert_eq!(
        berlin("15,45 2 * * *", "2026-10-24T23:00:00Z", 4),
        [
            "2026-10-25 Sun 02:15:00 CEST",
            "2026-10-25 Sun 02:45:00 CEST",
            "2026-10-25 Sun 02:15:00 CET",
            "2026-10-25 Sun 02:45:00 CET"
        ]
    );
    assert_eq!(berlin("0 2 29 3 *", "2026-03-28T00:00:00Z", 1), ["2027-03-29 Mon 02:00:00 CEST"]);
    // Real time, whatever clocks do.
    assert_eq!(
        berlin("@every 1h", "2026-10-25T00:30:00Z", 2),
        ["2026-10-25 Sun 02:30:00 CET", "2026-10-25 Sun 03:30:00 CET"]
    );
}

#[test]
fn a_day_whose_midnight_is_left_out_is_not_passed_over() {
    // Cairo, 2026-04-24: 00:00 is 01:00.
    assert_eq!(
        next("30 5 24 4 *", "Africa/Cairo", "2026-04-20T00:00:00Z", 1),
        ["2026-04-24 Fri 05:30:00 EEST"]
    );
    assert_eq!(
        next("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", 1),
        ["2026-04-25 Sat 00:00:00 EEST"]
    );
}

/// St. John's, 2010-11-07: 00:01 is 23:01 of the day before, so that the start of the next day is
/// behind.
#[test]
fn clocks_that_go_back_over_midnight_neither_hold_a_schedule_up_nor_let_a_time_be_passed_over() {
    let st_johns =
        |schedule, count| next(schedule, "America/St_Johns", "2010-11-07T02:00:00Z", count);
    assert_eq!(
        st_johns("30 0 * * 0", 2),
        ["2010-11-07 Sun 00:30:00 NST", "2010-11-14 Sun 00:30:00 NST"]
    );
    assert_eq!(
        st_johns("30 23 * * 6", 2),
        ["2010-11-06 Sat 23:30:00 NST", "2010-11-13 Sat 23:30:00 NST"]
    );
    assert_eq!(
        st_johns("0 0 * * *", 3),
        [
            "2010-11-07 Sun 00:00:00 NDT",
            "2010-11-07 Sun 00:00:00 NST",
            "2010-11-08 Mon 00:00:00 NST"
        ]
    );
    assert_eq!(
        next("15 0 1 * *", "America/Moncton", "2006-10-01T00:00:00Z", 2),
        ["2006-10-01 Sun 00:15:00 ADT", "2006-11-01 Wed 00:15:00 AST"]
    );
}

#[test]
fn a_schedule_that_never_comes_has_no_next_time() {
    for schedule in ["0 0 31 2 *", "0 0 30 feb ?", "0 0 31 4,6,9,11 *", ", * * * *"] {
        assert_eq!(next(schedule, "UTC", "2026-11-21T00:00:00Z", 1), [""; 0], "{schedule}");
    }
}

#[test]
fn what_is_no_schedule_is_refused_in_the_words_of_robfig_cron() {
    let cases = [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("0 0 * * * *", "expected exactly 5 fields, found 6: [0 0 * * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("30-10 * * * *", "beginning of range (30) beyond end of range (10): 30-10"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
        ("99999999999 * * * *", "end of range (4294967295) above maximum (59): 99999999999"),
        ("@fortnightly", "unrecognized descriptor: @fortnightly"),
        ("@every", "unrecognized descriptor: @every"),
        ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
        (
            "@every 5d",
            "failed to parse duration @every 5d: time: unknown unit \"d\" in duration \"5d\"",
        ),
        ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
    ];
    for (text, wanted) in cases {
        let error = Schedule::parse(text, TimeZone::UTC).unwrap_err();
        assert_eq!(error.to_string(), wanted, "{text}");
    }
}

#[test]
fn zones_are_those_of_the_database() {
    for name in
        ["UTC", "Etc/UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Asia/Kolkata"]
    {
        assert!(time_zone(name).is_some(), "{name}");
    }
    for name in ["", "Local", "europe/berlin", "Europe/Nowhere", "../etc/passwd", "EST5EDT,M3"] {
        assert!(time_zone(name).is_none(), "{name}");
    }
}

#[test]
fn a_time_is_shown_as_clocks_in_the_zone_do() {
    let time = at("2026-07-01T00:30:00Z");
    assert_eq!(in_zone(time, "Europe/Berlin"), "2026-07-01T02:30:00+02:00");
    assert_eq!(in_zone(time, "UTC"), "2026-07-01T00:30:00Z");
    assert_eq!(in_zone(time, "Nowhere"), "2026-07-01T00:30:00Z");
    assert_eq!(in_zone(time, "Atlantic/Reykjavik"), "2026-07-01T00:30:00Z");
    assert_eq!(in_zone(time, "Europe/London"), "2026-07-01T01:30:00+01:00");
    assert_eq!(in_zone(at("2026-12-01T00:30:00Z"), "Europe/London"), "2026-12-01T00:30:00Z");
}

#[test]
fn the_last_time_of_a_span_is_found_without_a_look_at_all_of_them() {
    let last = |schedule: &str, after, until| {
        let schedule = Schedule::parse(schedule, TimeZone::UTC).unwrap();
        schedule.last_between(at(after), at(until)).map(|time| shown(time, "UTC"))
    };
    let of = |text: &str| Some(text.to_owned());
    let day = "2026-11-21T00:00:00Z";
    assert_eq!(last("0 * * * *", day, "2026-11-21T00:59:59Z"), None);
    assert_eq!(last("0 * * * *", day, "2026-11-21T01:00:00Z"), of("2026-11-21 Sat 01:00:00 UTC"));
    assert_eq!(last("* * * 1 *", day, "2030-12-31T00:00:00Z"), of("2030-01-31 Thu 23:59:00 UTC"));
    assert_eq!(last("@every 7m", day, "2026-11-21T01:00:00Z"), of("2026-11-21 Sat 00:56:00 UTC"));
    assert_eq!(last("0 0 31 2 *", day, "2030-01-01T00:00:00Z"), None);
}

fn field(min: u8, max: u8) -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just("*".to_owned()),
        2 => (min..=max).prop_map(|n| n.to_string()),
        1 => (2u8..20).prop_map(|step| format!("*/{step}")),
        1 => (min..=max, min..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (min..=max, min..=max).prop_map(|(a, b)| format!("{a},{b}")),
    ]
}

fn schedule() -> impl Strategy<Value = String> {
    (field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)).prop_map(
        |(minute, hour, day, month, week)| format!("{minute} {hour} {day} {month} {week}"),
    )
}

const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Africa/Cairo",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Moncton",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn the_next_time_is_later_and_matches_and_none_between_does(
        text in schedule(), seconds in 946_684_800u64..2_000_000_000, zone in 0..ZONES.len()
    ) {
        let zone = time_zone(ZONES[zone]).unwrap();
        let schedule = Schedule::parse(&text, zone.clone()).unwrap();
        let SchedulePattern::Fields(fields) = &schedule.pattern else { unreachable!() };
        let matches = |at: Tick| {
            let local = wall(at, &zone).unwrap();
            fields.month.has(local.month())
                && fields.is_day(local.date())
                && fields.hour.has(local.hour())
                && fields.minute.has(local.minute())
                && local.second() == 0
        };
        let after = Tick::from_secs(seconds);
        // A time that clocks leave out every year on its only day may never come.
        let Some(next) = schedule.next_after(after) else { return Ok(()) };
        prop_assert!(next > after && matches(next));
        let mut minute = next_minute(after);
        for _ in 0..5000 {
            if minute >= next {
                break;
            }
            prop_assert!(!matches(minute), "{text}: {} was left out", shown(minute, "UTC"));
            minute = minute + MINUTE;
        }
        let last = schedule.last_between(after, next + MINUTE.saturating_mul(3000)).unwrap();
        prop_assert!(last >= next && matches(last));
        prop_assert!(schedule.next_after(last).is_none_or(|later| later > next + MINUTE.saturating_mul(3000)));
    }

    #[test]
    fn no_text_is_too_strange_to_be_refused(text in "[-*/,@0-9a-z ?.]{0,30}") {
        if let Ok(schedule) = Schedule::parse(&text, TimeZone::UTC) {
            let after = Tick::from_secs(1_800_000_000);
            prop_assert!(schedule.next_after(after).is_none_or(|next| next > after));
        }
    }
}
