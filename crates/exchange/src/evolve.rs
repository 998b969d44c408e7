//! Changes made true.

use crate::{Change, State};

pub(crate) fn evolve(state: &mut State, change: &Change) {
    match change {
        Change::Counted(counters) => state.set_counters(*counters),
        Change::Company(company) => state.put_company(company.clone()),
        Change::CompanyGone(no) => state.remove_company(*no),
        Change::Subsystem(subsystem) => state.put_subsystem(subsystem.clone()),
        Change::SubsystemGone(no) => state.remove_subsystem(*no),
        Change::Database(database) => state.put_database(database.clone()),
        Change::DatabaseGone(no) => state.remove_database(*no),
        Change::Device(device) => state.put_device(device.clone()),
        Change::DeviceGone(no) => state.remove_device(*no),
        Change::Route(route) => state.put_route(*route),
        Change::RouteGone(company, subsystem) => state.remove_route(*company, *subsystem),
        Change::Accepted { seq, message, body: _ } => state.put_message(*seq, (**message).clone()),
        Change::Placed { seq, place, since, standing, attempts, silences } => {
            state.change_message(*seq, |message| {
                message.place = *place;
                message.since = *since;
                message.standing = standing.clone();
                message.attempts = *attempts;
                message.silences = *silences;
            });
        }
        Change::Forgotten(seq) => state.remove_message(*seq),
        Change::Begun(process) => state.put_process(process.clone()),
        Change::Narrowed { number, to_erp, keyed } => state.change_process(*number, |process| {
            process.to_erp.clone_from(to_erp);
            process.request_key = process.request_key.take().filter(|_| *keyed);
        }),
        Change::Extended { number, deadline } => {
            state.change_process(*number, |process| process.deadline = *deadline);
        }
        Change::Ready { number, to_erp, from_erp, digest, ready, deadline, lease } => {
            state.change_process(*number, |process| {
                process.phase = crate::Phase::Ready;
                process.to_erp.clone_from(to_erp);
                process.from_erp.clone_from(from_erp);
                process.request_key = None;
                process.digest = *digest;
                process.ready = Some(*ready);
                process.deadline = *deadline;
                process.lease = *lease;
            });
        }
        Change::Turned { number, phase, ended, words, settled } => {
            state.change_process(*number, |process| {
                process.phase = *phase;
                process.ended = *ended;
                process.words.clone_from(words);
                process.settled = *settled;
                if phase.is_over() {
                    // The log has it; these are kept for months.
                    process.to_erp.iter_mut().for_each(|served| served.error = None);
                }
            });
        }
        Change::Contradicted(number) => {
            state.change_process(*number, |process| process.contradicted = true);
        }
        Change::ProcessForgotten(number) => state.remove_process(*number),
        Change::Logged(entry) => state.note(entry.clone()),
    }
}
