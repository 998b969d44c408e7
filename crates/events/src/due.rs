//! One timer for all events: two ordered sets, because there are two clocks.
//!
//! An event that waits costs its place in one of them and nothing else.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use handoff_types::{Now, Steady, Wall};

use crate::{Due, Id};

/// When each event is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dues {
    steady: BTreeSet<(Steady, Id)>,
    wall: BTreeSet<(Wall, Id)>,
}

impl Dues {
    pub(crate) fn insert(&mut self, due: Due, id: Id) {
        match due {
            Due::Steady(due) => self.steady.insert((due, id)),
            Due::Wall(due) => self.wall.insert((due, id)),
        };
    }

    pub(crate) fn remove(&mut self, due: Due, id: Id) {
        match due {
            Due::Steady(due) => self.steady.remove(&(due, id)),
            Due::Wall(due) => self.wall.remove(&(due, id)),
        };
    }

    /// When the first of them is due, in steady time.
    pub(crate) fn first(&self, now: Now) -> Option<Steady> {
        let steady = self.steady.first().map(|(due, _)| *due);
        let wall = self.wall.first().map(|(due, _)| now.steady + due.since(now.wall));
        steady.into_iter().chain(wall).min()
    }

    /// Whether any event runs on the operator's clock.
    pub(crate) fn by_wall(&self) -> bool {
        !self.wall.is_empty()
    }

    /// What is due, the longest due first.
    pub(crate) fn until(&self, now: Now) -> impl Iterator<Item = Id> {
        let steady = self.steady.range(..=(now.steady, Id::LAST));
        let wall = self.wall.range(..=(now.wall, Id::LAST));
        let mut steady = steady.map(move |(due, id)| (Reverse(now.steady.since(*due)), *id));
        let mut wall = wall.map(move |(due, id)| (Reverse(now.wall.since(*due)), *id));
        let (mut by_steady, mut by_wall) = (steady.next(), wall.next());
        std::iter::from_fn(move || {
            let steady_is_next = match (&by_steady, &by_wall) {
                (Some(steady), Some(wall)) => steady < wall,
                (steady, _) => steady.is_some(),
            };
            let next = if steady_is_next {
                std::mem::replace(&mut by_steady, steady.next())
            } else {
                std::mem::replace(&mut by_wall, wall.next())
            };
            next.map(|(_, id)| id)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> Id {
        Id::new(number).unwrap()
    }

    fn filled() -> Dues {
        let mut dues = Dues::default();
        dues.insert(Due::Steady(Steady(90)), id(1));
        dues.insert(Due::Wall(Wall(1_080)), id(2));
        dues.insert(Due::Steady(Steady(70)), id(3));
        dues.insert(Due::Wall(Wall(1_090)), id(0));
        dues.insert(Due::Steady(Steady(101)), id(4));
        dues.insert(Due::Wall(Wall(1_101)), id(5));
        dues
    }

    const NOW: Now = Now { wall: Wall(1_100), steady: Steady(100) };

    #[test]
    fn what_is_due_comes_the_longest_due_first_whatever_its_clock() {
        let due: Vec<u32> = filled().until(NOW).map(Id::number).collect();
        assert_eq!(due, [3, 2, 0, 1]);
    }

    #[test]
    fn the_next_deadline_is_the_nearer_of_both_clocks() {
        let mut dues = filled();
        for (due, number) in [(70, 3), (90, 1)] {
            dues.remove(Due::Steady(Steady(due)), id(number));
        }
        assert_eq!(dues.first(NOW), Some(Steady(100)), "what is overdue is due now");
        dues.remove(Due::Wall(Wall(1_080)), id(2));
        dues.remove(Due::Wall(Wall(1_090)), id(0));
        assert_eq!(dues.first(NOW), Some(Steady(101)));
        assert_eq!(dues.first(Now { wall: Wall(1_000), ..NOW }), Some(Steady(101)));
        dues.remove(Due::Steady(Steady(101)), id(4));
        assert_eq!(dues.first(Now { wall: Wall(1_000), ..NOW }), Some(Steady(201)));
        dues.remove(Due::Wall(Wall(1_101)), id(5));
        assert_eq!(dues.first(NOW), None);
        assert_eq!(dues, Dues::default());
    }
}
