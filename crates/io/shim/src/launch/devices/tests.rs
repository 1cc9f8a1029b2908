//! The program is run as the kernel runs it; and given to cgroups, for which it takes root and the
//! unified hierarchy.

use std::fs;
use std::path::PathBuf;

use super::*;

const TYPE_BLOCK: u32 = 1;
const CHARACTER: u32 = TYPE_CHARACTER as u32;
const READ: u32 = 2;
const WRITE: u32 = 4;

/// Runs it for one access; every path ends, as jumps only go forward.
fn answer(access: u32, kind: u32, major: u32, minor: u32) -> u64 {
    let context = [access << 16 | kind, major, minor];
    let mut registers = [0u64; 6];
    let program = program();
    let mut at = 0;
    loop {
        let [operation, both, o0, o1, n0, n1, n2, n3] = program[at].to_ne_bytes();
        let (low, high) = (usize::from(both & 15), usize::from(both >> 4));
        let (to, from) = if cfg!(target_endian = "little") { (low, high) } else { (high, low) };
        let offset = usize::try_from(i16::from_ne_bytes([o0, o1])).unwrap();
        let number = i32::from_ne_bytes([n0, n1, n2, n3]) as u64;
        at += 1;
        match operation {
            LOAD => registers[to] = context[offset / 4].into(),
            MOVE => registers[to] = registers[from],
            SET => registers[to] = number,
            SHIFT_RIGHT => registers[to] >>= number,
            AND => registers[to] &= number,
            IF_EQUAL if registers[to] == number => at += offset,
            IF_OTHER if registers[to] != number => at += offset,
            IF_EQUAL | IF_OTHER => {}
            EXIT => return registers[0],
            other => panic!("operation {other:#x}"),
        }
    }
}

#[test]
fn the_usual_devices_and_terminals_are_opened_and_no_others() {
    for major in 0..256 {
        for minor in 0..256 {
            let usual = matches!((major, minor), (1, 3 | 5 | 7 | 8 | 9) | (5, 0..=2) | (136, _));
            for access in [READ, WRITE, READ | WRITE] {
                let name = format!("{access} {major}:{minor}");
                assert_eq!(answer(access, CHARACTER, major, minor), u64::from(usual), "c {name}");
                assert_eq!(answer(access, TYPE_BLOCK, major, minor), 0, "b {name}");
            }
        }
    }
}

#[test]
fn any_node_is_made_but_not_opened_with_it() {
    let make = ACCESS_MKNOD as u32;
    for kind in [TYPE_BLOCK, CHARACTER] {
        assert_eq!(answer(make, kind, 259, 1), 1);
        assert_eq!(answer(make | READ, kind, 259, 1), 0);
    }
}

/// A cgroup with one beneath, in the unified hierarchy.
struct Nested(PathBuf);

impl Nested {
    fn new() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let unified = mounts.lines().find(|line| line.contains(" - cgroup2 ")).unwrap();
        let root = PathBuf::from(unified.split(' ').nth(4).unwrap());
        let outer = root.join(format!("rekindle-devices-{}", std::process::id()));
        fs::create_dir(&outer).unwrap();
        fs::create_dir(outer.join("inner")).unwrap();
        Self(outer)
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.0.join("inner"));
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_nested_runtime_gives_its_containers_programs_too() {
    let nested = Nested::new();
    for path in [nested.0.clone(), nested.0.join("inner")] {
        let cgroup = fs::File::open(&path).unwrap();
        assert_eq!(sys::attach_device_program(&program(), cgroup.as_fd()), Ok(()), "{path:?}");
    }
}
