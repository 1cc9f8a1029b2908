//! Names in a layer: split, checked and sorted by what they ask for, before anything touches the
//! disk. Pure.

/// Folders in a path at most. Small enough that a tree can be removed with one open folder for each
/// level.
const DEPTH_MAX: usize = 200;
/// Bytes of one name at most: the file systems' limit.
const NAME_MAX: usize = 255;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
const WHITEOUT_META: &[u8] = b".wh..wh.";

/// The parts of a path beneath the layer's root; empty for the root itself.
pub(super) type Parts = Vec<Vec<u8>>;

/// What an entry's name asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EntryTarget {
    /// The entry itself, here.
    Place(Parts),
    /// `.wh.<name>`: whatever lower layers have here is gone.
    Whiteout(Parts),
    /// `.wh..wh..opq`: nothing of lower layers is seen in this folder.
    Opaque(Parts),
    /// Bookkeeping of aufs, which no engine unpacks.
    Ignored,
}

/// Splits a path as it stands in an archive. A leading `/` means the layer's root, as all engines
/// read it; `..` is refused.
pub(super) fn split(path: &[u8]) -> Result<Parts, &'static str> {
    let mut parts = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err("its path has a `..`"),
            _ if part.len() > NAME_MAX => return Err("a name of more than 255 bytes"),
            _ if part.contains(&0) => return Err("its path has a zero byte"),
            _ => parts.push(part.to_vec()),
        }
    }
    if parts.len() > DEPTH_MAX {
        return Err("more than 200 folders deep");
    }
    Ok(parts)
}

/// What the entry of this path asks for.
pub(super) fn target(path: &[u8]) -> Result<EntryTarget, &'static str> {
    let mut parts = split(path)?;
    let Some((name, parents)) = parts.split_last() else { return Ok(EntryTarget::Place(parts)) };
    if parents.iter().any(|part| part.starts_with(WHITEOUT)) {
        return Err("it lies inside a whiteout");
    }
    if name == OPAQUE {
        parts.pop();
        return Ok(EntryTarget::Opaque(parts));
    }
    if name.starts_with(WHITEOUT_META) {
        return Ok(EntryTarget::Ignored);
    }
    let Some(hidden) = name.strip_prefix(WHITEOUT) else { return Ok(EntryTarget::Place(parts)) };
    match hidden {
        b"" | b"." | b".." => Err("a whiteout of no name"),
        _ => {
            let hidden = hidden.to_vec();
            parts.pop();
            parts.push(hidden);
            Ok(EntryTarget::Whiteout(parts))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(list: &[&str]) -> Parts {
        list.iter().map(|part| part.as_bytes().to_vec()).collect()
    }

    #[test]
    fn paths_are_taken_beneath_the_root() {
        for path in ["etc/passwd", "/etc/passwd", "./etc//./passwd", "etc/passwd/"] {
            assert_eq!(
                target(path.as_bytes()),
                Ok(EntryTarget::Place(parts(&["etc", "passwd"]))),
                "{path}"
            );
        }
        for path in ["", ".", "/", "./"] {
            assert_eq!(target(path.as_bytes()), Ok(EntryTarget::Place(vec![])), "{path:?}");
        }
        assert_eq!(target(b"a/..b/..."), Ok(EntryTarget::Place(parts(&["a", "..b", "..."]))));
    }

    #[test]
    fn whiteouts_are_told_from_files() {
        assert_eq!(target(b"a/.wh.b"), Ok(EntryTarget::Whiteout(parts(&["a", "b"]))));
        assert_eq!(target(b"a/.wh..wh..opq"), Ok(EntryTarget::Opaque(parts(&["a"]))));
        assert_eq!(target(b".wh..wh..opq"), Ok(EntryTarget::Opaque(vec![])));
        assert_eq!(target(b".wh..wh.plnk"), Ok(EntryTarget::Ignored));
        assert_eq!(target(b"a/.whatever"), Ok(EntryTarget::Place(parts(&["a", ".whatever"]))));
    }

    #[test]
    fn what_could_leave_the_root_is_refused() {
        let deep = "d/".repeat(201);
        let long = "n".repeat(256);
        for path in [
            "..",
            "../x",
            "a/../../x",
            "/..",
            "a/..",
            ".wh.",
            ".wh..",
            ".wh...",
            "a/.wh.b/c",
            "a\0b",
            &deep,
            &long,
        ] {
            assert!(target(path.as_bytes()).is_err(), "{path:?}");
        }
    }
}
