//! What fuzzers have found, and what they begin with, is tried again.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test reads files")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use rekindle_fuzz::TARGETS;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn names(folder: PathBuf) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_input_that_is_kept_does_no_harm() {
    for target in &TARGETS {
        let inputs = names(folder("corpus").join(target.name));
        assert!(!inputs.is_empty(), "{}", target.name);
        for input in inputs {
            println!("{} {input}", target.name); // shown when it panics
            (target.run)(&std::fs::read(folder("corpus").join(target.name).join(input)).unwrap());
        }
    }
}

#[test]
fn every_target_has_a_corpus_and_a_program_and_no_other_has() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(names(folder("corpus")), targets);
    let programs = names(folder("../../../fuzz/fuzz_targets"));
    let of_targets = targets.iter().map(|target| format!("{target}.rs")).collect();
    assert_eq!(programs, of_targets);
}
