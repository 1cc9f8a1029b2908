//! Short digests, to tell things apart that have the same name.

/// 24 bits of a text (FNV-1a).
pub fn fold(text: &str) -> u32 {
    let hash = text
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash >> 8) ^ (hash & 0xff)
}
