//! The pages of a program's own code, as far as they are mapped.
//!
//! The kernel maps code in pieces of 64 KiB around each page that is used, and never unmaps it
//! while memory is plenty; so a process that has started shows nearly all of its code as resident,
//! most of which only its start needed. What is given back here stays in the page cache and is
//! mapped again, without the disk, when it is used again.

use std::fs;
use std::io;
use std::ops::Range;

use crate::sys;

/// Unmaps the code and the constants of this program. Answers how many bytes of address space that
/// concerned.
///
/// # Errors
/// `/proc` cannot be read, or the kernel refuses.
pub fn give_back() -> io::Result<usize> {
    let program = fs::read_link("/proc/self/exe")?;
    let smaps = fs::read_to_string("/proc/self/smaps")?;
    let mut bytes = 0;
    for mapping in untouched(&smaps, &program.to_string_lossy()) {
        bytes += mapping.len();
        sys::unmap_file_pages(mapping)?;
    }
    Ok(bytes)
}

/// The mappings of this file that nobody can write to, and of which no page was ever changed. What
/// the loader has changed before it took the right to write away holds pages of its own, in memory
/// or swapped out, which are in no file.
fn untouched(smaps: &str, program: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut current = None;
    for line in smaps.lines() {
        if let Some(own) = line.strip_prefix("Anonymous:").or_else(|| line.strip_prefix("Swap:")) {
            current = current.filter(|_| own.trim() == "0 kB");
        } else if line.starts_with("VmFlags:") {
            // the last line of each
            found.extend(current.take());
        } else if let Some(mapping) = header(line) {
            let is_code = mapping.path == program && matches!(mapping.rights, "r-xp" | "r--p");
            current = is_code.then_some(mapping.range);
        }
    }
    found
}

struct MappingHeader<'a> {
    range: Range<usize>,
    rights: &'a str,
    path: &'a str,
}

/// `from-to rights offset device inode path`, what each mapping begins with; see proc_pid_smaps(5).
fn header(line: &str) -> Option<MappingHeader<'_>> {
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(from)?..address(to)?;
    let mut fields = rest.splitn(5, ' ');
    let rights = fields.next()?;
    let path = fields.nth(3).unwrap_or_default().trim_start();
    Some(MappingHeader { range, rights, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
1000-3000 r--p 00000000 fe:00 12345                      /usr/bin/the program
Rss:                   8 kB
Anonymous:             0 kB
VmFlags: rd mr mw me sd
3000-9000 r-xp 00002000 fe:00 12345                      /usr/bin/the program
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
9000-a000 r--p 00008000 fe:00 12345                      /usr/bin/the program
Anonymous:             4 kB
Swap:                  0 kB
VmFlags: rd mr mw me ac
a000-b000 r--p 00009000 fe:00 12345                      /usr/bin/the program
Anonymous:             0 kB
Swap:                  4 kB
VmFlags: rd mr mw me ac
b000-c000 rw-p 0000a000 fe:00 12345                      /usr/bin/the program
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd wr mr mw me ac
c000-d000 rw-p 00000000 00:00 0                          [heap]
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd wr mr mw me ac
d000-e000 r-xp 00000000 fe:00 777                        /usr/lib/libc.so.6
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
";

    #[test]
    fn only_what_is_as_in_the_file_and_stays_so_is_given_back() {
        assert_eq!(untouched(SMAPS, "/usr/bin/the program"), [0x1000..0x3000, 0x3000..0x9000]);
        assert_eq!(untouched(SMAPS, "/usr/bin/another"), []);
    }

    #[test]
    fn a_program_goes_on_after_it_has_given_its_code_back() {
        let first = give_back().unwrap();
        assert!(first > 0);
        assert_eq!(give_back().unwrap(), first);
    }
}
