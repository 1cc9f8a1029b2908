//! Batches in virtual time, to receivers that take them, are slow, or are away.

use std::sync::Mutex;

use http::Method;
use serde_json::Value;

use super::super::tests::event;
use super::*;
use rekindle_audit::AuditLevel;
use rekindle_metrics::Text;

/// What a receiver says to a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Yes,
    No,
    Nothing,
}

/// When each list came, and the names of its events.
type Taken = Arc<Mutex<Vec<(u64, Vec<String>)>>>;

/// Notes each list with its time, in seconds.
struct NotingReceiver {
    begun: Instant,
    taken: Taken,
    says: Arc<Mutex<Says>>,
}

impl EventReceiver for NotingReceiver {
    fn post(&self, list: Bytes) -> BoxFuture<'static, Result<(), String>> {
        let list: Value = serde_json::from_slice(&list).unwrap();
        assert_eq!(
            (&list["kind"], &list["apiVersion"]),
            (&"EventList".into(), &"audit.k8s.io/v1".into())
        );
        let items = list["items"].as_array().unwrap().iter();
        let names = items.map(|item| item["requestURI"].as_str().unwrap().to_owned()).collect();
        let seconds = (Instant::now() - self.begun).as_secs();
        self.taken.lock().unwrap().push((seconds, names));
        let says = *self.says.lock().unwrap();
        Box::pin(async move {
            match says {
                Says::Yes => Ok(()),
                Says::No => Err("connection refused".to_owned()),
                Says::Nothing => std::future::pending().await,
            }
        })
    }
}

struct Bench {
    sender: AuditSender,
    queue: AuditQueue,
    figures: Arc<AuditFigures>,
    taken: Taken,
    says: Arc<Mutex<Says>>,
}

impl Bench {
    fn new(limits: BatchLimits, says: Says) -> Self {
        let (figures, taken) = (Arc::<AuditFigures>::default(), Taken::default());
        let says = Arc::new(Mutex::new(says));
        let receiver = NotingReceiver {
            begun: Instant::now(),
            taken: Arc::clone(&taken),
            says: Arc::clone(&says),
        };
        let (sender, queue) = AuditSender::start(Arc::new(receiver), limits, &figures);
        Self { sender, queue, figures, taken, says }
    }

    fn offer(&self, names: impl IntoIterator<Item = u32>) {
        for name in names {
            let mut event = event(AuditLevel::Metadata, Method::GET, "", b"");
            event.event.request_uri = name.to_string();
            self.queue.offer(event);
        }
    }

    /// The numbers of lost events, by the part that lost them.
    fn lost(&self) -> String {
        let mut text = Text::default();
        self.figures.write(&mut text);
        let text = text.into_string();
        let lines =
            text.lines().filter_map(|line| line.strip_prefix("apiserver_audit_error_total"));
        lines.collect::<Vec<_>>().join(" ")
    }

    /// What has come after so many seconds.
    async fn after(&self, seconds: u64) -> Vec<(u64, Vec<String>)> {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        std::mem::take(&mut self.taken.lock().unwrap())
    }
}

fn list(seconds: u64, names: impl IntoIterator<Item = u32>) -> (u64, Vec<String>) {
    (seconds, names.into_iter().map(|name| name.to_string()).collect())
}

fn of_two() -> BatchLimits {
    BatchLimits { batch_max: 2, ..BatchLimits::default() }
}

#[tokio::test(start_paused = true)]
async fn events_are_sent_in_full_batches_and_the_rest_when_it_is_old() {
    let bench = Bench::new(of_two(), Says::Yes);
    bench.offer(0..5);
    assert_eq!(bench.after(29).await, [list(0, [0, 1]), list(0, [2, 3])]);
    bench.offer([]);
    assert_eq!(bench.after(2).await, [list(30, [4])]);
    assert_eq!(bench.lost(), "");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_not_taken_is_tried_five_times_and_then_lost_by_number() {
    let bench = Bench::new(of_two(), Says::No);
    bench.offer(0..2);
    let tries: Vec<u64> = bench.after(200).await.into_iter().map(|(seconds, _)| seconds).collect();
    assert_eq!(tries, [0, 10, 25, 47, 81]);
    assert_eq!(bench.lost(), "{plugin=\"webhook\"} 2");
    *bench.says.lock().unwrap() = Says::Yes;
    bench.offer(2..4);
    assert_eq!(bench.after(1).await, [list(200, [2, 3])], "the next ones are sent again");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_sent_again_whole_when_the_receiver_comes_back() {
    let bench = Bench::new(of_two(), Says::No);
    bench.offer(0..4);
    bench.after(12).await;
    *bench.says.lock().unwrap() = Says::Yes;
    assert_eq!(bench.after(20).await, [list(25, [0, 1]), list(25, [2, 3])]);
    assert_eq!(bench.lost(), "");
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_never_answers_has_thirty_seconds_each_time() {
    let bench = Bench::new(of_two(), Says::Nothing);
    bench.offer(0..2);
    let tries: Vec<u64> = bench.after(100).await.into_iter().map(|(seconds, _)| seconds).collect();
    assert_eq!(tries, [0, 40, 85]);
}

#[tokio::test(start_paused = true)]
async fn what_finds_no_room_is_lost_by_number_and_nothing_waits() {
    let limits = BatchLimits { buffered_max: 10, ..of_two() };
    let bench = Bench::new(limits, Says::Nothing);
    bench.offer(0..2);
    bench.after(1).await;
    bench.offer(2..20);
    assert_eq!(bench.lost(), "{plugin=\"buffered\"} 8");
}

#[tokio::test(start_paused = true)]
async fn the_end_sends_what_is_queued_without_a_pause() {
    let bench = Bench::new(of_two(), Says::Yes);
    bench.offer(0..5);
    let begun = Instant::now();
    let Bench { sender, taken, figures, .. } = bench;
    sender.close().await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    let lists = std::mem::take(&mut *taken.lock().unwrap());
    assert_eq!(lists, [list(0, [0, 1]), list(0, [2, 3]), list(0, [4])]);
    assert_eq!(figures.lost_by_webhook(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_end_is_held_up_by_no_receiver_and_counts_what_is_lost() {
    for (says, seconds) in [(Says::No, 1), (Says::Nothing, 11)] {
        let bench = Bench::new(of_two(), says);
        bench.offer(0..5);
        // in the middle of a pause, or of an attempt
        bench.after(3).await;
        let begun = Instant::now();
        let Bench { sender, figures, .. } = bench;
        sender.close().await;
        assert!(begun.elapsed() < Duration::from_secs(seconds), "{says:?}");
        assert_eq!(figures.lost_by_webhook(), 5, "{says:?}");
    }
}
