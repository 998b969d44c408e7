//! Tables that stand in a list: `[[streams.topic]]`, `[[streams.group]]`, `[[calls.channel]]`.

use super::suggest;
use super::value::{Kind, Value};

/// What is declared, one table each.
pub(crate) trait Declared: Sized + 'static {
    /// The section it stands in.
    const SECTION: &'static str;
    /// What one is called, there and by people.
    const WORD: &'static str;
    /// Every key.
    const KEYS: &'static [DeclaredKey<Self>];

    /// One that says nothing but its name, which is still to come.
    fn blank() -> Self;
    /// What it is called.
    fn name(&self) -> String;
    /// What is wrong between keys that are each right.
    fn wrong(&self) -> Option<String> {
        None
    }
}

/// A key of such a table.
#[derive(Debug)]
pub(crate) struct DeclaredKey<T> {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it takes.
    pub(crate) kind: Kind,
    /// One line for people.
    pub(crate) doc: &'static str,
    /// Its value, unset if it says nothing.
    pub(crate) get: fn(&T) -> Value,
    /// Puts a value in.
    pub(crate) put: fn(&mut T, Value) -> Result<(), String>,
}

macro_rules! declared_key {
    ($name:ident: $kind:expr, $($field:ident).+, $doc:literal) => {
        $crate::config::declared::DeclaredKey {
            name: stringify!($name),
            kind: $kind,
            doc: $doc,
            get: |one| one.$($field).+.value(),
            put: |one, value| {
                one.$($field).+.put(value);
                Ok(())
            },
        }
    };
}
pub(super) use declared_key;

/// The key of this name.
pub(crate) fn find<T: Declared>(name: &str) -> Option<&'static DeclaredKey<T>> {
    T::KEYS.iter().find(|key| key.name == name)
}

/// What somebody probably meant by a key that the table does not have.
pub(crate) fn unknown_help<T: Declared>(name: &str) -> String {
    let names = || T::KEYS.iter().map(|key| key.name);
    match suggest::nearest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the keys are {}", names().collect::<Vec<_>>().join(", ")),
    }
}

/// One with these values, for people who begin.
pub(super) fn with<T: Declared>(values: impl IntoIterator<Item = (&'static str, Value)>) -> T {
    let mut one = T::blank();
    for (name, value) in values {
        let put = find::<T>(name).map(|key| (key.put)(&mut one, value));
        debug_assert_eq!(put, Some(Ok(())), "{name}");
    }
    one
}

/// One as it is written into a file.
pub(crate) fn toml<T: Declared>(one: &T) -> String {
    let mut text = format!("[[{}.{}]]\n", T::SECTION, T::WORD);
    for key in T::KEYS {
        if let Some(value) = key.kind.toml(&(key.get)(one)) {
            text += &format!("{} = {value}\n", key.name);
        }
    }
    text
}
