//! Randomness comes in from outside: the driver gives the machine's, a test or the simulator a
//! seeded one.

/// A source of random bytes.
pub trait Entropy: Send {
    /// Fills the buffer.
    fn fill(&mut self, bytes: &mut [u8]);
}

/// The letters of generated names: no vowels, so that no words appear; nothing that looks like
/// something else (apimachinery `rand.String`).
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// How many letters `generateName` adds.
const SUFFIX_LETTERS: usize = 5;

/// How long a generated name may be: a label value.
const GENERATED_NAME_BYTES_MAX: usize = 63;

/// A new UID: a random UUID (version 4).
pub fn uid(entropy: &mut dyn Entropy) -> String {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// `prefix` with five random letters, cut so that it still is a label value.
pub(crate) fn generated_name(prefix: &str, entropy: &mut dyn Entropy) -> String {
    let mut bytes = [0; SUFFIX_LETTERS];
    entropy.fill(&mut bytes);
    let prefix_end = prefix.floor_char_boundary(GENERATED_NAME_BYTES_MAX - SUFFIX_LETTERS);
    let mut name = prefix[..prefix_end].to_owned();
    name.extend(bytes.iter().map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u8);
    impl Entropy for Fixed {
        fn fill(&mut self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    #[test]
    fn uids_are_version_4_and_names_fit_a_label() {
        assert_eq!(uid(&mut Fixed(0xff)), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(generated_name("web-", &mut Fixed(1)), "web-ccccc");
        assert_eq!(generated_name(&"x".repeat(100), &mut Fixed(0)).len(), 63);
    }
}
