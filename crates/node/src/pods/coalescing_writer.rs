//! A writer that carries only the newest value to the API: one write in flight, retried with
//! backoff, and what was not written yet is replaced by what is newer. So an older value is never
//! written over a newer one.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;

/// The first wait after a failed write.
const RETRY_MIN: Duration = Duration::from_millis(50);
/// The longest wait between writes that fail.
const RETRY_MAX: Duration = Duration::from_secs(10);

/// How long a value that is expected to be replaced soon waits for that.
const HOLD: Duration = Duration::from_millis(10);

/// When a value is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// At once.
    Now,
    /// After [`HOLD`], unless one that is to be written at once replaces it: each write costs an
    /// fsync, and the one that matters would wait for it.
    Soon,
}

/// What a writer is handed: values, numbered, the newest alone.
#[derive(Clone, Debug)]
pub(crate) struct Submitted<T> {
    /// Counts the values; 0 is one that stands in the API already.
    pub(crate) number: u64,
    pub(crate) urgency: Urgency,
    pub(crate) value: T,
}

impl<T> Submitted<T> {
    /// What stands in the API.
    pub(crate) fn first(value: T) -> Self {
        Self { number: 0, urgency: Urgency::Now, value }
    }

    /// Replaces the value by a newer one.
    pub(crate) fn replace(&mut self, value: T, urgency: Urgency) {
        *self = Self { number: self.number + 1, urgency, value };
    }
}

/// What became of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// It stands in the API.
    Written,
    /// It could not be written now.
    Retry,
    /// The object is gone: nothing will ever be written again.
    Gone,
}

/// How far a writer has come: the number of the last value that stands in the API, or that there is
/// nothing to write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Up to this number.
    Written(u64),
    /// The object is gone.
    Gone,
}

/// Waits until the value numbered `number` or a newer one stands in the API, or there is nothing to
/// write to.
pub(crate) async fn reached(progress: &mut watch::Receiver<Progress>, number: u64) {
    let enough = |progress: &Progress| match progress {
        Progress::Written(written) => *written >= number,
        Progress::Gone => true,
    };
    // an error means that the writer has ended: nothing more will come
    let _ended = progress.wait_for(enough).await;
}

/// Writes each newest value of `values` until its sender is gone and the last is written.
pub(crate) async fn write_latest<T, W, F>(
    mut values: watch::Receiver<Submitted<T>>,
    progress: watch::Sender<Progress>,
    write: W,
) where
    T: Clone,
    W: Fn(T) -> F,
    F: Future<Output = WriteOutcome>,
{
    let mut wait = RETRY_MIN;
    let mut written = 0;
    loop {
        let newest = values.borrow_and_update().number;
        if newest == written {
            if values.changed().await.is_err() {
                return;
            }
            continue;
        }
        held(&mut values).await;
        let Submitted { number, value, .. } = values.borrow_and_update().clone();
        match write(value).await {
            WriteOutcome::Written => {
                written = number;
                wait = RETRY_MIN;
                progress.send_replace(Progress::Written(number));
            }
            WriteOutcome::Retry => {
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RETRY_MAX);
            }
            WriteOutcome::Gone => {
                progress.send_replace(Progress::Gone);
                return;
            }
        }
    }
}

/// Waits while the newest value may wait, and no longer than [`HOLD`].
async fn held<T>(values: &mut watch::Receiver<Submitted<T>>) {
    let urgent = values.wait_for(|submitted| match submitted.urgency {
        Urgency::Now => true,
        Urgency::Soon => false,
    });
    // an error means that nothing newer will come; either way what is there now is written
    let _held = tokio::time::timeout(HOLD, urgent).await;
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::time::Instant;

    use super::*;

    /// A writer that writes down what it was given and when (in virtual time).
    struct World {
        values: watch::Sender<Submitted<&'static str>>,
        progress: watch::Receiver<Progress>,
        written: Arc<Mutex<Vec<(&'static str, Duration)>>>,
    }

    impl World {
        fn new() -> Self {
            let (values, receiver) = watch::channel(Submitted::first("as found"));
            let (sender, progress) = watch::channel(Progress::Written(0));
            let written = Arc::new(Mutex::new(Vec::new()));
            let (start, log) = (Instant::now(), written.clone());
            tokio::spawn(write_latest(receiver, sender, move |value| {
                log.lock().unwrap().push((value, start.elapsed()));
                async { WriteOutcome::Written }
            }));
            Self { values, progress, written }
        }

        fn submit(&self, value: &'static str, urgency: Urgency) {
            self.values.send_modify(|submitted| submitted.replace(value, urgency));
        }

        async fn written(&mut self) -> Vec<(&'static str, Duration)> {
            let number = self.values.borrow().number;
            reached(&mut self.progress, number).await;
            self.written.lock().unwrap().clone()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_that_may_wait_gives_way_to_one_that_may_not() {
        let mut world = World::new();
        world.submit("starting", Urgency::Soon);
        tokio::time::sleep(Duration::from_millis(4)).await;
        world.submit("running", Urgency::Now);
        assert_eq!(world.written().await, [("running", Duration::from_millis(4))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_that_may_wait_is_written_all_the_same() {
        let mut world = World::new();
        world.submit("pulling", Urgency::Soon);
        assert_eq!(world.written().await, [("pulling", HOLD)]);
        world.submit("running", Urgency::Now);
        assert_eq!(world.written().await, [("pulling", HOLD), ("running", HOLD)]);
    }

    #[tokio::test(start_paused = true)]
    async fn values_that_keep_coming_do_not_wait_for_ever() {
        let mut world = World::new();
        for value in ["a", "b", "c", "d", "e"] {
            world.submit(value, Urgency::Soon);
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        let last = Duration::from_millis(12) + HOLD; // it came after the write of the one before
        assert_eq!(world.written().await, [("d", HOLD), ("e", last)]);
    }
}
