use handoff_exchange::{Admin, Ask, Refusal, Reply};
use handoff_types::{Span, Wall};

use crate::world::{World, id, message};

#[test]
fn a_database_belongs_to_one_company_for_ever() {
    let mut world = World::new();
    let name: Box<str> = "".into();
    world.admin(Admin::PutCompany { id: id("other"), name: name.clone() });
    let put = Admin::PutDatabase { id: id("db"), company: id("other"), name };
    world.unchanged(|world| {
        assert!(matches!(world.admin(put), Reply::Refused(Refusal::Taken { .. })));
    });
}

#[test]
fn a_route_leads_to_a_database_of_the_same_company_only() {
    let mut world = World::new();
    world.company("other", "db2");
    let (company, subsystem) = (id("acme"), id("stock"));
    let put = Admin::PutRoute { company, subsystem, database: id("db2") };
    world.unchanged(|world| {
        assert!(matches!(world.admin(put), Reply::Refused(Refusal::NotFound { .. })));
    });
}

#[test]
fn what_something_needs_is_not_removed() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let company = || id("acme");
    for admin in [
        Admin::RemoveCompany(company()),
        Admin::RemoveSubsystem(id("stock")),
        Admin::RemoveDatabase(id("db")),
        Admin::RemoveDevice { company: company(), id: id("a") },
    ] {
        world.unchanged(|world| {
            assert!(matches!(world.admin(admin), Reply::Refused(Refusal::InUse { .. })));
        });
    }
    let device = Admin::RemoveDevice { company: company(), id: id("b") };
    assert_eq!(world.admin(device), Reply::Done);
}

#[test]
fn names_of_two_companies_do_not_meet() {
    let mut world = World::new();
    world.company("other", "db2");
    let theirs = world.device("other", "a");
    let ours = world.no("a");
    assert_ne!(theirs, ours);
    world.ask(Ask::Post { device: theirs, messages: vec![message("m1")] });
    assert_eq!(world.state.counts(world.db()).to_erp, 0);
    assert!(world.state.sent_by_device(ours, &"m1".parse().unwrap()).is_none());
}

#[test]
fn a_code_activates_once_and_not_after_its_time() {
    let mut world = World::new();
    let (company, device) = (id("acme"), id("b"));
    let expires = Wall(world.now.wall.0 + 1_000_000);
    let give = Admin::DeviceCode { company, id: device, code: [1; 32], expires };
    world.admin(give.clone());
    let before = world.state.device(world.no("b")).unwrap().token;
    assert!(matches!(
        world.ask(Ask::Activate { code: [1; 32], token: [2; 32] }),
        Reply::Activated(_)
    ));
    assert!(world.state.device_by_token(&before.unwrap()).is_none(), "the old token opens nothing");
    let again = Ask::Activate { code: [1; 32], token: [3; 32] };
    assert_eq!(world.ask(again.clone()), Reply::Refused(Refusal::WrongCode));
    world.admin(give);
    world.pass(Span::from_secs(1));
    assert_eq!(world.ask(again), Reply::Refused(Refusal::WrongCode));
}

#[test]
fn an_activation_leaves_the_address_as_it_was() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let no = world.no("a");
    assert_eq!(world.device("acme", "a"), no);
    assert_eq!(world.state.count_of_device(no), 1);
}
