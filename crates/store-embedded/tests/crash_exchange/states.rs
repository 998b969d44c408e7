//! Every legal state after a power cut: at each sync of a device's post, `API_3`, `API_4`, a rollback
//! and the move to Unknown, with many parts of what was not synced.

use handoff_log::disk::Coverage;
use handoff_log::disk::When;

use crate::clients::Client;
use crate::day::{Blow, Day, Keep, Moment, Plan, Way};

/// The moments the specification names, each with its way.
const MOMENTS: [(Way, Moment); 9] = [
    (Way::Commit, Moment::Post),
    (Way::Commit, Moment::FilePosted),
    (Way::Commit, Moment::Prepare),
    (Way::Commit, Moment::FilePrepared),
    (Way::Commit, Moment::Report),
    (Way::Commit, Moment::FileReported),
    (Way::Rollback, Moment::FileReported),
    (Way::Silent, Moment::Expire),
    (Way::Silent, Moment::FileExpired),
];

/// Some states of each moment and sync, from a seed on. Gives how many.
fn states(seeds: std::ops::Range<u64>) -> (u64, Coverage) {
    let mut coverage = Coverage::default();
    let mut count = 0;
    for seed in seeds {
        for (way, moment) in MOMENTS {
            for sync in 1..=3 {
                for when in [When::Before, When::After] {
                    let client = if seed % 2 == 0 { Client::Retries } else { Client::Gone };
                    let blow = Some(Blow { moment, sync, when, keep: Keep::Seed(seed) });
                    let busy = seed % 3 != 0;
                    let day = Day::begin(Plan { blow, busy, ..Plan::new(way, client) }).live();
                    coverage += day.coverage;
                    count += 1;
                }
            }
        }
    }
    (count, coverage)
}

/// Together the four are more than ten thousand states.
const SEEDS: u64 = 200;

fn quarter(at: u64) {
    let (count, coverage) = states(at * SEEDS / 4..(at + 1) * SEEDS / 4);
    assert!(count >= 2_500, "{count} states");
    assert_eq!(coverage.missing(), [""; 0], "cases that did not occur in {count} states");
}

#[test]
fn a_quarter_of_ten_thousand_power_cuts_breaks_no_promise() {
    quarter(0);
}

#[test]
fn a_second_quarter_of_ten_thousand_power_cuts_breaks_no_promise() {
    quarter(1);
}

#[test]
fn a_third_quarter_of_ten_thousand_power_cuts_breaks_no_promise() {
    quarter(2);
}

#[test]
fn a_last_quarter_of_ten_thousand_power_cuts_breaks_no_promise() {
    quarter(3);
}
