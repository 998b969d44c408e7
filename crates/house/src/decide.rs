//! The rules.

use handoff_types::{Decision, Entropy, Machine, Now, Scope, Steady, Wall};
use thiserror::Error;

use crate::act::fit;
use crate::{
    Act, ActKind, Digest, NAME_BYTES_MAX, NewToken, SCOPES_MAX, State, TARGET_BYTES_MAX,
    TOKENS_MAX, Token, TokenId, VERIFIER_FIELD_BYTES_MAX, Verifier, WHO_BYTES_MAX,
};

/// What is asked. `who` is the acting token's id, or `local`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Keep a token.
    Create {
        /// Which.
        token: Box<NewToken>,
        /// Who asks.
        who: String,
    },
    /// Forget a token.
    Revoke {
        /// Which.
        id: TokenId,
        /// Who asks.
        who: String,
    },
    /// Note an act that happened elsewhere.
    Note {
        /// What.
        kind: ActKind,
        /// To what, in words.
        target: String,
        /// Who.
        who: String,
    },
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done.
    Done,
    /// Nothing changed.
    Refused(Refusal),
}

/// Why nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such token.
    #[error("there is no token {0}")]
    NoToken(String),
    /// The id or the digest is taken; draw again.
    #[error("a token with this id is there already")]
    Taken,
    /// It was revoked, and stays so.
    #[error("token {0} was revoked and stays so; make another")]
    Revoked(String),
    /// The name is empty or too long, there is no scope or there are too many.
    #[error("{0}")]
    Invalid(String),
    /// As many tokens as are kept.
    #[error("there are {0} tokens, as many as are kept; revoke some")]
    Full(usize),
}

/// What becomes true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A token is there.
    Created(Box<Token>),
    /// A token is gone.
    Revoked(TokenId),
    /// A token's text is of no use any more.
    Barred {
        /// Counts revocations, from 1.
        number: u64,
        /// The token's digest.
        digest: Digest,
    },
    /// An act happened.
    Acted(Act),
}

/// The machine of the house.
#[derive(Clone, Copy, Debug)]
pub enum House {}

impl Machine for House {
    type State = State;
    type Command = Command;
    type Change = Change;
    type Reply = Reply;
    type Action = std::convert::Infallible;

    fn decide(
        state: &State,
        command: &Command,
        now: Now,
        _: Entropy,
    ) -> Decision<Reply, Change, Self::Action> {
        let (mut changes, kind, target, who) = match command {
            Command::Create { token, who } => {
                if let Err(refusal) = admit(state, token, now.wall) {
                    return refused(refusal);
                }
                let target = format!("{} {}", token.id, token.name);
                let token = Token { token: (**token).clone(), created: now.wall };
                (vec![Change::Created(Box::new(token))], ActKind::TokenCreated, target, who)
            }
            Command::Revoke { id, who } => {
                let Some(token) = state.token(id) else {
                    return refused(Refusal::NoToken(fit(&id.0, WHO_BYTES_MAX)));
                };
                let target = format!("{id} {}", token.token.name);
                let (number, digest) = (state.next_revocation(), token.token.digest);
                let changes = vec![Change::Revoked(id.clone()), Change::Barred { number, digest }];
                (changes, ActKind::TokenRevoked, target, who)
            }
            Command::Note { kind, target, who } => (Vec::new(), *kind, target.clone(), who),
        };
        let act = Act {
            number: state.next_act(),
            at: now.wall,
            who: fit(who, WHO_BYTES_MAX),
            kind,
            target: fit(&target, TARGET_BYTES_MAX),
        };
        changes.push(Change::Acted(act));
        Decision { reply: Reply::Done, changes, actions: Vec::new() }
    }

    fn evolve(state: &mut State, change: &Change) {
        match change {
            Change::Created(token) => state.put((**token).clone()),
            Change::Revoked(id) => state.remove(id),
            Change::Barred { number, digest } => state.bar(*number, *digest),
            Change::Acted(act) => state.note(act.clone()),
        }
    }

    fn next_deadline(_: &State, _: Now) -> Option<Steady> {
        None
    }
}

fn refused(refusal: Refusal) -> Decision<Reply, Change, std::convert::Infallible> {
    Decision { reply: Reply::Refused(refusal), changes: Vec::new(), actions: Vec::new() }
}

fn admit(state: &State, token: &NewToken, wall: Wall) -> Result<(), Refusal> {
    check(token).map_err(Refusal::Invalid)?;
    if token.expires.is_some_and(|end| end <= wall) {
        let words = "the token would have expired already; give a time that is still to come";
        return Err(Refusal::Invalid(words.to_owned()));
    }
    if state.token(&token.id).is_some() || state.holder(&token.digest).is_some() {
        return Err(Refusal::Taken);
    }
    if state.was_revoked(&token.id, &token.digest) {
        return Err(Refusal::Revoked(token.id.to_string()));
    }
    if state.token_count() >= TOKENS_MAX {
        return Err(Refusal::Full(TOKENS_MAX));
    }
    Ok(())
}

fn check(token: &NewToken) -> Result<(), String> {
    if !TokenId::fits(&token.id.0) {
        let length = TokenId::LENGTH;
        return Err(format!("an id is {length} lowercase letters and digits"));
    }
    let name = &token.name;
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(format!(
            "a token's name has 1 to {NAME_BYTES_MAX} bytes and no control characters"
        ));
    }
    if token.scopes.is_empty() || token.scopes.len() > SCOPES_MAX {
        return Err(format!("a token has 1 to {SCOPES_MAX} scopes"));
    }
    // A scope is kept as its text.
    let unwritable = |scope: &&Scope| scope.to_string().parse().as_ref() != Ok(*scope);
    if let Some(scope) = token.scopes.iter().find(unwritable) {
        return Err(format!("`{scope}` is no scope"));
    }
    [&token.sha256, &token.sha512].into_iter().try_for_each(check_verifier)
}

fn check_verifier(verifier: &Verifier) -> Result<(), String> {
    let fields = [&verifier.salt, &verifier.stored_key, &verifier.server_key];
    if fields.iter().any(|field| field.len() > VERIFIER_FIELD_BYTES_MAX) {
        return Err(format!("a field of a verifier has at most {VERIFIER_FIELD_BYTES_MAX} bytes"));
    }
    Ok(())
}
