//! What the allocator holds free.
//!
//! glibc keeps what a burst of requests has freed, in an arena of each thread, and gives back only
//! what lies at its end.

use crate::sys;

/// Gives free pages back to the kernel, of all threads. Answers whether there were any; with
/// another C library there never are.
pub fn give_back() -> bool {
    sys::trim_heap()
}
