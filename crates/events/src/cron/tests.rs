use super::*;
use proptest::prelude::*;

fn cron(expression: &str, zone: &str) -> Cron {
    Cron::parse(expression, Some(zone)).unwrap_or_else(|bad| panic!("{expression}: {bad}"))
}

fn at(instant: &str) -> Wall {
    wall(instant.parse().unwrap())
}

/// The next times, as UTC.
fn check(expression: &str, zone: &str, after: &str, expected: &[&str]) {
    let cron = cron(expression, zone);
    let mut last = at(after);
    for next in expected {
        last = cron.next_after(last).unwrap();
        let shown = Timestamp::from_microsecond(last.0).unwrap().to_string();
        assert_eq!(shown, *next, "{expression} in {zone}");
    }
}

fn refused(expression: &str) -> String {
    Cron::parse(expression, None).unwrap_err().to_string()
}

#[test]
fn fields_lists_ranges_steps_and_names_select_what_they_say() {
    check("5 4 * * *", "UTC", "2027-01-01T04:04:59.999999Z", &["2027-01-01T04:05:00Z"]);
    check("5 4 * * *", "UTC", "2027-01-01T04:05:00Z", &["2027-01-02T04:05:00Z"]);
    check(
        "*/20,7 8-10/2 * * *",
        "UTC",
        "2027-01-01T08:00:00Z",
        &[
            "2027-01-01T08:07:00Z",
            "2027-01-01T08:20:00Z",
            "2027-01-01T08:40:00Z",
            "2027-01-01T10:00:00Z",
        ],
    );
    check(
        "0 0 1 jan,Jul *",
        "UTC",
        "2027-01-01T00:00:00Z",
        &["2027-07-01T00:00:00Z", "2028-01-01T00:00:00Z"],
    );
    check(
        "0 0 * * fri-sun",
        "UTC",
        "2027-01-04T00:00:00Z",
        &[
            "2027-01-08T00:00:00Z",
            "2027-01-09T00:00:00Z",
            "2027-01-10T00:00:00Z",
            "2027-01-15T00:00:00Z",
        ],
    );
}

#[test]
fn sunday_is_both_0_and_7() {
    let sundays = ["0 0 * * 0", "0 0 * * 7", "0 0 * * SUN", "0 0 * * 7-7", "0 0 * * */7"];
    for expression in sundays {
        check(expression, "UTC", "2027-01-04T00:00:00Z", &["2027-01-10T00:00:00Z"]);
    }
    assert_eq!(cron("0 0 * * 5-7", "UTC").fields, cron("0 0 * * 0,5,6", "UTC").fields);
}

#[test]
fn shorthands_stand_for_what_they_say() {
    for (short, long) in [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@Midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ] {
        assert_eq!(cron(short, "UTC").fields, cron(long, "UTC").fields);
        assert_eq!(cron(short, "UTC").expression(), short, "it is shown as it was given");
    }
    assert!(refused("@reboot").contains("@hourly"));
}

#[test]
fn day_and_weekday_both_restricted_mean_either() {
    check(
        "0 0 13 * FRI",
        "UTC",
        "2027-01-07T00:00:00Z",
        &["2027-01-08T00:00:00Z", "2027-01-13T00:00:00Z", "2027-01-15T00:00:00Z"],
    );
    check("0 0 13 * *", "UTC", "2027-01-01T00:00:00Z", &["2027-01-13T00:00:00Z"]);
    // A field that begins with `*` leaves it to the other, so this is every odd day that is a
    // Friday.
    check("0 0 */2 * FRI", "UTC", "2027-01-01T00:00:00Z", &["2027-01-15T00:00:00Z"]);
}

#[test]
fn the_29th_of_february_waits_for_its_year() {
    check(
        "0 0 29 2 *",
        "UTC",
        "2027-01-01T00:00:00Z",
        &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"],
    );
    check("0 0 29 2 *", "UTC", "2096-02-29T00:00:00Z", &["2104-02-29T00:00:00Z"]);
    check("0 0 29 2 */7", "UTC", "2088-02-29T00:00:00Z", &["2128-02-29T00:00:00Z"]);
}

#[test]
fn a_date_that_never_comes_has_no_next_time() {
    for expression in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *"] {
        assert_eq!(cron(expression, "UTC").next_after(at("2027-01-01T00:00:00Z")), None);
    }
    let monthly = cron("@monthly", "UTC");
    assert_eq!(monthly.next_after(at("9999-12-15T00:00:00Z")), None, "the calendar ends");
    assert_eq!(monthly.next_after(Wall(i64::MAX)), None);
    assert_eq!(monthly.next_after(Wall(i64::MIN)), None);
}

#[test]
fn what_cannot_be_read_is_refused_by_field_and_with_what_is_allowed() {
    for (expression, words) in [
        ("60 * * * *", "the minute `60`"),
        ("* 24 * * *", "the hour `24`"),
        ("* * 0 * *", "the day `0`"),
        ("* * * 13 *", "the month `13`"),
        ("* * * * 8", "the weekday `8`"),
        ("* * * * MOON", "SUN-SAT"),
        ("* * * FOO *", "JAN-DEC"),
        ("* 5-3 * * *", "backwards"),
        ("*/0 * * * *", "from 1 to 59"),
        ("*/60 * * * *", "from 1 to 59"),
        ("5/15 * * * *", "a step needs a range"),
        ("+5 * * * *", "the minute `+5`"),
        ("1,,2 * * * *", "the minute ``"),
        ("1- * * * *", "the minute `1-`"),
        ("*5 * * * *", "the minute `*5`"),
        ("* * * *", "has 4 fields"),
        ("* * * * * *", "has 6 fields"),
        ("", "has 0 fields"),
        ("@", "@hourly"),
    ] {
        let bad = refused(expression);
        assert!(bad.contains(words), "{expression}: {bad}");
    }
    assert!(refused(&"1,".repeat(400)).contains("at most 512"));
}

#[test]
fn zones_are_found_by_name_and_suggested_when_they_are_not() {
    assert_eq!(cron("@daily", "europe/minsk").zone(), "Europe/Minsk");
    assert_eq!(cron("@daily", "utc").zone(), "UTC");
    assert_eq!(Cron::parse("@daily", None).unwrap().zone(), "UTC");
    let words = |zone: &str| Cron::parse("@daily", Some(zone)).unwrap_err().to_string();
    for (zone, meant) in [
        ("Minsk", "Europe/Minsk"),
        ("Europe/Berlim", "Europe/Berlin"),
        ("America/New York", "America/New_York"),
        ("new york", "America/New_York"),
    ] {
        assert!(words(zone).contains(&format!("did you mean {meant}?")), "{}", words(zone));
    }
    for zone in ["", "+03:00", "Etc/Unknown", "nowhere at all", &"x".repeat(10_000)] {
        assert!(words(zone).contains("time zone") && words(zone).len() < 200, "{}", words(zone));
    }
}

#[test]
fn a_skipped_local_time_comes_at_the_end_of_the_gap() {
    check(
        "30 2 * * *",
        "Europe/Berlin",
        "2027-03-27T12:00:00Z",
        &["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"],
    );
    check(
        "30 2 * * *",
        "America/New_York",
        "2027-03-13T12:00:00Z",
        &["2027-03-14T07:00:00Z", "2027-03-15T06:30:00Z"],
    );
    check(
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T00:00:00Z",
        &["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"],
    );
    // Several in one gap are one; and the end of the gap is not there a second time when it
    // matches by itself.
    check(
        "*/15 2-3 * * *",
        "Europe/Berlin",
        "2027-03-28T00:59:59Z",
        &["2027-03-28T01:00:00Z", "2027-03-28T01:15:00Z"],
    );
}

#[test]
fn a_repeated_local_time_comes_the_first_time() {
    check(
        "30 2 * * *",
        "Europe/Berlin",
        "2026-10-24T12:00:00Z",
        &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
    );
    check(
        "30 1 * * *",
        "America/New_York",
        "2026-10-31T12:00:00Z",
        &["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
    );
    check(
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2027-04-02T22:00:00Z",
        &["2027-04-03T14:45:00Z", "2027-04-04T15:15:00Z"],
    );
    // Asked in the second pass, it is over for today.
    check("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", &["2026-10-26T01:30:00Z"]);
}

#[test]
fn the_hour_as_it_runs_keeps_its_interval_across_a_change() {
    for (zone, from) in [
        ("Europe/Berlin", "2027-03-28T00:30:00Z"),
        ("Europe/Berlin", "2026-10-24T23:30:00Z"),
        ("America/New_York", "2027-03-14T06:30:00Z"),
        ("America/New_York", "2026-11-01T04:30:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T14:45:00Z"),
        ("Australia/Lord_Howe", "2027-04-03T14:00:00Z"),
        ("Europe/Minsk", "2027-03-28T00:30:00Z"),
        ("Pacific/Apia", "2011-12-30T09:00:00Z"),
    ] {
        let cron = cron("*/15 * * * *", zone);
        let mut last = at(from);
        for _ in 0..12 {
            let next = cron.next_after(last).unwrap();
            assert_eq!(next.0 - last.0, 15 * 60_000_000, "{zone} {from}");
            last = next;
        }
    }
    // Half an hour less, and the hour has no minute 0 at all.
    check(
        "0 * * * *",
        "Australia/Lord_Howe",
        "2026-10-03T14:00:00Z",
        &["2026-10-03T14:30:00Z", "2026-10-03T16:00:00Z"],
    );
}

#[test]
fn a_zone_without_changes_has_none() {
    check(
        "30 2 28 3 *",
        "Europe/Minsk",
        "2027-01-01T00:00:00Z",
        &["2027-03-27T23:30:00Z", "2028-03-27T23:30:00Z"],
    );
}

#[test]
fn a_day_that_was_left_out_is_a_long_gap() {
    // Samoa went from 29 to 31 December 2011.
    check(
        "0 3 * * *",
        "Pacific/Apia",
        "2011-12-29T20:00:00Z",
        &["2011-12-30T10:00:00Z", "2011-12-30T13:00:00Z", "2011-12-31T13:00:00Z"],
    );
    check(
        "0 12 30 12 *",
        "Pacific/Apia",
        "2011-01-01T00:00:00Z",
        &["2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"],
    );
}

#[test]
fn a_gap_at_midnight_does_not_cost_the_day() {
    check(
        "@daily",
        "America/Havana",
        "2027-03-13T12:00:00Z",
        &["2027-03-14T05:00:00Z", "2027-03-15T04:00:00Z"],
    );
    check(
        "@daily",
        "America/Havana",
        "2026-10-31T12:00:00Z",
        &["2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"],
    );
}

#[test]
fn a_local_time_that_is_there_again_is_not_counted_again() {
    // Midnight to one o'clock is there twice in Havana: 24 times on this day and 24 on the next.
    let cron = cron("*/10 0-3 * * *", "America/Havana");
    let from = at("2026-11-01T03:59:00Z");
    for (until, count) in [
        ("2026-11-01T04:59:59Z", 6),
        ("2026-11-01T05:59:59Z", 6),
        ("2026-11-01T06:00:00Z", 7),
        ("2026-11-02T04:59:59Z", 24),
        ("2026-11-03T04:59:59Z", 48),
    ] {
        assert_eq!(cron.advance(from, at(until), u64::MAX).count, count, "{until}");
    }
    assert_eq!(cron.advance(at("2026-11-01T05:05:00Z"), at("2026-11-01T06:00:00Z"), 99).count, 1);
}

#[test]
fn a_century_of_minutes_is_computed() {
    let cron = cron("* * * * *", "Europe/Berlin");
    let (from, to) = (at("2001-01-01T00:00:00Z"), at("2101-01-01T00:00:00Z"));
    let minutes = (to.0 - from.0) / 60_000_000;
    assert_eq!(cron.advance(from, to, u64::MAX), Run { count: minutes as u64, last: to });
    let run = cron.advance(from, to, 1_000_000);
    assert_eq!(run.last, Wall(from.0 + 1_000_000 * 60_000_000));
}

const ZONES: [&str; 9] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Europe/Minsk",
    "Pacific/Apia",
    "America/Havana",
    "Asia/Kathmandu",
    "Africa/Casablanca",
];

/// A set of values as text, and as the set.
fn field(first: u8, last: u8) -> impl Strategy<Value = (String, Vec<u8>)> {
    let one = (first..=last).prop_map(|value| (value.to_string(), vec![value]));
    let range = (first..=last, first..=last, 1..=last).prop_map(|(a, b, step)| {
        let (low, high) = (a.min(b), a.max(b));
        let values = (low..=high).step_by(step.into()).collect();
        (format!("{low}-{high}/{step}"), values)
    });
    let star = (1..=last).prop_map(move |step| {
        let text = if step == 1 { "*".to_owned() } else { format!("*/{step}") };
        (text, (first..=last).step_by(step.into()).collect())
    });
    let item = prop_oneof![one, range, star];
    let list = prop::collection::vec(item.clone(), 1..4).prop_map(|items| {
        let text: Vec<String> = items.iter().map(|item| item.0.clone()).collect();
        (text.join(","), items.into_iter().flat_map(|item| item.1).collect())
    });
    prop_oneof![3 => Just(("*".to_owned(), (first..=last).collect())), 2 => item, 1 => list]
}

/// An expression, and whether a local time matches it.
#[derive(Clone, Debug)]
struct Expression {
    fields: Vec<(String, Vec<u8>)>,
}

impl Expression {
    fn text(&self) -> String {
        self.fields.iter().map(|field| field.0.clone()).collect::<Vec<_>>().join(" ")
    }

    fn matches(&self, local: DateTime) -> bool {
        let weekday = local.weekday().to_sunday_zero_offset();
        let [minute, hour, day, month, weekday] =
            [local.minute(), local.hour(), local.day(), local.month(), weekday]
                .map(|value| u8::try_from(value).unwrap());
        let has = |at: usize, value: u8| self.fields[at].1.contains(&value);
        let star = |at: usize| self.fields[at].0.starts_with('*');
        let (by_day, by_weekday) = (has(2, day), has(4, weekday));
        let on_day = if star(2) || star(4) { by_day && by_weekday } else { by_day || by_weekday };
        has(0, minute) && has(1, hour) && has(3, month) && on_day
    }

    fn names_hours(&self) -> bool {
        !(0..24).all(|hour| self.fields[1].1.contains(&hour))
    }
}

/// Mostly every day, and hours in which clocks change.
fn expression() -> impl Strategy<Value = Expression> {
    let seldom = |first: u8, last: u8| {
        let every = ("*".to_owned(), (first..=last).collect());
        prop_oneof![4 => Just(every), 1 => field(first, last)]
    };
    let hour = prop_oneof![
        field(0, 23),
        (0u8..4, 0u8..3).prop_map(|(first, more)| {
            let last = first + more;
            (format!("{first}-{last}"), (first..=last).collect())
        })
    ];
    (field(0, 59), hour, seldom(1, 31), seldom(1, 12), seldom(0, 6))
        .prop_map(|(a, b, c, d, e)| Expression { fields: vec![a, b, c, d, e] })
}

/// A minute near a change of clocks, or anywhere.
fn moment(zone: &str, seed: i64) -> Timestamp {
    let anywhere = Timestamp::from_second(1_000_000_000 + seed.rem_euclid(1_500_000_000)).unwrap();
    let zone = zone::named(zone).unwrap();
    match zone.following(anywhere).next() {
        Some(change) if seed % 4 != 0 => {
            change.timestamp() + SignedDuration::from_secs(seed % 100_000)
        }
        _ => anywhere,
    }
}

/// Looks at every minute, with a clock on the wall. `names_hours`: a local minute that was shown
/// before is not shown again, and those that were left out are all shown at once.
fn times_in(expression: &Expression, zone: &str, after: Timestamp, hours: i64) -> Vec<Timestamp> {
    let zone = zone::named(zone).unwrap();
    let start = after.as_second().div_euclid(60) * 60 - 2 * 86_400;
    let end = after.as_second() + hours * 3_600;
    let mut shown = zone.to_datetime(Timestamp::from_second(start).unwrap());
    let mut found = Vec::new();
    for second in (start + 60..=end).step_by(60) {
        let instant = Timestamp::from_second(second).unwrap();
        let local = zone.to_datetime(instant);
        let comes = if expression.names_hours() {
            let mut comes = false;
            while shown < local {
                shown = shown.checked_add(SignedDuration::from_mins(1)).unwrap();
                comes |= expression.matches(shown);
            }
            comes
        } else {
            expression.matches(local)
        };
        if comes && instant > after {
            found.push(instant);
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 160, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn next_times_are_those_of_a_clock_watched_minute_by_minute(
        expression in expression(), zone in prop::sample::select(&ZONES[..]), seed: i64,
    ) {
        let after = moment(zone, seed);
        let hours = 60;
        let end = after + SignedDuration::from_hours(hours);
        let expected = times_in(&expression, zone, after, hours);
        let cron = cron(&expression.text(), zone);
        let mut found = Vec::new();
        let mut last = after;
        while let Some(next) = cron.after(last).filter(|next| *next <= end) {
            prop_assert!(next > last);
            found.push(next);
            last = next;
        }
        prop_assert_eq!(&found, &expected, "{} in {} after {}", expression.text(), zone, after);
        let run = cron.advance(wall(after), wall(end), u64::MAX);
        prop_assert_eq!(run.count, expected.len() as u64);
        prop_assert_eq!(run.last, expected.last().map_or(wall(after), |last| wall(*last)));
    }

    #[test]
    fn computing_times_is_walking_them(
        expression in expression(), zone in prop::sample::select(&ZONES[..]), seed: i64,
        days in 1i64..400, most in prop_oneof![Just(u64::MAX), 0u64..3_000],
    ) {
        let cron = cron(&expression.text(), zone);
        let after = moment(zone, seed);
        let until = after + SignedDuration::from_hours(24 * days) + SignedDuration::from_secs(seed % 86_400);
        let most = most.min(3_000);
        let mut slow = Run { count: 0, last: wall(after) };
        let mut last = after;
        while slow.count < most && let Some(next) = cron.after(last).filter(|next| *next <= until) {
            slow = Run { count: slow.count + 1, last: wall(next) };
            last = next;
        }
        prop_assert_eq!(cron.advance(wall(after), wall(until), most), slow);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[ -~]{0,40}|([0-9*,/@-]{1,6} ){5}", zone in "[ -~]{0,20}", after: i64) {
        if let Ok(cron) = Cron::parse(&text, None) {
            let next = cron.next_after(Wall(after));
            prop_assert!(next.is_none_or(|next| next.0 > after));
        }
        drop(Cron::parse("@daily", Some(&zone)));
    }
}
