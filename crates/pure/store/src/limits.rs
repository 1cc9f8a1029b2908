//! Everything that could grow is bounded.

/// Bounds on what the store keeps and accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Events kept for watchers that resume and for reads at older revisions.
    pub history_events_max: usize,
    /// Bytes that the history may keep alive: keys and values of superseded and deleted versions.
    pub history_bytes_max: usize,
    /// Bytes of one object, key and value together.
    pub object_bytes_max: usize,
    /// Bytes of all objects, as [`Self::object_bytes_max`] counts them. Beyond, nothing new is
    /// taken; what is there may grow by an eighth more, so that what runs can say how it is.
    pub total_bytes_max: usize,
    /// Writes that may wait for the disk.
    pub queue_writes_max: usize,
    /// Bytes of values that may wait for the disk.
    pub queue_bytes_max: usize,
}

impl StoreLimits {
    /// Sized for one machine. An object may have 3 MiB, the most that a Kubernetes API server reads
    /// of a request body; a batch always fits into the history, so that no watcher that keeps up is
    /// ever cut off. All of them may have 2 GiB, as etcd's `--quota-backend-bytes`.
    pub const DEFAULT: Self = Self {
        history_events_max: 16_384,
        history_bytes_max: 16 << 20,
        object_bytes_max: 3 << 20,
        total_bytes_max: 2 << 30,
        queue_writes_max: 4_096,
        queue_bytes_max: 64 << 20,
    };
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
