//! Plays the campaigns of many seeds on all cores and shows the first that breaks a promise, made
//! as small as it can be: `cargo xtask sim --seeds 1..1000`, or as many as there is time for:
//! `cargo xtask sim --seeds 1.. --for 2h`. The same seed and commit give the same trace.
#![allow(clippy::disallowed_methods, reason = "it tells how long it takes")]

use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rekindle_sim::{Campaign, CampaignFailure};

/// Runs that making a failure smaller may take.
const SHRINK_RUNS: usize = 300;
/// Lines of the trace that are shown.
const LINES_SHOWN: usize = 60;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let seeds = arguments.next().as_deref().and_then(range);
    let time = arguments.next().map_or(Some(Duration::MAX), |text| {
        humantime::parse_duration(&text).ok().filter(|time| !time.is_zero())
    });
    let (Some(seeds), Some(time)) = (seeds, time) else {
        eprintln!(
            "give the seeds, such as 1..1000 (the last is not played), 1.. or 17, and perhaps a time, such as 2h"
        );
        return ExitCode::FAILURE;
    };
    let begin = Instant::now();
    let (count, failure) = play_all(seeds, begin.checked_add(time));
    let seconds = begin.elapsed().as_secs_f64();
    let Some(failure) = failure else {
        println!(
            "{count} seeds passed in {seconds:.1} s ({:.0} a minute)",
            count as f64 / seconds * 60.0
        );
        return ExitCode::SUCCESS;
    };
    show(&failure);
    ExitCode::FAILURE
}

/// `A..B`, `A..`, or one seed.
fn range(text: &str) -> Option<Range<u64>> {
    match text.split_once("..") {
        Some((from, "")) => from.parse().ok().map(|from: u64| from..u64::MAX),
        Some((from, to)) => {
            let (from, to) = (from.parse().ok()?, to.parse().ok()?);
            (from < to).then_some(from..to)
        }
        None => text.parse().ok().map(|seed: u64| seed..seed + 1),
    }
}

/// How many were played until then, and the failure of the lowest seed that has one: every seed
/// below it was played.
fn play_all(seeds: Range<u64>, until: Option<Instant>) -> (u64, Option<Box<CampaignFailure>>) {
    let next = AtomicU64::new(seeds.start);
    let first: Mutex<Option<Box<CampaignFailure>>> = Mutex::new(None);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let found = first.lock().unwrap_or_else(PoisonError::into_inner).is_some();
                    if found || until.is_some_and(|until| Instant::now() >= until) {
                        return;
                    }
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    if let Err(failure) = Campaign::of_seed(seed).check() {
                        let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                        if first.as_ref().is_none_or(|known| known.seed > seed) {
                            *first = Some(failure);
                        }
                    }
                }
            });
        }
    });
    let played = next.into_inner().min(seeds.end) - seeds.start;
    (played, first.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn show(failure: &CampaignFailure) {
    println!("seed {}, step {}: {}", failure.seed, failure.step, failure.message);
    // where it panics was told when it was found; each smaller campaign that panics as well would
    // tell it again
    std::panic::set_hook(Box::new(|_| {}));
    let campaign = Campaign::of_seed(failure.seed);
    let smallest = campaign.shrink(failure, SHRINK_RUNS);
    let failure = match smallest.check() {
        Err(failure) => *failure,
        Ok(_) => failure.clone(),
    };
    println!("\nthe smallest campaign in which that promise breaks: {smallest:#?}");
    println!("\nits last steps:");
    let skipped = failure.trace.len().saturating_sub(LINES_SHOWN);
    failure.trace[skipped..].iter().for_each(|line| println!("{line}"));
    println!("\n{}\nagain: cargo xtask sim --seeds {}", failure.message, failure.seed);
}
