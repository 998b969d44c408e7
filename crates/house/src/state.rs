//! What the house knows.

use std::collections::{BTreeMap, BTreeSet};

use handoff_types::Wall;

use crate::{Act, ActKind, Digest, Token, TokenId};

/// How many acts are kept.
pub const ACTS_KEPT: usize = 10_000;

/// How many tokens are kept, expired ones included.
pub const TOKENS_MAX: usize = 10_000;

/// How many revocations are remembered. Only a token whose text is written down somewhere, in a
/// bootstrap file above all, could come back, and only after so many others were revoked.
pub const REVOKED_KEPT: usize = 100_000;

/// Tokens, revocations and acts.
///
/// Each token, each revocation and each act is an aggregate of its own. What the others are never
/// matters to one: the revocations and acts that are kept follow from their numbers alone, whatever
/// order they were put in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    tokens: BTreeMap<TokenId, Token>,
    /// Pairs instead of a map, because a state that is put together from parts of different ages
    /// may hold two tokens of one digest for a while.
    digests: BTreeSet<(Digest, TokenId)>,
    revoked: BTreeMap<u64, Digest>,
    /// The same, by digest.
    revoked_digests: BTreeSet<(Digest, u64)>,
    acts: BTreeMap<u64, Act>,
}

impl State {
    /// The token with this digest, unless it has expired.
    #[must_use]
    pub fn by_digest(&self, digest: &Digest, wall: Wall) -> Option<&Token> {
        self.holder(digest).filter(|token| !token.is_expired(wall))
    }

    /// A token.
    #[must_use]
    pub fn token(&self, id: &TokenId) -> Option<&Token> {
        self.tokens.get(id)
    }

    /// All tokens, by id.
    pub fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.tokens.values()
    }

    /// The tokens from an id on, by id.
    pub fn tokens_from(&self, id: &str) -> impl Iterator<Item = &Token> {
        let from = std::ops::Bound::Included(id);
        self.tokens.range::<str, _>((from, std::ops::Bound::Unbounded)).map(|(_, token)| token)
    }

    /// Acts, the latest first.
    pub fn acts(&self) -> impl Iterator<Item = &Act> {
        self.acts.values().rev()
    }

    /// Acts below a number, the latest first.
    pub fn acts_below(&self, number: u64) -> impl Iterator<Item = &Act> {
        self.acts.range(..number).map(|(_, act)| act).rev()
    }

    /// Acts from a number on, the earliest first.
    pub fn acts_from(&self, number: u64) -> impl Iterator<Item = &Act> {
        self.acts.range(number..).map(|(_, act)| act)
    }

    /// Revocations from a number on, the earliest first: their numbers and what was revoked.
    pub fn revoked_from(&self, number: u64) -> impl Iterator<Item = (u64, &Digest)> {
        self.revoked.range(number..).map(|(number, digest)| (*number, digest))
    }

    /// Whether this token was revoked, as far as that is remembered.
    #[must_use]
    pub fn was_revoked(&self, id: &TokenId, digest: &Digest) -> bool {
        let first = self.revoked_digests.range((*digest, 0)..).next();
        // Revocations of directories that were written before they were kept are acts only.
        first.is_some_and(|(found, _)| found == digest) || self.is_revoked_by_an_act(id)
    }

    fn is_revoked_by_an_act(&self, id: &TokenId) -> bool {
        let names = |act: &Act| act.target.split(' ').next() == Some(&*id.0);
        self.acts.values().any(|act| act.kind == ActKind::TokenRevoked && names(act))
    }

    /// The number of the next act. The latest act is always kept, so it counts.
    pub(crate) fn next_act(&self) -> u64 {
        self.acts.last_key_value().map_or(1, |(number, _)| number.saturating_add(1))
    }

    /// The number of the next revocation. The latest is always kept, so it counts.
    pub(crate) fn next_revocation(&self) -> u64 {
        self.revoked.last_key_value().map_or(1, |(number, _)| number.saturating_add(1))
    }

    pub(crate) fn token_count(&self) -> usize {
        self.tokens.len()
    }

    /// Whoever has this digest, expired or not.
    pub(crate) fn holder(&self, digest: &Digest) -> Option<&Token> {
        let first = (*digest, TokenId("".into()));
        let (found, id) = self.digests.range(first..).next()?;
        self.tokens.get(id).filter(|_| found == digest)
    }

    pub(crate) fn put(&mut self, token: Token) {
        let id = token.token.id.clone();
        self.remove(&id);
        self.digests.insert((token.token.digest, id.clone()));
        self.tokens.insert(id, token);
    }

    pub(crate) fn remove(&mut self, id: &TokenId) {
        if let Some(gone) = self.tokens.remove(id) {
            self.digests.remove(&(gone.token.digest, gone.token.id));
        }
    }

    /// Remembers a revocation and forgets those that are too far behind the latest, as
    /// [`Self::note`] does.
    pub(crate) fn bar(&mut self, number: u64, digest: Digest) {
        if let Some(before) = self.revoked.insert(number, digest) {
            self.revoked_digests.remove(&(before, number));
        }
        self.revoked_digests.insert((digest, number));
        let latest = self.revoked.last_key_value().map_or(0, |(number, _)| *number);
        let kept_from = latest.saturating_sub(REVOKED_KEPT as u64 - 1);
        while let Some(entry) = self.revoked.first_entry().filter(|e| *e.key() < kept_from) {
            let (number, digest) = entry.remove_entry();
            self.revoked_digests.remove(&(digest, number));
        }
    }

    /// Notes an act and forgets those that are too far behind the latest. By number and not by
    /// count: parts of different ages leave gaps, and what lies before one is too old.
    pub(crate) fn note(&mut self, act: Act) {
        self.acts.insert(act.number, act);
        let latest = self.acts.last_key_value().map_or(0, |(number, _)| *number);
        let kept_from = latest.saturating_sub(ACTS_KEPT as u64 - 1);
        while self.acts.first_key_value().is_some_and(|(number, _)| *number < kept_from) {
            self.acts.pop_first();
        }
    }
}
