//! The tokens that open doors.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use handoff_house::{Digest, Token};

/// Tokens by digest, for everybody who asks. One task changes it.
#[derive(Default)]
pub(super) struct Keys {
    tokens: RwLock<HashMap<Digest, Arc<Token>>>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("tokens", &self.read().len()).finish()
    }
}

impl Keys {
    pub(super) fn new<'a>(tokens: impl Iterator<Item = &'a Token>) -> Self {
        let tokens = tokens.map(|token| (token.token.digest, Arc::new(token.clone())));
        Self { tokens: RwLock::new(tokens.collect()) }
    }

    pub(super) fn find(&self, digest: &Digest) -> Option<Arc<Token>> {
        self.read().get(digest).cloned()
    }

    pub(super) fn any(&self, is: impl Fn(&Token) -> bool) -> bool {
        self.read().values().any(|token| is(token))
    }

    pub(super) fn put(&self, token: Token) {
        self.write().insert(token.token.digest, Arc::new(token));
    }

    pub(super) fn remove(&self, digest: &Digest) {
        self.write().remove(digest);
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Digest, Arc<Token>>> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Digest, Arc<Token>>> {
        self.tokens.write().unwrap_or_else(PoisonError::into_inner)
    }
}
