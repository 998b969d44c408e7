//! Tokens that open a server.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::client::{Client, VERSION};
use crate::{Error, Target, Time};

/// Makes, shows and revokes tokens. Needs a token that may do everything, or a server without
/// locks.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    client: &'a Client,
}

impl<'a> Tokens<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// Makes a token. Its text is in the answer and nowhere else, ever.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn create(&self, token: &NewToken) -> Result<CreatedToken, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            version: u32,
            #[serde(flatten)]
            token: &'a NewToken,
        }
        self.client.post_json("/v1/tokens", &Body { version: VERSION, token }).await
    }

    /// All tokens, without their texts.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn list(&self) -> Result<Vec<Token>, Error> {
        #[derive(Deserialize)]
        struct Listed {
            tokens: Vec<Token>,
        }
        let listed: Listed = self.client.get_json("/v1/tokens").await?;
        Ok(listed.tokens)
    }

    /// Revokes a token by its id. From the answer on it opens nothing.
    ///
    /// # Errors
    /// [`Error`]; `token_not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn revoke(&self, id: &str) -> Result<(), Error> {
        self.client.delete_path(Target::new("/v1/tokens").segment(id).as_str()).await
    }
}

/// A token to be made.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NewToken {
    /// For people.
    pub name: String,
    /// What it allows, such as `admin`, `events`, `events:backup.*`.
    pub scopes: Vec<String>,
    /// When it ends, if ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

impl NewToken {
    /// A token with a name, for people, and what it allows.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        scopes: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let scopes = scopes.into_iter().map(Into::into).collect();
        Self { name: name.into(), scopes, expires_at: None }
    }

    /// Lets it end at a time.
    #[must_use]
    pub fn expires_at(mut self, time: impl Into<Time>) -> Self {
        self.expires_at = Some(time.into());
        self
    }
}

/// A token as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Token {
    /// What it is revoked by; also the user name for SASL.
    pub id: String,
    /// For people.
    #[serde(default)]
    pub name: String,
    /// What it allows.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// When it ends, if ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

/// A token just made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreatedToken {
    /// What it is revoked by.
    pub id: String,
    /// The secret: what [`crate::Options::token`] takes.
    pub token: String,
    /// For people.
    #[serde(default)]
    pub name: String,
    /// What it allows.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// When it ends, if ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

impl fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedToken")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}
