//! Reading logs as the shim writes them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::PodStatus;
use proptest::prelude::*;
use rekindle_runtime::OutputStream;
use rekindle_types::log_options::{ContainerRun, LogOptions, LogSince};
use rekindle_types::{ContainerAttempt, PodRef, PodUid, Tick};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::format::{LineEnd, parse};
use super::reader::{LogChunk, LogReader, LogSelection};
use super::{Logs, last_lines, prune};
use crate::clock::Clock;
use crate::layout::NodeDirs;
use crate::pods::{PodIndex, PodView};
use crate::testing::TestFolder;

/// Seconds since the epoch of the first record.
const START: u64 = 1_760_000_000;

/// One pod's logs, and its status as readers see it.
struct Fixture {
    folder: TestFolder,
    logs: Logs,
    index: PodIndex,
    status: watch::Sender<Arc<PodStatus>>,
    written: u64,
}

fn uid() -> PodUid {
    PodUid("u-1".to_owned())
}

fn status(state: Value, restarts: u32, ended_before: bool) -> Arc<PodStatus> {
    let last = if ended_before { json!({ "terminated": { "exitCode": 1 } }) } else { json!({}) };
    let container = json!({ "name": "app", "image": "i", "imageID": "", "ready": false,
        "restartCount": restarts, "state": state, "lastState": last });
    Arc::new(serde_json::from_value(json!({ "containerStatuses": [container] })).unwrap())
}

fn running(restarts: u32) -> Arc<PodStatus> {
    status(json!({ "running": {} }), restarts, restarts > 0)
}

impl Fixture {
    fn new() -> Self {
        let folder = TestFolder::new();
        let dirs = NodeDirs::new(&folder.join("data"), &folder.join("logs"));
        let pod_ref = PodRef { namespace: "shop".into(), name: "web".into(), uid: uid() };
        fs::create_dir_all(dirs.pod(&pod_ref).container_logs("app")).unwrap();
        let (sender, receiver) = watch::channel(running(0));
        let index = PodIndex::default();
        let (_, pod) = watch::channel(Arc::default());
        index.insert(PodView { pod_ref, pod, status: receiver });
        let clock = Clock::of_timers(Tick::from_secs(START + 100));
        let logs = Logs::new(index.clone(), dirs, clock);
        Self { folder, logs, index, status: sender, written: 0 }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.join("logs/shop_web_u-1/app").join(file)
    }

    /// Appends records one second apart; a text that ends in `\` is a part of a line, one that
    /// begins with `!` is of stderr.
    fn write(&mut self, file: &str, texts: &[&str]) {
        let mut out =
            fs::OpenOptions::new().create(true).append(true).open(self.path(file)).unwrap();
        for text in texts {
            let time = Tick::from_secs(START + self.written).to_time().0;
            self.written += 1;
            let (text, tag) = text.strip_suffix('\\').map_or((*text, "F"), |part| (part, "P"));
            let (text, stream) = text.strip_prefix('!').map_or((text, "stdout"), |e| (e, "stderr"));
            writeln!(out, "{time:.9} {stream} {tag} {text}").unwrap();
        }
    }

    async fn read(&self, options: LogOptions) -> Result<String, String> {
        let stream =
            self.logs.read(&uid(), "app", options).await.map_err(|error| error.to_string())?;
        let chunks: Vec<_> = stream.collect().await;
        let bytes = chunks.into_iter().map(|chunk| chunk.unwrap()).collect::<Vec<_>>().concat();
        Ok(String::from_utf8(bytes).unwrap())
    }
}

fn options() -> LogOptions {
    LogOptions::default()
}

#[tokio::test]
async fn lines_come_without_their_headers_and_parts_are_joined() {
    let mut fixture = Fixture::new();
    fixture.write("0.log", &["one", "", "tw\\", "o", "last\\"]);
    assert_eq!(fixture.read(options()).await.unwrap(), "one\n\ntwo\nlast");
    let stamped = LogOptions { timestamps: true, ..options() };
    assert_eq!(
        fixture.read(stamped).await.unwrap(),
        "2025-10-09T08:53:20.000000000Z one\n2025-10-09T08:53:21.000000000Z \n\
         2025-10-09T08:53:22.000000000Z two\n2025-10-09T08:53:24.000000000Z last"
    );
}

#[tokio::test]
async fn rotated_files_are_read_in_order_and_other_starts_are_not() {
    let mut fixture = Fixture::new();
    fixture.write("1.log.2", &["a", "b"]);
    fixture.write("1.log.1", &["c", "d"]);
    fixture.write("1.log", &["e"]);
    fixture.write("0.log", &["old"]);
    fixture.write("11.log", &["no"]);
    fs::write(fixture.path("1.log.gz"), "no").unwrap();
    fixture.status.send_replace(running(1));
    assert_eq!(fixture.read(options()).await.unwrap(), "a\nb\nc\nd\ne\n");
    let previous = LogOptions { run: ContainerRun::Previous, ..options() };
    assert_eq!(fixture.read(previous).await.unwrap(), "old\n");
}

#[tokio::test]
async fn the_tail_counts_lines_over_rotated_files() {
    let mut fixture = Fixture::new();
    fixture.write("0.log.1", &["a", "b\\", "b"]);
    fixture.write("0.log", &["c", "d\\", "d"]);
    for (lines, expected) in [
        (0, ""),
        (1, "dd\n"),
        (2, "c\ndd\n"),
        (3, "bb\nc\ndd\n"),
        (4, "a\nbb\nc\ndd\n"),
        (9, "a\nbb\nc\ndd\n"),
    ] {
        let tail = LogOptions { tail_lines: Some(lines), ..options() };
        assert_eq!(fixture.read(tail).await.unwrap(), expected, "--tail={lines}");
    }
    fixture.write("0.log", &["open\\"]);
    for (lines, expected) in [(0, ""), (1, "open"), (2, "dd\nopen")] {
        let tail = LogOptions { tail_lines: Some(lines), ..options() };
        let text = fixture.read(tail).await.unwrap();
        assert_eq!(text, expected, "--tail={lines}: a line without its end is a line");
    }
}

/// `printf foo; echo ERR >&2; echo bar`.
#[tokio::test]
async fn stdout_and_stderr_do_not_meet_in_one_line() {
    let mut fixture = Fixture::new();
    fixture.write("0.log.1", &["a", "foo\\"]);
    fixture.write("0.log", &["!ERR", "bar", "!e\\", "prompt\\", "!nd"]);
    assert_eq!(fixture.read(options()).await.unwrap(), "a\nERR\nfoobar\nend\nprompt");
    for (lines, expected) in [
        (1, "end\n"), // a line counts where its last piece stands
        (2, "end\nprompt"),
        (3, "foobar\nend\nprompt"),
        (4, "ERR\nfoobar\nend\nprompt"),
        (5, "a\nERR\nfoobar\nend\nprompt"),
    ] {
        let tail = LogOptions { tail_lines: Some(lines), ..options() };
        assert_eq!(fixture.read(tail).await.unwrap(), expected, "--tail={lines}");
    }
    let limited = LogOptions { limit_bytes: Some(18), ..options() };
    assert_eq!(fixture.read(limited).await.unwrap(), "a\nERR\nfoobar\nend\np");
    let stamped = LogOptions { timestamps: true, ..options() };
    let stamped = fixture.read(stamped).await.unwrap();
    let seconds = stamped.lines().map(|line| (&line[17..19], &line[31..]));
    let expected = [("20", "a"), ("22", "ERR"), ("21", "foobar"), ("24", "end"), ("25", "prompt")];
    assert_eq!(seconds.collect::<Vec<_>>(), expected);
    let text = last_lines(&fixture.path("0.log"), 80, 2048);
    assert_eq!(text, "ERR\nbar\nend\nprompt");
}

#[tokio::test(start_paused = true)]
async fn who_follows_is_shown_a_line_that_waits_for_its_end() {
    let mut fixture = Fixture::new();
    fixture.write("0.log", &["a", "password: \\"]);
    let follow = LogOptions { follow: true, ..options() };
    let mut stream = fixture.logs.read(&uid(), "app", follow).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "a\n");
    let asked = tokio::time::Instant::now();
    assert_eq!(stream.next().await.unwrap().unwrap(), "password: ");
    assert_eq!(asked.elapsed().as_millis() / 10, 20, "not before the other pieces can have come");
    fixture.write("0.log", &["wrong"]);
    assert_eq!(stream.next().await.unwrap().unwrap(), "wrong\n");
    fixture.write("0.log", &["bye\\"]);
    fixture.status.send_replace(status(json!({ "terminated": { "exitCode": 0 } }), 0, false));
    let rest: Vec<_> = stream.map(|chunk| chunk.unwrap()).collect().await;
    assert_eq!(rest.concat(), b"bye");
}

#[tokio::test(start_paused = true)]
async fn since_and_limits_cut_the_text() {
    let mut fixture = Fixture::new();
    fixture.write("0.log", &["a", "b", "c", "d"]);
    let since = |since| LogOptions { since: Some(since), ..options() };
    let at = |secs: u64| LogSince::Time(Tick::from_secs(START + secs));
    assert_eq!(fixture.read(since(at(2))).await.unwrap(), "c\nd\n");
    assert_eq!(fixture.read(since(at(99))).await.unwrap(), "");
    assert_eq!(fixture.read(since(LogSince::Seconds(98))).await.unwrap(), "c\nd\n");
    assert_eq!(fixture.read(since(LogSince::Seconds(u64::MAX))).await.unwrap(), "a\nb\nc\nd\n");
    let limited = LogOptions { limit_bytes: Some(3), ..options() };
    assert_eq!(fixture.read(limited).await.unwrap(), "a\nb");
}

#[tokio::test]
async fn a_reader_that_follows_sees_new_lines_over_rotations_until_the_container_ends() {
    let mut fixture = Fixture::new();
    fixture.write("0.log", &["a"]);
    let follow = LogOptions { follow: true, ..options() };
    let mut stream = fixture.logs.read(&uid(), "app", follow).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "a\n");
    fixture.write("0.log", &["b"]);
    assert_eq!(stream.next().await.unwrap().unwrap(), "b\n");
    // written to the old file, rotated twice, and on to the new one, all between two reads
    fixture.write("0.log", &["c"]);
    fs::rename(fixture.path("0.log"), fixture.path("0.log.1")).unwrap();
    fixture.write("0.log", &["d"]);
    fs::rename(fixture.path("0.log.1"), fixture.path("0.log.2")).unwrap();
    fs::rename(fixture.path("0.log"), fixture.path("0.log.1")).unwrap();
    fixture.write("0.log", &["e"]);
    let mut text = Vec::new();
    while text != b"c\nd\ne\n" {
        text.extend_from_slice(&stream.next().await.unwrap().unwrap());
    }
    fixture.write("0.log", &["last"]);
    fixture.status.send_replace(status(json!({ "terminated": { "exitCode": 0 } }), 0, false));
    let rest: Vec<_> = stream.map(|chunk| chunk.unwrap()).collect().await;
    assert_eq!(rest.concat(), b"last\n");
}

#[tokio::test]
async fn a_follower_ends_when_the_pod_is_gone() {
    let mut fixture = Fixture::new();
    fixture.write("0.log", &["a"]);
    let follow = LogOptions { follow: true, ..options() };
    let stream = fixture.logs.read(&uid(), "app", follow).await.unwrap();
    fixture.index.remove(&uid());
    drop(fixture.status);
    let all: Vec<_> = stream.map(|chunk| chunk.unwrap()).collect().await;
    assert_eq!(all.concat(), b"a\n");
}

/// The kubelet's messages.
#[tokio::test]
async fn a_log_that_is_not_there_is_explained() {
    let mut fixture = Fixture::new();
    fixture.write("0.log", &["first"]);
    let waiting = |reason: &str| json!({ "waiting": { "reason": reason } });
    for (found, run, expected) in [
        (
            running(0),
            ContainerRun::Previous,
            Err("previous terminated container \"app\" in pod \"web\" not found"),
        ),
        (
            status(waiting("ContainerCreating"), 0, false),
            ContainerRun::Current,
            Err("container \"app\" in pod \"web\" is waiting to start: ContainerCreating"),
        ),
        (
            status(waiting("ErrImagePull"), 0, false),
            ContainerRun::Current,
            Err("container \"app\" in pod \"web\" is waiting to start: image can't be pulled"),
        ),
        (
            status(waiting("ImagePullBackOff"), 0, false),
            ContainerRun::Current,
            Err(
                "container \"app\" in pod \"web\" is waiting to start: trying and failing to pull image",
            ),
        ),
        // between two starts the last one is shown, and it is the previous one, too
        (status(waiting("CrashLoopBackOff"), 0, true), ContainerRun::Current, Ok("first\n")),
        (status(waiting("CrashLoopBackOff"), 0, true), ContainerRun::Previous, Ok("first\n")),
        (
            status(json!({ "terminated": { "exitCode": 1 } }), 0, false),
            ContainerRun::Current,
            Ok("first\n"),
        ),
        (
            Arc::default(),
            ContainerRun::Current,
            Err("container \"app\" in pod \"web\" is not available"),
        ),
    ] {
        fixture.status.send_replace(found);
        let answer = fixture.read(LogOptions { run, ..options() }).await;
        assert_eq!(answer.as_deref().map_err(String::as_str), expected);
    }
    let unknown = fixture.logs.read(&PodUid("no".into()), "app", options()).await.err().unwrap();
    assert_eq!(unknown.to_string(), "pod no is not on this node");
}

/// Class of CVE: a log replaced by a link shows a file of the host.
#[tokio::test]
async fn a_log_that_is_a_link_is_not_read() {
    let fixture = Fixture::new();
    let secret = fixture.folder.join("secret");
    fs::write(&secret, "2025-10-09T08:53:20Z stdout F secret\n").unwrap();
    symlink(&secret, fixture.path("0.log")).unwrap();
    assert!(fixture.read(options()).await.is_err());
    assert_eq!(last_lines(&fixture.path("0.log"), 10, 100), "");
    fs::remove_file(fixture.path("0.log")).unwrap();
    fs::hard_link(&secret, fixture.path("0.log")).unwrap();
    assert!(fixture.read(options()).await.is_err());
    fs::remove_file(fixture.path("0.log")).unwrap();
    // a FIFO would hang the reader
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mkfifoat(rustix::fs::CWD, fixture.path("0.log"), mode).unwrap();
    assert!(fixture.read(options()).await.is_err());
    // nor through a folder that is a link
    fs::rename(fixture.path(""), fixture.folder.join("moved")).unwrap();
    fs::create_dir(fixture.folder.join("elsewhere")).unwrap();
    fs::write(fixture.folder.join("elsewhere/0.log"), "2025-10-09T08:53:20Z stdout F no\n")
        .unwrap();
    symlink(fixture.folder.join("elsewhere"), fixture.folder.join("logs/shop_web_u-1/app"))
        .unwrap();
    assert!(fixture.read(options()).await.is_err());
}

#[test]
fn the_end_of_a_log_is_cut_by_lines_and_bytes() {
    let mut fixture = Fixture::new();
    fixture.write("0.log", &["one", "two", "thr\\", "ee"]);
    let path = fixture.path("0.log");
    assert_eq!(last_lines(&path, 80, 2048), "one\ntwo\nthree\n");
    assert_eq!(last_lines(&path, 2, 2048), "two\nthree\n");
    assert_eq!(last_lines(&path, 80, 4), "ree\n");
    assert_eq!(last_lines(&fixture.path("7.log"), 80, 2048), "");
}

#[test]
fn logs_before_the_last_start_are_removed() {
    let mut fixture = Fixture::new();
    for file in ["0.log", "1.log.1", "1.log", "2.log", "3.log"] {
        fixture.write(file, &["x"]);
    }
    prune(&fixture.path(""), ContainerAttempt(3));
    let mut left: Vec<_> =
        fs::read_dir(fixture.path("")).unwrap().flatten().map(|e| e.file_name()).collect();
    left.sort();
    assert_eq!(left, ["2.log", "3.log"]);
}

#[test]
fn records_are_parsed_and_damaged_ones_are_not() {
    let entry = parse(b"2025-01-01T00:00:00Z stderr P some text").unwrap();
    assert_eq!(
        (entry.time, entry.stream, entry.end, entry.text),
        ("2025-01-01T00:00:00Z", OutputStream::Stderr, LineEnd::Partial, &b"some text"[..])
    );
    assert_eq!(parse(b"t stdout F ").unwrap().text, b"");
    assert_eq!(parse(b"t stdout F").unwrap().text, b"");
    assert_eq!(parse(b"t stdout F:tag x").unwrap().end, LineEnd::Full);
    for damaged in [
        &b""[..],
        b"t",
        b"t stdout",
        b"t stdout ",
        b"t stdout X text",
        b"t stdlog F text",
        b"\xff stdout F x",
    ] {
        assert_eq!(parse(damaged), None, "{damaged:?}");
    }
}

fn selection(tail_lines: Option<u64>) -> LogSelection {
    LogSelection { timestamps: false, tail_lines, since: None, limit_bytes: None }
}

fn read_all(fixture: &Fixture, tail_lines: Option<u64>) -> String {
    let mut reader =
        LogReader::new(fixture.path(""), ContainerAttempt(0), selection(tail_lines)).unwrap();
    let mut text = Vec::new();
    while let LogChunk::Data(bytes) = reader.next_chunk().unwrap() {
        text.extend_from_slice(&bytes);
    }
    text.extend(reader.open_lines().unwrap_or_default());
    String::from_utf8(text).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The tail is the same as the last lines of everything, however the text is cut into parts and
    /// files, and whatever the streams.
    #[test]
    fn the_tail_is_the_end_of_the_whole(
        files in proptest::collection::vec(proptest::collection::vec("!?([a-z]{1,6}\\\\?)?", 0..12), 1..4),
        open in proptest::option::of("!?[a-z]{1,6}\\\\"),
        lines in 0_u64..20,
    ) {
        let mut fixture = Fixture::new();
        for (number, texts) in files.iter().enumerate() {
            let rotation = files.len() - 1 - number;
            let name = if rotation == 0 { "0.log".to_owned() } else { format!("0.log.{rotation}") };
            fixture.write(&name, &texts.iter().map(String::as_str).collect::<Vec<_>>());
        }
        // so that one line is open at most, and it is the last
        fixture.write("0.log", &["!end", "end"]);
        fixture.write("0.log", open.as_deref().as_slice());
        let whole = read_all(&fixture, None);
        let mut last: Vec<&str> = whole.split_inclusive('\n').rev().take(usize::try_from(lines).unwrap()).collect();
        last.reverse();
        prop_assert_eq!(read_all(&fixture, Some(lines)), last.concat());
    }

    #[test]
    fn nothing_in_a_file_makes_the_reader_fail(bytes in proptest::collection::vec(any::<u8>(), 0..2000), lines in 0_u64..5) {
        let fixture = Fixture::new();
        fs::write(fixture.path("0.log"), bytes).unwrap();
        let mut reader = LogReader::new(fixture.path(""), ContainerAttempt(0), selection(Some(lines))).unwrap();
        while let LogChunk::Data(_) = reader.next_chunk().unwrap() {}
    }
}
