//! What nobody asked for and somebody may want to know: lines on stderr, which is a file in the
//! sandbox's folder.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes written in a shim's life; then it keeps quiet, so that it never fills a disk.
const NOTES_BYTES_MAX: usize = 64 * 1024;

static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// Writes a line, within the limit.
pub(crate) fn note(text: &str) {
    let line = format!("{} {text}\n", crate::timestamp::now_us());
    if WRITTEN.fetch_add(line.len(), Ordering::Relaxed) + line.len() <= NOTES_BYTES_MAX {
        // Where would a failure to write this be told?
        let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
    }
}
