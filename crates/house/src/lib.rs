//! What belongs to no room: tokens and the record of administrative acts.
//!
//! # Rules
//! * A token is never stored. Kept are its SHA-256, and verifiers for SCRAM, because the token
//!   itself is never seen again.
//! * Two tokens never share an id or a digest. A revoked token stays revoked: its text
//!   cannot be made a token again, whatever else happens, until [`REVOKED_KEPT`] others have been
//!   revoked. An expired one is as good as revoked, and is still listed.
//! * Every administrative act is a record: who, when, what. Acts are numbered from 1 without a gap
//!   and a number is never used again. The last [`ACTS_KEPT`] are kept.
//! * Nothing here is refused for want of good words in an act: what happened is noted, its words
//!   cut to fit.

mod act;
mod decide;
mod state;
mod token;

pub use act::{Act, ActKind, TARGET_BYTES_MAX, WHO_BYTES_MAX};
pub use decide::{Change, Command, House, Refusal, Reply};
pub use state::{ACTS_KEPT, REVOKED_KEPT, State, TOKENS_MAX};
pub use token::{
    Digest, NAME_BYTES_MAX, NewToken, SCOPES_MAX, Token, TokenId, VERIFIER_FIELD_BYTES_MAX,
    Verifier,
};
