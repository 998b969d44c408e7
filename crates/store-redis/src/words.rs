//! How calls end, as fields of their hash and as JSON that every peer can read.

use bytes::Bytes;
use handoff_calls::{Failure, HandlerError, Outcome, TimedOut};
use serde::{Deserialize, Serialize};

use crate::layout::Digit;

/// An error as stock peers write it. What they cannot do without is there, if empty.
#[derive(Deserialize, Serialize)]
#[serde(default)]
struct Words {
    name: String,
    message: String,
    stack: String,
    code: serde_json::Value,
    cause: serde_json::Value,
}

impl Default for Words {
    fn default() -> Self {
        let (name, message, stack) = (String::new(), String::new(), String::new());
        Self { name, message, stack, code: serde_json::Value::Null, cause: serde_json::Value::Null }
    }
}

/// An error as JSON.
pub(crate) fn error_text(error: &HandlerError) -> Vec<u8> {
    let words = Words {
        name: error.name.to_string(),
        message: error.message.to_string(),
        code: serde_json::Value::String(error.code.to_string()),
        ..Words::default()
    };
    // A struct of strings cannot fail to be written.
    serde_json::to_vec(&words).unwrap_or_else(|_| b"{}".to_vec())
}

/// What a peer says went wrong, whatever it sent.
fn error_of(text: &[u8]) -> HandlerError {
    let Ok(words) = serde_json::from_slice::<Words>(text) else {
        let message = String::from_utf8_lossy(text).into_owned().into();
        return HandlerError { name: "Error".into(), message, code: "".into() }.fit();
    };
    let code = match &words.code {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(code) => code.clone(),
        other => other.to_string(),
    };
    HandlerError { name: words.name.into(), message: words.message.into(), code: code.into() }.fit()
}

/// How exactly a call ended, as a word: field `x_outcome`.
pub(crate) const fn outcome_word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Answer(_) => "answer",
        Outcome::Failed(Failure::Handler(_)) => "handler",
        Outcome::Failed(Failure::ExecutorLost) => "executor_lost",
        Outcome::Failed(Failure::NoConsumer) => "no_consumer",
        Outcome::TimedOut(TimedOut::InQueue) => "queue_timeout",
        Outcome::TimedOut(TimedOut::Deadline) => "deadline",
        Outcome::Cancelled => "cancelled",
    }
}

/// What its caller gets: field `response`.
pub(crate) fn outcome_text(outcome: &Outcome) -> Bytes {
    match (outcome, outcome.error()) {
        (Outcome::Answer(body), _) => body.clone(),
        // The digit says it all, and no layout has a place for more.
        (Outcome::TimedOut(_), _) | (_, None) => Bytes::new(),
        (_, Some(error)) => error_text(&error).into(),
    }
}

/// How a call ended, by what is known of it: the digit always, the word if a script of ours ended it.
pub(crate) fn outcome_of(digit: Digit, word: &str, text: Bytes) -> Outcome {
    match (digit, word) {
        (Digit::Answer, _) => Outcome::Answer(text),
        (Digit::Timeout, "deadline") => Outcome::TimedOut(TimedOut::Deadline),
        (Digit::Timeout, _) => Outcome::TimedOut(TimedOut::InQueue),
        (Digit::Error, "executor_lost") => Outcome::Failed(Failure::ExecutorLost),
        (Digit::Error, "no_consumer") => Outcome::Failed(Failure::NoConsumer),
        (Digit::Error, "cancelled") => Outcome::Cancelled,
        (Digit::Error, _) => Outcome::Failed(Failure::Handler(error_of(&text))),
    }
}

#[cfg(test)]
mod tests {
    use super::{error_of, outcome_of, outcome_text, outcome_word};
    use crate::layout::Digit;
    use handoff_calls::{Failure, HandlerError, Outcome, TimedOut};

    #[test]
    fn every_outcome_reads_back_as_it_was_written() {
        let error = HandlerError {
            name: "RangeError".into(),
            message: "ä \"quoted\"".into(),
            code: "E_7".into(),
        };
        for (digit, outcome) in [
            (Digit::Answer, Outcome::Answer("[1,2]".into())),
            (Digit::Error, Outcome::Failed(Failure::Handler(error))),
            (Digit::Error, Outcome::Failed(Failure::ExecutorLost)),
            (Digit::Error, Outcome::Failed(Failure::NoConsumer)),
            (Digit::Error, Outcome::Cancelled),
            (Digit::Timeout, Outcome::TimedOut(TimedOut::InQueue)),
            (Digit::Timeout, Outcome::TimedOut(TimedOut::Deadline)),
        ] {
            assert_eq!(digit.text(), outcome.digit().to_string());
            let read = outcome_of(digit, outcome_word(&outcome), outcome_text(&outcome));
            assert_eq!(read, outcome);
        }
    }

    #[test]
    fn an_error_of_a_stock_peer_is_read_whatever_it_is() {
        let text = r#"{"name":"TypeError","message":"m","stack":"s","code":7,"cause":{}}"#;
        let error = error_of(text.as_bytes());
        assert_eq!((&*error.name, &*error.message, &*error.code), ("TypeError", "m", "7"));
        assert_eq!(&*error_of(b"[1]").message, "[1]");
        assert_eq!(&*error_of(b"{}").name, "");
    }
}
