//! What is issued anew before it ends, when it is asked for: no timer has to run.

use std::sync::{Arc, Mutex, PoisonError};

use rekindle_types::Tick;

use super::{CERTIFICATE_RENEWED_AFTER, PkiError};
use crate::clock::Clock;

type IssueCertificate<T> = Box<dyn Fn(Tick) -> Result<T, PkiError> + Send + Sync>;

/// A certificate of ours, ready for use. Half a year old it is issued anew.
pub(crate) struct RenewedCertificate<T> {
    issue: IssueCertificate<T>,
    clock: Clock,
    current: Mutex<(Tick, Arc<T>)>,
}

impl<T> RenewedCertificate<T> {
    /// Issues the first one.
    ///
    /// # Errors
    /// When that fails.
    pub(crate) fn new(
        clock: Clock,
        issue: impl Fn(Tick) -> Result<T, PkiError> + Send + Sync + 'static,
    ) -> Result<Self, PkiError> {
        let now = clock();
        let current = Mutex::new((now, Arc::new(issue(now)?)));
        Ok(Self { issue: Box::new(issue), clock, current })
    }

    /// The one that is good now. Where it cannot be renewed it stays; it has half a year left.
    pub(crate) fn current(&self) -> Arc<T> {
        let now = (self.clock)();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if now.since(current.0) >= CERTIFICATE_RENEWED_AFTER {
            match (self.issue)(now) {
                Ok(renewed) => *current = (now, Arc::new(renewed)),
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(error, "failed to renew a certificate");
                }
            }
        }
        Arc::clone(&current.1)
    }
}

impl<T> std::fmt::Debug for RenewedCertificate<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RenewedCertificate").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn it_is_issued_anew_after_half_a_year_and_kept_where_that_fails() {
        const DAY: u64 = 24 * 3600;
        let seconds = Arc::new(AtomicU64::new(1_795_000_000));
        let read = Arc::clone(&seconds);
        let clock: Clock = Arc::new(move || Tick::from_secs(read.load(Ordering::Relaxed)));
        let begin = clock();
        let issue = move |now: Tick| match now.since(begin).as_secs() / DAY {
            days @ (0 | 181) => Ok(days),
            _ => Err(PkiError::Tls { source: "no more".into() }),
        };
        let certificate = RenewedCertificate::new(Arc::clone(&clock), issue).unwrap();
        let after = |days| {
            seconds.store(1_795_000_000 + days * DAY, Ordering::Relaxed);
            *certificate.current()
        };
        assert_eq!([0, 179, 180, 181, 360, 361].map(after), [0, 0, 0, 181, 181, 181]);
    }
}
