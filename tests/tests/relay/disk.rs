//! A disk without space: a real one.

use handoff_tests::place::Place;
use handoff_tests::relay::{Centre, Den, Manner};
use handoff_tests::small_disk::SmallDisk;

#[test]
fn an_agent_whose_disk_is_full_says_so_and_goes_on_by_itself_when_there_is_space() {
    let place = Place::temporary().unwrap();
    let disk = SmallDisk::new(place.path(), 16).unwrap();
    let centre = Centre::new().unwrap();
    // Its directory is there, its log is not.
    let home = place.path().join("home");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::create_dir_all(disk.path().join("data")).unwrap();
    std::os::unix::fs::symlink(disk.path().join("data"), home.join("data")).unwrap();
    let den = Den::new(&home, &[("one", centre.address)]).unwrap();
    let agent = den.agent(&["--set", "relay.promise_secs_max=1s"]).unwrap();
    centre.behave(Manner::Gone);
    let sample = |n: i64| vec![("s".to_owned(), n, n.unsigned_abs())];
    assert_eq!(agent.post(&sample(0)).unwrap().status, 204);
    let mut sent = sample(0);
    disk.fill().unwrap();
    // What is taken before anybody knows is answered late, and arrives all the same.
    let mut number = 0;
    let ready = || agent.connect().unwrap().ask("GET", "/readyz", None).unwrap();
    let mut refused = 0;
    while refused < 3 || ready().status != 503 {
        number += 1;
        let answer = agent.post(&sample(number)).unwrap();
        match answer.status {
            429 => refused += 1,
            // A part of a block that is left.
            204 | 503 => sent.extend(sample(number)),
            status => panic!("{status}"),
        }
        assert!(number < 1_000, "it never says that its disk is full");
    }
    assert_eq!(agent.metric("handoff_relay_disk_failing").unwrap(), Some(1.0));
    assert!(agent.metric("handoff_relay_disk_failures_total").unwrap() > Some(0.0));
    disk.relieve().unwrap();
    while agent.post(&sample(number + 1)).unwrap().status != 204 {}
    sent.extend(sample(number + 1));
    assert_eq!(ready().status, 200);
    centre.behave(Manner::Takes);
    centre.wait_for(sent.len());
    let taken = centre.taken();
    assert!(sent.iter().all(|sample| taken.contains_key(sample)), "{sent:?} {taken:?}");
    den.wait_until(<[String]>::is_empty);
    agent.stop().unwrap();
}
