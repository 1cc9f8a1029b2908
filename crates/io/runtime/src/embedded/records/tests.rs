use rekindle_types::{ContainerAttempt, ContainerName, PodRef, PodUid, SandboxAttempt};

use super::*;

fn key() -> SandboxKey {
    let pod =
        PodRef { namespace: "default".into(), name: "web".into(), uid: PodUid("uid-1".to_owned()) };
    SandboxKey { pod, attempt: SandboxAttempt(0) }
}

fn made(attempt: u32) -> (String, SlotRecord) {
    let key = ContainerKey {
        sandbox: key(),
        name: ContainerName("app".to_owned()),
        attempt: ContainerAttempt(attempt),
    };
    let record = SlotRecord {
        key,
        id: "0".repeat(64),
        image_id: "sha256:1".to_owned(),
        user: None,
        volume_images: Vec::new(),
        stop_signal: 15,
        root: Some(attempt.to_string()),
    };
    (format!("app-{attempt}"), record)
}

fn add_made(file: &RecordFile, attempt: u32) {
    let (slot, record) = made(attempt);
    file.add(&RecordLine::Made { slot, record }).unwrap();
}

fn sandbox() -> SandboxRecord {
    SandboxRecord {
        key: key(),
        hostname: "web".to_owned(),
        engine_id: "e".to_owned(),
        namespaces: Namespaces::default(),
    }
}

#[test]
fn records_come_to_what_still_stands() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(SandboxRecords::read(dir.path()), SandboxRecords::default());
    let file = RecordFile::open(dir.path()).unwrap();
    assert_eq!(SandboxRecords::read(dir.path()), SandboxRecords::default(), "a spare is nobody's");
    file.add(&RecordLine::Sandbox(sandbox())).unwrap();
    add_made(&file, 0);
    add_made(&file, 1);
    file.add(&RecordLine::Gone { slot: "app-0".to_owned() }).unwrap();
    let expected = SandboxRecords { sandbox: Some(sandbox()), containers: [made(1)].into() };
    assert_eq!(SandboxRecords::read(dir.path()), expected);
    file.remove().unwrap();
    assert_eq!(SandboxRecords::read(dir.path()), SandboxRecords::default());
}

#[test]
fn a_line_that_was_cut_short_does_not_count_and_harms_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let file = RecordFile::open(dir.path()).unwrap();
    file.add(&RecordLine::Sandbox(sandbox())).unwrap();
    let path = dir.path().join(FILE);
    let mut content = fs::read(&path).unwrap();
    content.extend(b"\n{\"Made\":{\"slot\":\"app-0\",\"rec");
    fs::write(&path, content).unwrap();
    let file = RecordFile::open(dir.path()).unwrap();
    add_made(&file, 1);
    let expected = SandboxRecords { sandbox: Some(sandbox()), containers: [made(1)].into() };
    assert_eq!(SandboxRecords::read(dir.path()), expected);
}

#[test]
fn the_file_does_not_grow_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let file = RecordFile::open(dir.path()).unwrap();
    file.add(&RecordLine::Sandbox(sandbox())).unwrap();
    for attempt in 0..3000 {
        add_made(&file, attempt);
        file.add(&RecordLine::Gone { slot: made(attempt).0 }).unwrap();
    }
    add_made(&file, 3000);
    assert!(fs::metadata(dir.path().join(FILE)).unwrap().len() < BYTES_MAX + 1024);
    let expected = SandboxRecords { sandbox: Some(sandbox()), containers: [made(3000)].into() };
    assert_eq!(SandboxRecords::read(dir.path()), expected);
}
