//! The blocks of a text in PEM, as Go's `pem.Decode` finds them.

use pem::Pem;

/// The type of a block with a certificate.
pub const CERTIFICATE: &str = "CERTIFICATE";
const BEGIN: &str = "-----BEGIN ";

/// The blocks of a text. What is between them, and blocks that cannot be read, are skipped.
pub fn blocks(text: &str) -> impl Iterator<Item = Pem> {
    // each is read up to where the next one begins, and so no byte twice
    let blocks = text.split(BEGIN).skip(1);
    blocks.filter_map(|block| pem::parse(format!("{BEGIN}{block}")).ok())
}
