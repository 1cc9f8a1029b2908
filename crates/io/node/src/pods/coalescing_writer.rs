//! A writer of its own task that carries only the newest value to the API. When a value is written,
//! held or tried again is for [`LatestWrite`] to say.

use std::future::Future;

use rekindle_pod_driver::{LatestWrite, Urgency, WriteOutcome};
use rekindle_types::Tick;
use tokio::sync::watch;

use crate::clock::{Clock, sleep_until};

/// What a writer is handed: values, numbered, the newest alone.
#[derive(Clone, Debug)]
pub(crate) struct NumberedValue<T> {
    /// Counts the values; 0 is one that stands in the API already.
    pub(crate) number: u64,
    pub(crate) urgency: Urgency,
    pub(crate) value: T,
}

impl<T> NumberedValue<T> {
    /// What stands in the API.
    pub(crate) fn first(value: T) -> Self {
        Self { number: 0, urgency: Urgency::Now, value }
    }

    /// Replaces the value by a newer one.
    pub(crate) fn replace(&mut self, value: T, urgency: Urgency) {
        *self = Self { number: self.number + 1, urgency, value };
    }
}

/// How far a writer has come: the number of the last value that stands in the API, or that there is
/// nothing to write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteProgress {
    /// Up to this number.
    Written(u64),
    /// The object is gone.
    Gone,
}

/// Waits until the value numbered `number` or a newer one stands in the API, or there is nothing to
/// write to.
pub(crate) async fn reached(progress: &mut watch::Receiver<WriteProgress>, number: u64) {
    let enough = |progress: &WriteProgress| match progress {
        WriteProgress::Written(written) => *written >= number,
        WriteProgress::Gone => true,
    };
    // an error means that the writer has ended: nothing more will come
    let _ended = progress.wait_for(enough).await;
}

/// Writes each newest value of `values` until its sender is gone and the last is written.
pub(crate) async fn write_latest<T, W, F>(
    mut values: watch::Receiver<NumberedValue<T>>,
    progress: watch::Sender<WriteProgress>,
    write: W,
) where
    T: Clone,
    W: Fn(T) -> F,
    F: Future<Output = WriteOutcome>,
{
    let clock = Clock::of_timers(Tick::ZERO);
    let first = values.borrow_and_update().clone();
    let mut number = first.number;
    let mut latest = LatestWrite::new(first.value.clone());
    if number > 0 {
        latest.submit(clock.now(), first.value, first.urgency);
    }
    let mut is_open = true;
    loop {
        while let Some(value) = latest.poll(clock.now()) {
            let outcome = write(value).await;
            latest.settle(clock.now(), outcome);
            match outcome {
                WriteOutcome::Written => {
                    progress.send_replace(WriteProgress::Written(number));
                }
                WriteOutcome::Retry => {}
                WriteOutcome::Gone => {
                    progress.send_replace(WriteProgress::Gone);
                    return;
                }
            }
        }
        if !is_open && latest.is_settled() {
            return;
        }
        let timeout = latest.poll_timeout().map(|at| clock.instant_of(at));
        tokio::select! {
            changed = values.changed(), if is_open => match changed {
                Ok(()) => {
                    let newest = values.borrow_and_update().clone();
                    number = newest.number;
                    latest.submit(clock.now(), newest.value, newest.urgency);
                }
                Err(_) => is_open = false,
            },
            () = sleep_until(timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    const HOLD: Duration = Duration::from_millis(10);

    /// A writer that writes down what it was given and when (in virtual time).
    struct World {
        values: watch::Sender<NumberedValue<&'static str>>,
        progress: watch::Receiver<WriteProgress>,
        written: Arc<Mutex<Vec<(&'static str, Duration)>>>,
    }

    impl World {
        fn new() -> Self {
            let (values, receiver) = watch::channel(NumberedValue::first("as found"));
            let (sender, progress) = watch::channel(WriteProgress::Written(0));
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
