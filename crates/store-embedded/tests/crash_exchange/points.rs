//! The points of the fault analysis, by their names: K the server, C the ERP, N the network. Each with
//! a client that asks again and with one that is gone.

use handoff_exchange::{Ask, Begun, Cancelled, Happened, Phase, Place, Reply, Status, Step, Wish};
use handoff_log::disk::When;
use handoff_types::{Span, Wall};

use crate::clients::{Client, message, mid, verdicts};
use crate::day::{Blow, Day, Death, Keep, Moment, Plan, Way};

/// More syncs than any moment has: the crash comes when all of it is done.
const ALL: u64 = 1_000;

const CLIENTS: [Client; 2] = [Client::Retries, Client::Gone];

/// A day with this crash, for both clients, with folders that are behind and that are not, keeping
/// nothing, everything, and parts of what was not synced.
fn through(way: Way, moment: Moment, sync: u64, when: When) {
    let parts = (0..6).map(Keep::Seed);
    for keep in [Keep::Nothing, Keep::Everything].into_iter().chain(parts) {
        for client in CLIENTS {
            for busy in [false, true] {
                let blow = Some(Blow { moment, sync, when, keep });
                Day::begin(Plan { blow, busy, ..Plan::new(way, client) }).live();
            }
        }
    }
}

fn whole(plan: Plan) -> Day {
    Day::begin(plan).live()
}

#[test]
fn a_day_without_a_crash() {
    for way in [Way::Commit, Way::Rollback, Way::Interrupt, Way::Silent, Way::SilentRollback] {
        for client in CLIENTS {
            whole(Plan::new(way, client));
        }
    }
}

#[test]
fn k1_a_message_that_is_not_durable_was_never_there() {
    through(Way::Commit, Moment::Post, 1, When::Before);
}

#[test]
fn k2_a_durable_message_whose_answer_is_lost_is_stored_once() {
    through(Way::Commit, Moment::Post, 1, When::After);
}

#[test]
fn k3_a_start_that_is_not_durable_never_was() {
    through(Way::Commit, Moment::Begin, 1, When::Before);
}

#[test]
fn k4_a_start_whose_answer_is_lost_is_given_again_or_expires() {
    through(Way::Commit, Moment::Begin, 1, When::After);
}

#[test]
fn k5_a_process_that_is_started_goes_on_after_a_restart() {
    for keep in [Keep::Nothing, Keep::Everything] {
        let mut day = Day::begin(Plan::new(Way::Commit, Client::Retries));
        day.post();
        let (id, served) = day.start(Moment::Begin).unwrap();
        day.crash(keep);
        day.prepare(id, &served);
        assert!(day.ledger.transactions[0].reported);
        day.rest();
    }
}

#[test]
fn k6_a_second_call_without_an_answer_leaves_the_old_list_or_the_new_one() {
    through(Way::Commit, Moment::Narrow, 1, When::Before);
    through(Way::Commit, Moment::Narrow, 1, When::After);
}

#[test]
fn k7_replies_without_their_state_are_nobodys() {
    through(Way::Commit, Moment::Prepare, 1, When::Before);
}

#[test]
fn k8_replies_and_their_state_are_durable_together_or_not_at_all() {
    for seed in 0..40 {
        for client in CLIENTS {
            let (moment, sync, when) = (Moment::Prepare, 1, When::Before);
            let blow = Some(Blow { moment, sync, when, keep: Keep::Seed(seed) });
            whole(Plan { blow, ..Plan::new(Way::Commit, client) });
        }
    }
}

#[test]
fn k9_a_process_that_is_ready_and_whose_answer_is_lost_is_rolled_back_or_set_aside() {
    through(Way::Commit, Moment::Prepare, 1, When::After);
}

#[test]
fn k10_a_third_call_that_does_not_fit_is_refused_before_anything_is_written() {
    let mut day = Day::begin(Plan::new(Way::Commit, Client::Retries));
    day.post();
    let (id, served) = day.start(Moment::Begin).unwrap();
    let all: std::collections::BTreeMap<_, _> =
        served.iter().map(|one| (*one, Status::Processed)).collect();
    let mut few = verdicts(&all);
    few.pop();
    let mut double = verdicts(&all);
    double.push(double[0].clone());
    for verdicts in [few, double] {
        let before = day.disk.syncs();
        let messages = vec![crate::clients::reply("never", "phone")];
        let reply = day.step(Moment::Narrow, id, Step::Prepare { verdicts, messages, digest: 1 });
        assert!(matches!(reply, Some(Reply::Cancelled(Cancelled::Unfit(_)))), "{reply:?}");
        assert_eq!(day.disk.syncs(), before, "something was written");
    }
    day.prepare(id, &served);
    day.rest();
}

#[test]
fn k11_a_commit_that_is_not_durable_is_asked_for_again() {
    through(Way::Commit, Moment::Report, 1, When::Before);
}

#[test]
fn k12_a_durable_commit_moves_its_files_after_the_restart() {
    through(Way::Commit, Moment::Report, 1, When::After);
}

#[test]
fn k13_a_commit_with_some_files_moved_goes_on_with_the_others() {
    for seed in 0..60 {
        for client in CLIENTS {
            let (moment, sync, when) = (Moment::FileReported, 1, When::Before);
            let blow = Some(Blow { moment, sync, when, keep: Keep::Seed(seed) });
            whole(Plan { blow, busy: seed % 2 == 0, ..Plan::new(Way::Commit, client) });
        }
    }
}

#[test]
fn k14_a_commit_with_all_files_moved_and_not_taken_down_is_done_after_the_restart() {
    through(Way::Commit, Moment::FileReported, 1, When::After);
}

#[test]
fn k15_a_commit_that_is_done_is_answered_ok_for_ever() {
    for keep in [Keep::Nothing, Keep::Everything] {
        let (moment, sync, when) = (Moment::FileReported, ALL, When::After);
        let blow = Some(Blow { moment, sync, when, keep });
        let mut day = whole(Plan { blow, ..Plan::new(Way::Commit, Client::Retries) });
        let (database, id) = (day.database(), day.ledger.transactions[0].id);
        for _ in 0..10 {
            let again = day.must(Ask::Process { database, id, step: Step::Commit });
            assert_eq!(again, Reply::Ok { deadline: None });
        }
        let phase = day.office().state().process(database, id).unwrap().phase;
        assert_eq!(phase, Phase::Done);
    }
}

#[test]
fn k16_a_file_that_was_moved_does_not_come_back_after_it_is_done() {
    through(Way::Commit, Moment::FileReported, ALL, When::After);
    through(Way::Commit, Moment::FileAcked, ALL, When::After);
}

#[test]
fn k17_a_rollback_with_some_replies_removed_removes_the_others() {
    for seed in 0..40 {
        for client in CLIENTS {
            let (moment, sync, when) = (Moment::FileReported, 1, When::Before);
            let blow = Some(Blow { moment, sync, when, keep: Keep::Seed(seed) });
            whole(Plan { blow, busy: true, ..Plan::new(Way::Rollback, client) });
        }
    }
}

#[test]
fn k18_a_rollback_whose_answer_is_lost_is_answered_again() {
    through(Way::Rollback, Moment::Report, 1, When::Before);
    through(Way::Rollback, Moment::Report, 1, When::After);
    through(Way::Interrupt, Moment::Report, 1, When::Before);
    through(Way::Interrupt, Moment::Report, 1, When::After);
}

#[test]
fn k19_an_expiry_and_a_third_call_never_both_win() {
    for when in [When::Before, When::After] {
        for keep in [Keep::Nothing, Keep::Everything, Keep::Seed(1), Keep::Seed(2)] {
            let (moment, sync) = (Moment::Expire, 1);
            let blow = Some(Blow { moment, sync, when, keep });
            let mut day = Day::begin(Plan { blow, ..Plan::new(Way::Commit, Client::Retries) });
            day.post();
            let (id, served) = day.start(Moment::Begin).unwrap();
            day.pass(Span::from_secs(700));
            assert!(day.step_tick().is_none());
            let database = day.database();
            let phase = day.office().state().process(database, id).unwrap().phase;
            day.prepare(id, &served);
            let transaction = day.ledger.transactions[0].committed;
            assert_eq!(transaction == Some(true), phase == Phase::Started, "{phase:?}");
            day.rest();
        }
    }
}

#[test]
fn k20_a_move_to_unknown_goes_on_and_what_is_said_later_counts() {
    through(Way::Silent, Moment::Expire, 1, When::Before);
    through(Way::Silent, Moment::Expire, 1, When::After);
    for seed in 0..30 {
        for client in CLIENTS {
            let (moment, sync, when) = (Moment::FileExpired, 1, When::Before);
            let blow = Some(Blow { moment, sync, when, keep: Keep::Seed(seed) });
            whole(Plan { blow, busy: true, ..Plan::new(Way::Silent, client) });
        }
    }
}

#[test]
fn k20_what_is_said_later_is_followed_wherever_it_is_cut() {
    for way in [Way::Silent, Way::SilentRollback] {
        for when in [When::Before, When::After] {
            through(way, Moment::Report, 1, when);
            through(way, Moment::FileReported, 1, when);
        }
        for seed in 0..30 {
            let (moment, sync, when) = (Moment::FileReported, 1, When::Before);
            let blow = Some(Blow { moment, sync, when, keep: Keep::Seed(seed) });
            whole(Plan { blow, busy: true, ..Plan::new(way, Client::Retries) });
        }
    }
}

#[test]
fn k21_a_crash_in_the_recovery_changes_nothing_of_it() {
    let after = [
        (Way::Commit, Moment::Report),
        (Way::Commit, Moment::FileReported),
        (Way::Rollback, Moment::Report),
        (Way::Silent, Moment::Expire),
    ];
    for (way, moment) in after {
        for sync in 1..=8 {
            for when in [When::Before, When::After] {
                for client in CLIENTS {
                    let keep = Keep::Seed(sync);
                    let first = Keep::Seed(sync + 100);
                    let blow = Some(Blow { moment, sync: 1, when: When::After, keep: first });
                    let reopen = Some((sync, when, keep));
                    whole(Plan { blow, reopen, busy: true, ..Plan::new(way, client) });
                }
            }
        }
    }
}

#[test]
fn k22_retention_removes_what_is_over_and_nothing_else_wherever_it_is_cut() {
    for when in [When::Before, When::After] {
        for seed in 0..10 {
            let mut day = whole(Plan::new(Way::Silent, Client::Gone));
            // A message that waits, and one that nobody decided.
            let device = day.device("acme");
            day.must(Ask::Post { device, messages: vec![message("waits")] });
            let now = day.now;
            assert!(day.office().file(now));
            day.pass(Span::from_secs(91 * 86_400));
            day.disk.halt_at_sync(day.disk.syncs() + 1 + seed % 3, when);
            let now = day.now;
            let office = day.office();
            if office.ask(Ask::Retain { many: 100 }, now).is_some() {
                office.file(now);
            }
            day.crash(Keep::Seed(seed));
            while day.must(Ask::Retain { many: 100 }) == Reply::More(true) {}
            let now = day.now;
            assert!(day.office().file(now));
            let state = day.office().state();
            let places: Vec<_> = state
                .messages_from(handoff_exchange::Seq(0))
                .map(|(_, one)| (one.id.to_string(), one.place))
                .collect();
            assert!(places.contains(&("waits".into(), Place::Messages)), "{places:?}");
            assert!(places.contains(&("good".into(), Place::Unknown)), "{places:?}");
            let over = |place: &Place| matches!(place, Place::Log | Place::Error);
            assert!(!places.iter().any(|(_, place)| over(place)), "{places:?}");
            let files = crate::checker::names(&day.disk.seen(), "db");
            let mut known: Vec<_> =
                places.iter().filter(|(name, _)| name != "theirs").cloned().collect();
            known.sort();
            assert_eq!(files, known);
        }
    }
}

#[test]
fn c1_an_erp_that_dies_before_the_third_call_leaves_its_messages_to_be_served_again() {
    let death = Some(Death::BeforePrepare);
    let day = whole(Plan { death, ..Plan::new(Way::Commit, Client::Gone) });
    assert!(day.was_told(Happened::Expired));
    assert_eq!(day.ledger.effects(&mid("good")), 1);
}

#[test]
fn c2_an_erp_that_dies_before_its_commit_is_served_again_or_its_messages_are_set_aside() {
    let death = Some(Death::BeforeCommit);
    let day = whole(Plan { death, ..Plan::new(Way::Commit, Client::Retries) });
    assert_eq!(day.ledger.effects(&mid("good")), 1);
    let day = whole(Plan { death, ..Plan::new(Way::Commit, Client::Gone) });
    assert!(day.was_told(Happened::Unknown));
    assert_eq!(day.ledger.effects(&mid("good")), 0);
}

#[test]
fn c3_an_erp_that_dies_after_its_commit_is_never_served_the_same_again() {
    let death = Some(Death::AfterCommit);
    for client in CLIENTS {
        let day = whole(Plan { death, ..Plan::new(Way::Commit, client) });
        assert_eq!(day.ledger.effects(&mid("good")), 1);
        assert_eq!(day.was_told(Happened::Unknown), client == Client::Gone);
    }
}

#[test]
fn c4_an_erp_that_slept_in_its_process_is_cancelled_and_the_newer_one_is_undisturbed() {
    let mut day = Day::begin(Plan::new(Way::Commit, Client::Retries));
    day.post();
    let (zombie, served) = day.start(Moment::Begin).unwrap();
    day.pass(Span::from_secs(7_200));
    day.must(Ask::Tick);
    let (newer, again) = day.start(Moment::Begin).unwrap();
    day.prepare(zombie, &served);
    assert_eq!(day.ledger.transactions[0].committed, Some(false));
    day.prepare(newer, &again);
    day.rest();
}

#[test]
fn c5_an_erp_that_slept_before_its_commit_may_still_commit_and_say_so() {
    let day = whole(Plan::new(Way::Silent, Client::Retries));
    assert!(day.was_told(Happened::Unknown) && day.was_told(Happened::Resolved));
    assert_eq!(day.ledger.effects(&mid("good")), 1);
}

#[test]
fn c6_of_two_erps_of_one_database_one_is_told_that_it_is_busy() {
    let mut day = Day::begin(Plan::new(Way::Commit, Client::Retries));
    day.post();
    let (id, served) = day.start(Moment::Begin).unwrap();
    let database = day.database();
    let second = day.must(Ask::Begin { database, wish: Wish::default() });
    assert!(matches!(second, Reply::Begun(Begun::Busy { .. })));
    day.prepare(id, &served);
    day.rest();
}

#[test]
fn c7_after_a_database_was_restored_what_it_lost_can_be_served_again() {
    let mut day = whole(Plan::new(Way::Commit, Client::Retries));
    let database = day.database();
    let device = day.device("acme");
    let seq = day.office().state().sent_by_device(device, &mid("good")).unwrap().0;
    let reply = day.must(Ask::Requeue { database, messages: vec![seq] });
    assert_eq!(reply, Reply::Requeued(1));
    let now = day.now;
    assert!(day.office().file(now));
    let files = crate::checker::names(&day.disk.seen(), "db");
    assert!(files.contains(&("good".into(), Place::Messages)), "{files:?}");
    let begun = day.must(Ask::Begin { database, wish: Wish::default() });
    let Reply::Begun(Begun::Started { messages, .. }) = begun else { panic!("{begun:?}") };
    assert_eq!(messages[0].seq, seq);
}

#[test]
fn c8_an_erp_that_does_not_know_whether_it_committed_reads_its_marker_and_says_so() {
    for death in [Death::BeforeCommit, Death::AfterCommit] {
        for keep in [Keep::Nothing, Keep::Everything] {
            let (moment, sync, when) = (Moment::FilePrepared, ALL, When::After);
            let blow = Some(Blow { moment, sync, when, keep });
            let death = Some(death);
            let day = whole(Plan { blow, death, ..Plan::new(Way::Commit, Client::Retries) });
            assert_eq!(day.ledger.effects(&mid("good")), 1);
        }
    }
}

#[test]
fn n1_to_n3_a_network_that_sends_everything_twice_changes_nothing() {
    for way in [Way::Commit, Way::Rollback, Way::Interrupt, Way::Silent] {
        for client in CLIENTS {
            whole(Plan { twice: true, ..Plan::new(way, client) });
        }
    }
}

#[test]
fn n4_a_second_call_that_comes_after_the_third_is_cancelled_and_harmless() {
    let mut day = Day::begin(Plan::new(Way::Silent, Client::Retries));
    day.post();
    let (id, served) = day.start(Moment::Begin).unwrap();
    let all: std::collections::BTreeMap<_, _> =
        served.iter().map(|one| (*one, Status::Processed)).collect();
    let step = Step::Prepare { verdicts: verdicts(&all), messages: Vec::new(), digest: 1 };
    assert!(matches!(day.step(Moment::Prepare, id, step), Some(Reply::Ok { .. })));
    let late = day.step(Moment::Narrow, id, Step::Narrow(vec![served[0]]));
    assert!(matches!(late, Some(Reply::Cancelled(Cancelled::Past { .. }))), "{late:?}");
    let database = day.database();
    let process = day.office().state().process(database, id).unwrap();
    assert_eq!((process.phase, process.to_erp.len()), (Phase::Ready, served.len()));
}

#[test]
fn n5_a_commit_that_overtakes_the_third_call_is_refused() {
    let mut day = Day::begin(Plan::new(Way::Commit, Client::Retries));
    day.post();
    let (id, served) = day.start(Moment::Begin).unwrap();
    let early = day.step(Moment::Report, id, Step::Commit);
    assert!(matches!(early, Some(Reply::Cancelled(Cancelled::NotPrepared(_)))), "{early:?}");
    day.prepare(id, &served);
    day.rest();
}

#[test]
fn t1_to_t3_a_clock_that_is_set_moves_no_deadline_and_a_long_sleep_ends_it_once() {
    for step in [-3_600_i64, 3_600] {
        let mut day = Day::begin(Plan::new(Way::Commit, Client::Retries));
        day.post();
        let (id, served) = day.start(Moment::Begin).unwrap();
        day.now.wall = Wall(day.now.wall.0 + step * 1_000_000);
        day.must(Ask::Tick);
        let database = day.database();
        assert_eq!(day.office().state().process(database, id).unwrap().phase, Phase::Started);
        day.crash(Keep::Nothing);
        day.must(Ask::Tick);
        day.prepare(id, &served);
        assert!(day.ledger.transactions[0].reported);
        day.rest();
    }
    let mut day = Day::begin(Plan::new(Way::Commit, Client::Gone));
    day.post();
    let (id, _) = day.start(Moment::Begin).unwrap();
    day.pass(Span::from_secs(5 * 3_600));
    day.must(Ask::Tick);
    day.must(Ask::Tick);
    let database = day.database();
    assert_eq!(day.office().state().process(database, id).unwrap().phase, Phase::Expired);
    day.rest();
}
