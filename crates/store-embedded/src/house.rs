//! The house on embedded storage.
//!
//! ```text
//! change    │ kind u8 │ …      1 created │ token     2 revoked │ id     3 acted │ act
//!                              4 barred │ number u64 │ digest 32
//! token     │ id │ name │ scopes u8 │ scope × scopes │ digest 32 │ verifier │ verifier │ expires │ created i64
//! verifier  │ iterations u32 │ salt │ stored key │ server key      of SCRAM-SHA-256, then -512
//! expires   │ 0 │  or  │ 1 │ i64 │
//! act       │ number u64 │ at i64 │ kind u8 │ who │ target
//! chunk     │ change × n     created, acted and barred only, by key
//!
//! key       │ "a/" │ number u64, big-endian │      an act
//!           │ "r/" │ number u64, big-endian │      a revocation
//!           │ "t/" │ id │                          a token
//! ```
//!
//! Texts and byte strings are a u16 length and their bytes, a scope is its text; numbers are
//! little-endian, times microseconds. A kind never gets another meaning: whatever is to be said
//! in another way gets a new one.
//!
//! # Why replay finds the same state
//! A change touches the aggregate under its own key, with one exception: an act also makes the
//! act [`ACTS_KEPT`] before it forgotten. That needs no key, because which acts are kept follows
//! from the highest number alone ([`House::evolve`]): an old act that a chunk still has goes as
//! soon as the latest one is there, from whichever chunk or record. For the same reason the count
//! of acts needs no aggregate: it is the number of the latest act, which is always kept. All of
//! this is true of revocations and [`REVOKED_KEPT`] too.

use bytes::Bytes;
use handoff_house::{
    ACTS_KEPT, Act, ActKind, Change, Digest, House, NewToken, REVOKED_KEPT, State, Token, TokenId,
    Verifier,
};
use handoff_types::{Machine, Room, Scope, Wall};

use crate::persist::{Frame, Persist, Undecodable};

const CREATED: u8 = 1;
const REVOKED: u8 = 2;
const ACTED: u8 = 3;
const BARRED: u8 = 4;

const ACTS: &[u8] = b"a/";
const REVOCATIONS: &[u8] = b"r/";
const TOKENS: &[u8] = b"t/";

// The latest act and the latest revocation are always kept, or numbers would begin again.
const _: () = assert!(ACTS_KEPT > 0 && REVOKED_KEPT > 0);

impl Persist for House {
    const ROOM: Room = Room::House;

    fn encode_change(change: &Change, out: &mut Vec<u8>) {
        match change {
            Change::Created(token) => {
                out.push(CREATED);
                put_token(out, token);
            }
            Change::Revoked(id) => {
                out.push(REVOKED);
                put(out, id.0.as_bytes());
            }
            Change::Acted(act) => {
                out.push(ACTED);
                put_act(out, act);
            }
            Change::Barred { number, digest } => {
                out.push(BARRED);
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(digest);
            }
        }
    }

    fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), Undecodable> {
        let mut front = Front(bytes);
        let change = match front.byte()? {
            CREATED => Change::Created(Box::new(front.token()?)),
            REVOKED => Change::Revoked(front.id()?),
            ACTED => Change::Acted(front.act()?),
            BARRED => {
                let number = u64::from_le_bytes(front.array()?);
                Change::Barred { number, digest: front.array()? }
            }
            kind => return Err(Undecodable(format!("{kind} is no kind of change"))),
        };
        Ok((change, front.0))
    }

    fn key(change: &Change) -> Bytes {
        match change {
            Change::Created(token) => token_key(&token.token.id),
            Change::Revoked(id) => token_key(id),
            Change::Acted(act) => numbered(ACTS, act.number),
            Change::Barred { number, .. } => numbered(REVOCATIONS, *number),
        }
    }

    fn frame(_: &Change) -> Option<Frame> {
        None
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        let Place { acts, revocations, token } = Place::of(from);
        let acts = acts.into_iter().flat_map(|number| state.acts_from(number));
        let acts = acts.map(|act| Change::Acted(act.clone()));
        let barred = revocations.into_iter().flat_map(|number| state.revoked_from(number));
        let barred = barred.map(|(number, digest)| Change::Barred { number, digest: *digest });
        let tokens = state.tokens_from(token);
        let tokens = tokens.map(|token| Change::Created(Box::new(token.clone())));
        let mut out = Vec::new();
        for change in acts.chain(barred).chain(tokens) {
            if !out.is_empty() && out.len() >= bytes_max {
                return (out.into(), Some(Self::key(&change)));
            }
            Self::encode_change(&change, &mut out);
        }
        (out.into(), None)
    }

    fn restore(state: &mut State, snapshot: &[u8]) -> Result<(), Undecodable> {
        let mut rest = snapshot;
        while !rest.is_empty() {
            let (change, behind) = Self::decode_change(rest)?;
            if matches!(change, Change::Revoked(_)) {
                return Err(Undecodable("a chunk holds what is there, not what went".to_owned()));
            }
            Self::evolve(state, &change);
            rest = behind;
        }
        Ok(())
    }
}

fn token_key(id: &TokenId) -> Bytes {
    [TOKENS, id.0.as_bytes()].concat().into()
}

fn numbered(kind: &[u8], number: u64) -> Bytes {
    [kind, &number.to_be_bytes()].concat().into()
}

/// Where a chunk that begins with a key goes on: the first act and the first revocation, if any
/// are left, and the first token.
struct Place<'a> {
    acts: Option<u64>,
    revocations: Option<u64>,
    token: &'a str,
}

impl<'a> Place<'a> {
    fn of(key: &'a [u8]) -> Self {
        let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |b| u64::from_be_bytes(*b));
        if let Some(rest) = key.strip_prefix(TOKENS) {
            let token = str::from_utf8(rest).unwrap_or_default();
            return Self { acts: None, revocations: None, token };
        }
        if let Some(rest) = key.strip_prefix(REVOCATIONS) {
            return Self { acts: None, revocations: Some(number(rest)), token: "" };
        }
        let acts = key.strip_prefix(ACTS).map_or(0, number);
        Self { acts: Some(acts), revocations: Some(0), token: "" }
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).expect("the house bounds every field");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_token(out: &mut Vec<u8>, token: &Token) {
    let Token { token: NewToken { id, name, scopes, digest, sha256, sha512, expires }, created } =
        token;
    put(out, id.0.as_bytes());
    put(out, name.as_bytes());
    out.push(u8::try_from(scopes.len()).expect("the house bounds the scopes of a token"));
    for scope in scopes {
        put(out, scope.to_string().as_bytes());
    }
    out.extend_from_slice(digest);
    for verifier in [sha256, sha512] {
        out.extend_from_slice(&verifier.iterations.to_le_bytes());
        put(out, &verifier.salt);
        put(out, &verifier.stored_key);
        put(out, &verifier.server_key);
    }
    out.push(u8::from(expires.is_some()));
    if let Some(wall) = expires {
        out.extend_from_slice(&wall.0.to_le_bytes());
    }
    out.extend_from_slice(&created.0.to_le_bytes());
}

fn put_act(out: &mut Vec<u8>, act: &Act) {
    out.extend_from_slice(&act.number.to_le_bytes());
    out.extend_from_slice(&act.at.0.to_le_bytes());
    out.push(act.kind.number());
    put(out, act.who.as_bytes());
    put(out, act.target.as_bytes());
}

/// What is not read yet.
struct Front<'a>(&'a [u8]);

impl<'a> Front<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Undecodable> {
        let (array, rest) = self.0.split_first_chunk().ok_or_else(ends)?;
        self.0 = rest;
        Ok(*array)
    }

    fn byte(&mut self) -> Result<u8, Undecodable> {
        self.array().map(|[byte]| byte)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Undecodable> {
        let length = usize::from(u16::from_le_bytes(self.array()?));
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(ends)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<&'a str, Undecodable> {
        str::from_utf8(self.bytes()?).map_err(|_| Undecodable("a text is not UTF-8".to_owned()))
    }

    fn wall(&mut self) -> Result<Wall, Undecodable> {
        Ok(Wall(i64::from_le_bytes(self.array()?)))
    }

    fn id(&mut self) -> Result<TokenId, Undecodable> {
        let text = self.text()?;
        if !TokenId::fits(text) {
            return Err(Undecodable(format!("{text:?} is no id of a token")));
        }
        Ok(TokenId(text.into()))
    }

    fn scope(&mut self) -> Result<Scope, Undecodable> {
        let text = self.text()?;
        let scope = text.parse::<Scope>().ok().filter(|scope| scope.to_string() == text);
        scope.ok_or_else(|| Undecodable(format!("{text:?} is no scope")))
    }

    fn verifier(&mut self) -> Result<Verifier, Undecodable> {
        Ok(Verifier {
            iterations: u32::from_le_bytes(self.array()?),
            salt: self.bytes()?.into(),
            stored_key: self.bytes()?.into(),
            server_key: self.bytes()?.into(),
        })
    }

    fn token(&mut self) -> Result<Token, Undecodable> {
        let id = self.id()?;
        let name = self.text()?.to_owned();
        let scopes = (0..self.byte()?).map(|_| self.scope()).collect::<Result<_, _>>()?;
        let digest: Digest = self.array()?;
        let (sha256, sha512) = (self.verifier()?, self.verifier()?);
        let expires = match self.byte()? {
            0 => None,
            1 => Some(self.wall()?),
            other => return Err(Undecodable(format!("{other} does not say whether it expires"))),
        };
        let token = NewToken { id, name, scopes, digest, sha256, sha512, expires };
        Ok(Token { token, created: self.wall()? })
    }

    fn act(&mut self) -> Result<Act, Undecodable> {
        let number = u64::from_le_bytes(self.array()?);
        let at = self.wall()?;
        let kind = self.byte()?;
        let kind = ActKind::from_number(kind)
            .ok_or_else(|| Undecodable(format!("{kind} is no kind of act")))?;
        let (who, target) = (self.text()?.to_owned(), self.text()?.to_owned());
        Ok(Act { number, at, who, kind, target })
    }
}

fn ends() -> Undecodable {
    Undecodable("it ends in the middle".to_owned())
}
