//! How fast the store is on this machine's disk: durable puts per second, their latency, range
//! reads, watch fan-out, reopening, encryption at rest. `cargo run --release -p rekindle-redb-disk
//! --example bench [FOLDER]`, with a folder on the disk to measure.
#![allow(clippy::disallowed_methods, reason = "a measurement needs a clock and threads")]

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rekindle_encryption::{EncryptedDisk, Encryption};
use rekindle_redb_disk::RedbDisk;
use rekindle_store::{Mutation, RangeQuery, Revision, Store, StoreLimits, WritePrecondition};
use serde_json::json;

const VALUE_BYTES: usize = 1_000;
const RUN: Duration = Duration::from_secs(3);
const OBJECTS: usize = 5_000;
const WATCHERS: usize = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = match std::env::args().nth(1) {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let file = folder.path().join("store.redb");
    let start = Instant::now();
    let (store, committer) = Store::open(RedbDisk::new(&file), StoreLimits::default())?;
    println!("create: {} us", start.elapsed().as_micros());
    let committing = std::thread::spawn(move || committer.run());
    for clients in [1, 32, 128] {
        puts(&store, clients, "configmaps");
    }
    fill(&store)?;
    println!("resident: {}", resident()?);
    ranges(&store)?;
    fan_out(&store)?;
    drop(store);
    committing.join().map_err(|_| "the committer panicked")?;
    reopen(&file)?;
    encrypted(folder.path())
}

/// Puts without encryption, and with each provider. After each a start with what was put.
fn encrypted(folder: &Path) -> Result<(), Box<dyn Error>> {
    let key =
        json!({"keys": [{"name": "k", "secret": "b2xkIGtleSBvZiBleGFjdGx5IHRoaXJ0eS10d28gYnk="}]});
    for provider in ["identity", "aesgcm", "secretbox", "aescbc"] {
        let settings = if provider == "identity" { json!({}) } else { key.clone() };
        let encryption = || {
            let configuration = json!({
                "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
                "resources": [{"resources": ["secrets"], "providers": [{provider: settings.clone()}]}],
            });
            // no randomness: an engine also asks the kernel for each nonce
            let next = AtomicU8::new(0);
            let random = move |bytes: &mut [u8]| bytes.fill(next.fetch_add(1, Ordering::Relaxed));
            Encryption::from_value(configuration, Box::new(random))
        };
        println!("{provider}:");
        let file = folder.join(provider);
        let disk = EncryptedDisk::new(RedbDisk::new(&file), encryption()?);
        let (store, committer) = Store::open(disk, StoreLimits::default())?;
        let committing = std::thread::spawn(move || committer.run());
        puts(&store, 32, "secrets");
        drop(store);
        committing.join().map_err(|_| "the committer panicked")?;
        let start = Instant::now();
        let disk = EncryptedDisk::new(RedbDisk::new(&file), encryption()?);
        let (store, _committer) = Store::open(disk, StoreLimits::default())?;
        let objects = store.count("/secrets/");
        println!("      start with {objects} objects: {} ms", start.elapsed().as_millis());
    }
    Ok(())
}

fn puts(store: &Store, clients: usize, resource: &str) {
    let value = Bytes::from(vec![b'x'; VALUE_BYTES]);
    let end = Instant::now() + RUN;
    let mut latencies: Vec<Duration> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|client| {
                let value = &value;
                let prefix = format!("/{resource}/default/c{client}-");
                scope.spawn(move || put_until(store, &prefix, value, end))
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no client panics")).collect()
    });
    latencies.sort_unstable();
    let per_second = latencies.len() as f64 / RUN.as_secs_f64();
    let at = |percent: usize| latencies[(latencies.len() - 1) * percent / 100].as_micros();
    println!(
        "{clients:>4} clients: {per_second:>7.0} durable puts/s of {VALUE_BYTES} B; latency p50 {} us, p99 {} us",
        at(50),
        at(99)
    );
}

fn put_until(store: &Store, prefix: &str, value: &Bytes, end: Instant) -> Vec<Duration> {
    let mut latencies = Vec::new();
    for number in 0.. {
        let start = Instant::now();
        if start >= end {
            break;
        }
        let key = format!("{prefix}{}", number % 500);
        let mutation = Mutation::Put(&|_| value.clone());
        let written =
            store.write(&key, WritePrecondition::Any, mutation).and_then(|pending| pending.wait());
        written.expect("the disk takes the write");
        latencies.push(start.elapsed());
    }
    latencies
}

fn fill(store: &Store) -> Result<(), Box<dyn Error>> {
    let value = Bytes::from(vec![b'x'; VALUE_BYTES]);
    for number in 0..OBJECTS {
        let key = format!("/pods/default/p{number:05}");
        let mutation = Mutation::Put(&|_| value.clone());
        let pending = store.write(&key, WritePrecondition::Any, mutation)?;
        if number % 1_000 == 999 {
            pending.wait()?;
        }
    }
    store.barrier()?.wait()?;
    Ok(())
}

fn ranges(store: &Store) -> Result<(), Box<dyn Error>> {
    let all = RangeQuery { prefix: "/pods/".into(), ..Default::default() };
    let page = RangeQuery { limit: Some(500), ..all.clone() };
    for (name, query) in [("range of 5,000 objects", &all), ("page of 500 of 5,000", &page)] {
        let rounds = 200_u32;
        let start = Instant::now();
        for _ in 0..rounds {
            std::hint::black_box(store.range(query)?);
        }
        println!("{name}: {} us", (start.elapsed() / rounds).as_micros());
    }
    let start = Instant::now();
    let rounds = 100_000_u32;
    for number in 0..rounds {
        std::hint::black_box(store.get(&format!("/pods/default/p{:05}", number % 5_000)));
    }
    println!("get: {} ns", (start.elapsed() / rounds).as_nanos());
    Ok(())
}

/// The process's resident memory as the kernel writes it.
fn resident() -> Result<String, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(line.ok_or("no VmRSS line")?.trim().to_owned())
}

fn fan_out(store: &Store) -> Result<(), Box<dyn Error>> {
    let mut watches = Vec::new();
    for _ in 0..WATCHERS {
        watches.push(store.watch("/pods/", store.revision())?);
    }
    let written = store.write(
        "/pods/default/p0",
        WritePrecondition::Any,
        Mutation::Put(&|_| Bytes::new()),
    )?;
    let revision = written.wait()?.revision;
    let start = Instant::now();
    for watch in &mut watches {
        let event = watch.try_next().ok_or("a watcher saw nothing")??;
        assert_eq!(event.revision(), revision);
    }
    println!("one event taken by {WATCHERS} watchers: {} us", start.elapsed().as_micros());
    let _unwatched = store.watch("/nodes/", Revision(revision.0))?;
    Ok(())
}

fn reopen(file: &Path) -> Result<(), Box<dyn Error>> {
    let copy = file.with_extension("killed");
    for (name, path) in [("closed", file), ("not closed, as after kill -9", &copy)] {
        let start = Instant::now();
        let (store, committer) = Store::open(RedbDisk::new(path), StoreLimits::default())?;
        let (count, size_mib) = (store.count(""), file.metadata()?.len() >> 20);
        println!(
            "open {count} objects, {size_mib} MiB, {name}: {} us",
            start.elapsed().as_micros()
        );
        // A copy of the file while it is open is what a killed process leaves behind.
        std::fs::copy(file, &copy)?;
        drop(committer);
    }
    Ok(())
}
