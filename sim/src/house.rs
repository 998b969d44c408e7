//! The house as a neighbour of other rooms: tokens and acts, and an oracle that keeps its own
//! list of both.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use handoff_house::{
    Act, ActKind, Change, Command, NewToken, Refusal, Reply, State, Token, TokenId, Verifier,
};
use handoff_log::journal::Purpose;
use handoff_store_embedded::Persist;
use handoff_types::{Machine, Now, Scope, Wall};

use crate::dice::Dice;
use crate::driver::{Fault, ensure};
use crate::history::{History, Kind};
use crate::server::{Decided, Deed, Flat, Site, Tenant};

/// How many tokens there may have been that a caller still names.
const NAMED: u64 = 12;

/// A machine that speaks of tokens and acts.
pub(crate) trait Rules:
    Machine<State = State, Command = Command, Change = Change, Reply = Reply, Action = Infallible>
{
}

impl<M> Rules for M where
    M: Machine<
            State = State,
            Command = Command,
            Change = Change,
            Reply = Reply,
            Action = Infallible,
        >
{
}

/// The house, or one that is twisted, and whoever keeps it.
#[derive(Debug)]
pub(crate) struct Keeping<M> {
    dice: Dice,
    drawn: u64,
    books: Books,
    machine: PhantomData<M>,
}

/// What the oracle believes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Books {
    tokens: BTreeMap<Box<str>, Token>,
    revoked: BTreeSet<Box<str>>,
    /// Digests of those.
    barred: BTreeSet<[u8; 32]>,
    acts: Vec<Act>,
}

/// A command that was decided and not answered.
#[derive(Debug)]
pub(crate) struct Asked {
    command: Command,
    now: Now,
    reply: Reply,
}

impl Books {
    /// Judges an answer.
    fn answered(&mut self, asked: &Asked) -> Result<(), Fault> {
        let Asked { command, now, reply } = asked;
        let wrong = || Fault::Invariant(format!("the house answered {command:?} with {reply:?}"));
        let expected = self.expected(command);
        if *reply != expected {
            return Err(wrong());
        }
        if expected == Reply::Done {
            self.note(command, now.wall);
        }
        Ok(())
    }

    fn expected(&self, command: &Command) -> Reply {
        let refusal = match command {
            Command::Create { token, .. } => {
                let same = |there: &Token| there.token.digest == token.digest;
                let id = &token.id.0;
                if self.tokens.contains_key(id) || self.tokens.values().any(same) {
                    Some(Refusal::Taken)
                } else {
                    let gone = self.revoked.contains(id) || self.barred.contains(&token.digest);
                    gone.then(|| Refusal::Revoked(id.to_string()))
                }
            }
            Command::Revoke { id, .. } => {
                let there = self.tokens.contains_key(&id.0);
                (!there).then(|| Refusal::NoToken(id.to_string()))
            }
            Command::Note { .. } => None,
        };
        refusal.map_or(Reply::Done, Reply::Refused)
    }

    fn note(&mut self, command: &Command, at: Wall) {
        let (kind, target, who) = match command {
            Command::Create { token, who } => {
                let kept = Token { token: (**token).clone(), created: at };
                self.tokens.insert(token.id.0.clone(), kept);
                (ActKind::TokenCreated, format!("{} {}", token.id, token.name), who)
            }
            Command::Revoke { id, who } => {
                let gone = self.tokens.remove(&id.0);
                self.revoked.insert(id.0.clone());
                self.barred.extend(gone.as_ref().map(|token| token.token.digest));
                let name = gone.map(|token| token.token.name).unwrap_or_default();
                (ActKind::TokenRevoked, format!("{id} {name}"), who)
            }
            Command::Note { kind, target, who } => (*kind, target.clone(), who),
        };
        let number = self.acts.len() as u64 + 1;
        self.acts.push(Act { number, at, who: who.clone(), kind, target });
    }

    fn is(&self, state: &State) -> bool {
        self.tokens.values().eq(state.tokens()) && self.acts.iter().rev().eq(state.acts())
    }
}

impl<M> Keeping<M> {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let dice = dice.fork();
        Self { dice, drawn: 0, books: Books::default(), machine: PhantomData }
    }

    fn id(&mut self) -> TokenId {
        let number = self.drawn.saturating_sub(self.dice.below(NAMED));
        TokenId(format!("{number:08}").into())
    }

    fn command(&mut self) -> Command {
        let who = "local".to_owned();
        match self.dice.below(8) {
            0..4 => Command::Create { token: Box::new(self.token()), who },
            4..6 => Command::Revoke { id: self.id(), who },
            _ => {
                let kinds = [ActKind::Reloaded, ActKind::Repaired, ActKind::Deleted];
                let kind = self.dice.pick(&kinds).copied().unwrap_or(ActKind::Reloaded);
                Command::Note { kind, target: "handoff.toml".to_owned(), who }
            }
        }
    }

    /// Mostly a new token; sometimes one whose id was drawn before, or whose digest was.
    fn token(&mut self) -> NewToken {
        self.drawn += 1;
        let id = if self.dice.one_in(6) {
            self.id()
        } else {
            TokenId(format!("{:08}", self.drawn).into())
        };
        let digest = if self.dice.one_in(12) { 1 } else { self.drawn };
        let mut whole = [7; 32];
        for (place, byte) in whole.iter_mut().zip(digest.to_le_bytes()) {
            *place = byte;
        }
        let field = |byte: u8, bytes: usize| vec![byte; bytes].into_boxed_slice();
        let verifier = |bytes: usize| Verifier {
            salt: field(1, 16),
            iterations: 4096,
            stored_key: field(2, bytes),
            server_key: field(3, bytes),
        };
        // Far enough that no clock of a seed gets there: one that is over is refused.
        let expires = self.dice.one_in(3).then_some(Wall(4_000_000_000_000_000));
        let scopes =
            ["admin", "events:acme.*"].iter().filter_map(|text| text.parse::<Scope>().ok());
        NewToken {
            id,
            name: "of the simulator".to_owned(),
            scopes: scopes.collect(),
            digest: whole,
            sha256: verifier(32),
            sha512: verifier(64),
            expires,
        }
    }
}

impl<M: Persist + Rules + fmt::Debug + 'static> Tenant for Keeping<M> {
    type Room = M;
    type Asked = Asked;
    const HAS_BODIES: bool = false;

    /// Of everything that a checkpoint would hold (FNV-1a).
    fn hash(state: &State) -> u64 {
        let (bytes, _) = M::snapshot(state, &[], usize::MAX);
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
    }

    fn check_alike(&self, live: &State, rebuilt: &State, _: Now) -> Result<(), Fault> {
        ensure(live == rebuilt, || "the house read back is not the living one".to_owned())
    }

    fn say(command: &Command) -> String {
        match command {
            Command::Create { token, .. } => format!("create token {}", token.id),
            Command::Revoke { id, .. } => format!("revoke token {id}"),
            Command::Note { kind, .. } => format!("note {}", kind.text()),
        }
    }

    fn sort(command: &Command) -> (&'static str, Purpose, Vec<Bytes>) {
        let (kind, purpose) = match command {
            Command::Create { .. } => ("create token", Purpose::Accept),
            Command::Revoke { .. } => ("revoke token", Purpose::Finish),
            Command::Note { .. } => ("note act", Purpose::Finish),
        };
        (kind, purpose, Vec::new())
    }

    fn decided(&mut self, decided: Decided<Self>, _: &State) -> Asked {
        let Decided { command, now, reply, .. } = decided;
        Asked { command, now, reply }
    }

    fn answered(&mut self, asked: Asked, history: &mut History) -> Result<(), Fault> {
        let kind = Self::sort(&asked.command).0;
        history.tell(format_args!("{}: {:?}", Self::say(&asked.command), asked.reply));
        let refused = matches!(asked.reply, Reply::Refused(_));
        history.count(if refused { Kind::Refused } else { Kind::Acknowledged }, kind);
        self.books.answered(&asked)
    }

    fn lost(&mut self, asked: &Asked) -> &'static str {
        Self::sort(&asked.command).0
    }

    fn recovered(&mut self, lost: Vec<Asked>, state: &State, _: Now) -> Result<usize, Fault> {
        for survived in 0..=lost.len() {
            if self.books.is(state) {
                return Ok(survived);
            }
            if let Some(next) = lost.get(survived) {
                self.books.answered(next)?;
            }
        }
        Err(Fault::Invariant("the house does not have what was answered".to_owned()))
    }

    fn act(
        flat: &mut Flat<Self>,
        deed: Deed,
        site: &mut Site,
        history: &mut History,
    ) -> Result<(), Fault> {
        if deed != Deed::Command {
            return Ok(());
        }
        let command = flat.tenant.command();
        flat.send(&command, site, history).map(drop)
    }

    fn burst(flat: &mut Flat<Self>, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        Self::act(flat, Deed::Command, site, history)
    }

    fn knock(&mut self, _: &State) -> Command {
        Command::Revoke { id: TokenId("nobody00".into()), who: "local".to_owned() }
    }

    fn settle(&mut self, state: &State, _: Now) -> Result<(), Fault> {
        ensure(self.books.is(state), || "the house does not have what was answered".to_owned())
    }
}
