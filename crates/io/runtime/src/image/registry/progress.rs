//! What a pull tells while it goes on.

/// One layer's news.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerProgress {
    /// The layer: the digest of its packed form, `sha256:…`.
    pub layer: String,
    /// Its packed size.
    pub size_bytes: u64,
    /// How it is now.
    pub state: LayerState,
}

/// How a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerState {
    /// It was on the machine.
    AlreadyHere,
    /// It is to be fetched.
    Waiting,
    /// So much of it has come. Falls back to less when it had to be begun anew.
    Coming {
        /// Packed bytes.
        bytes: u64,
    },
    /// All of it has come.
    Unpacking,
    /// It is on the disk.
    Done,
}
