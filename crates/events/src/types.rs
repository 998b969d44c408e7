//! Types: shared names, and which events have them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use handoff_types::Pattern;

use crate::Id;

/// The types that events have. A name is kept once, however many events share it, and goes with
/// the last of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Types {
    names: BTreeMap<Arc<str>, BTreeSet<Id>>,
}

impl Types {
    /// The event has this type from now on; its name becomes the shared one.
    pub(crate) fn add(&mut self, name: &mut Arc<str>, id: Id) {
        if let Some((shared, _)) = self.names.get_key_value(name) {
            *name = Arc::clone(shared);
        }
        self.names.entry(Arc::clone(name)).or_default().insert(id);
    }

    /// The event has it no more.
    pub(crate) fn remove(&mut self, name: &str, id: Id) {
        if let Some(ids) = self.names.get_mut(name) {
            ids.remove(&id);
            if ids.is_empty() {
                self.names.remove(name);
            }
        }
    }

    /// Which events have it.
    pub(crate) fn ids(&self, name: &str) -> Option<&BTreeSet<Id>> {
        self.names.get(name)
    }

    /// The events of each type that matches a pattern; a type that matches several comes several
    /// times.
    pub(crate) fn matching<'a>(
        &'a self,
        patterns: &'a [Pattern],
    ) -> impl Iterator<Item = &'a BTreeSet<Id>> {
        patterns.iter().flat_map(|pattern| {
            let text = pattern.as_str();
            let first = text.strip_suffix('*').unwrap_or(text);
            self.names
                .range::<str, _>((Bound::Included(first), Bound::Unbounded))
                .take_while(|(name, _)| pattern.matches(name))
                .map(|(_, ids)| ids)
        })
    }
}
