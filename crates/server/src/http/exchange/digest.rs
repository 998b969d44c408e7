//! By what a request is known again.

use aws_lc_rs::digest::{Context, SHA256};

/// Parts of a request, each with its length before it, so that no two requests are the same to it.
pub(super) struct Digest(Context);

impl Digest {
    pub(super) fn new(what: &str) -> Self {
        let mut digest = Self(Context::new(&SHA256));
        digest.part(what.as_bytes());
        digest
    }

    pub(super) fn part(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// A part that may be absent, which is something else than empty.
    pub(super) fn maybe(&mut self, text: Option<&str>) {
        self.0.update(&[u8::from(text.is_some())]);
        self.part(text.unwrap_or_default().as_bytes());
    }

    pub(super) fn end(self) -> u64 {
        let digest = self.0.finish();
        digest.as_ref().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    fn of(parts: &[&str], last: Option<&str>) -> u64 {
        let mut digest = Digest::new("test");
        parts.iter().for_each(|part| digest.part(part.as_bytes()));
        digest.maybe(last);
        digest.end()
    }

    #[test]
    fn what_is_cut_elsewhere_is_something_else() {
        assert_eq!(of(&["ab", "c"], None), of(&["ab", "c"], None));
        assert_ne!(of(&["ab", "c"], None), of(&["a", "bc"], None));
        assert_ne!(of(&["a"], None), of(&["a"], Some("")));
    }
}
