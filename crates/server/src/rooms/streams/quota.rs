//! How much a token may send.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use handoff_house::TokenId;
use handoff_types::Steady;

use crate::rooms::RoomError;

/// Accounts kept before those that owe nothing are forgotten.
const ACCOUNTS_MAX: usize = 10_000;

/// An account per token; while auth is off all share one.
///
/// A token has up to a second's worth saved. Whoever has anything left may send, whatever its size,
/// and owes the rest: otherwise a request larger than a second's worth could never be sent.
#[derive(Debug, Default)]
pub(super) struct Quotas(Mutex<HashMap<Option<TokenId>, Account>>);

#[derive(Clone, Copy, Debug)]
struct Account {
    /// Micro-bytes that are left; negative if some are owed.
    left: i128,
    at: Steady,
}

const MICRO: i128 = 1_000_000;

impl Quotas {
    /// Takes bytes from a token's account; `rate` is bytes a second, 0: no limit.
    pub(super) fn charge(
        &self,
        token: Option<&TokenId>,
        bytes: usize,
        rate: u64,
        now: Steady,
    ) -> Result<(), RoomError> {
        if rate == 0 {
            return Ok(());
        }
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = i128::from(rate) * MICRO;
        let grown = |account: &Account| {
            let earned = i128::from(now.since(account.at).0) * i128::from(rate);
            Account { left: (account.left + earned).min(full), at: now }
        };
        if accounts.len() >= ACCOUNTS_MAX {
            accounts.retain(|_, account| grown(account).left < full);
        }
        let account = accounts.entry(token.cloned()).or_insert(Account { left: full, at: now });
        *account = grown(account);
        if account.left <= 0 {
            let missing = u64::try_from(-account.left / full).unwrap_or(u64::MAX);
            let seconds = u32::try_from(missing).unwrap_or(u32::MAX).saturating_add(1);
            return Err(RoomError::Quota { rate, seconds });
        }
        account.left -= i128::try_from(bytes).unwrap_or(i128::MAX / MICRO) * MICRO;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Quotas;
    use crate::rooms::RoomError;
    use handoff_house::TokenId;
    use handoff_types::Steady;

    fn at(millis: u64) -> Steady {
        Steady(millis * 1_000)
    }

    #[test]
    fn a_token_sends_its_rate_and_a_second_ahead() {
        let (quotas, token) = (Quotas::default(), TokenId("a".into()));
        let charge = |bytes, millis| quotas.charge(Some(&token), bytes, 1_000, at(millis));
        charge(600, 0).unwrap();
        charge(600, 0).unwrap();
        let refused = charge(1, 0).unwrap_err();
        assert!(matches!(refused, RoomError::Quota { rate: 1_000, seconds: 1 }), "{refused:?}");
        assert!(charge(1, 200).is_err(), "what is owed is earned first");
        charge(1, 201).unwrap();
        let other = TokenId("b".into());
        quotas.charge(Some(&other), 1, 1_000, at(0)).unwrap();
    }

    #[test]
    fn a_request_above_a_seconds_worth_is_taken_and_owed() {
        let quotas = Quotas::default();
        quotas.charge(None, 5_500, 1_000, at(0)).unwrap();
        let refused = quotas.charge(None, 1, 1_000, at(0)).unwrap_err();
        assert!(matches!(refused, RoomError::Quota { seconds: 5, .. }), "{refused:?}");
        assert!(quotas.charge(None, 1, 1_000, at(4_400)).is_err());
        quotas.charge(None, 1, 1_000, at(4_501)).unwrap();
    }

    #[test]
    fn without_a_rate_nothing_is_counted() {
        let quotas = Quotas::default();
        quotas.charge(None, usize::MAX, 0, at(0)).unwrap();
        quotas.charge(None, 1, 1, at(0)).unwrap();
    }
}
