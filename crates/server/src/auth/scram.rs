//! Verifiers for SCRAM (RFC 5802, RFC 7677): what a server keeps instead of a password.
//!
//! ```text
//!  SaltedPassword = PBKDF2(password, salt, iterations)
//!  StoredKey      = H(HMAC(SaltedPassword, "Client Key"))     checks the client's proof
//!  ServerKey      = HMAC(SaltedPassword, "Server Key")        proves the server to the client
//! ```
//!
//! The password is a token's text: printable ASCII, which SASLprep leaves as it is.

use std::num::NonZeroU32;

use aws_lc_rs::digest::digest;
use aws_lc_rs::{hmac, pbkdf2};
use handoff_house::Verifier;

/// Rounds of PBKDF2 for a new token. RFC 7677 asks for 4,096 at least. A drawn token has 256 bits
/// and needs none; one that an operator chose may be as short as 16 characters.
pub const ITERATIONS: NonZeroU32 = NonZeroU32::new(10_000).unwrap();

/// Bytes of a salt.
pub const SALT_BYTES: usize = 16;

/// Which SCRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// SCRAM-SHA-256
    Sha256,
    /// SCRAM-SHA-512
    Sha512,
}

/// Computes what is kept of a password. Takes milliseconds, on purpose.
#[must_use]
pub fn verifier(
    mechanism: Mechanism,
    password: &[u8],
    salt: &[u8],
    iterations: NonZeroU32,
) -> Verifier {
    let (derivation, mac) = match mechanism {
        Mechanism::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, hmac::HMAC_SHA256),
        Mechanism::Sha512 => (pbkdf2::PBKDF2_HMAC_SHA512, hmac::HMAC_SHA512),
    };
    let hash = mac.digest_algorithm();
    let mut salted = vec![0; hash.output_len()];
    pbkdf2::derive(derivation, iterations, salt, password, &mut salted);
    let key = hmac::Key::new(mac, &salted);
    let client_key = hmac::sign(&key, b"Client Key");
    Verifier {
        salt: salt.into(),
        iterations: iterations.get(),
        stored_key: digest(hash, client_key.as_ref()).as_ref().into(),
        server_key: hmac::sign(&key, b"Server Key").as_ref().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RFC_ROUNDS: NonZeroU32 = NonZeroU32::new(4096).unwrap();
    const RFC_SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";

    fn base64(text: &str) -> Vec<u8> {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let text = text.trim_end_matches('=');
        let (mut bits, mut count, mut out) = (0u32, 0, Vec::new());
        for letter in text.bytes() {
            let digit = DIGITS.iter().position(|digit| *digit == letter).unwrap();
            bits = bits << 6 | u32::try_from(digit).unwrap();
            count += 6;
            if count >= 8 {
                count -= 8;
                out.push(u8::try_from(bits >> count & 0xff).unwrap());
            }
        }
        out
    }

    /// The exchange of RFC 7677, section 3, as the server sees it: the client's proof gives the
    /// client key back, whose hash is the stored key; the server's signature is made with the
    /// server key.
    #[test]
    fn the_published_exchange_is_accepted_and_answered() {
        let verifier = verifier(Mechanism::Sha256, b"pencil", &base64(RFC_SALT), RFC_ROUNDS);
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let message =
            format!("n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s={RFC_SALT},i=4096,c=biws,r={nonce}");
        let sign = |key: &[u8]| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, key);
            hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
        };
        let proof = base64("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let signature = sign(&verifier.stored_key);
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let hashed = digest(&aws_lc_rs::digest::SHA256, &client_key);
        assert_eq!(hashed.as_ref(), &*verifier.stored_key);
        let answer = sign(&verifier.server_key);
        assert_eq!(answer, base64("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
    }

    /// No RFC has numbers for this one; these come from another implementation of the formulas.
    #[test]
    fn the_longer_hash_gives_what_others_compute() {
        let verifier = verifier(Mechanism::Sha512, b"pencil", &base64(RFC_SALT), RFC_ROUNDS);
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let stored = [
            "e8002e6f7d3ae446119b216933644dc2a2be7869eb918b8459b5e7d7d2ec1260",
            "6aceef106825cd735170a675fd3611f684affad1dce3f43a0ee43bd590e1dbbe",
        ];
        let server = [
            "8d91db6230b5687874fe129bc7206e1858c3ae08e02934f57ac03b6b05a229c4",
            "59d28ff46f5c9611e6c179256490215ec1ff759cb0df285db89af0f99e613aac",
        ];
        assert_eq!(hex(&verifier.stored_key), stored.concat());
        assert_eq!(hex(&verifier.server_key), server.concat());
    }
}
