//! A name cut so that more may follow it: of another object's name, or of a file's.

/// As much of an object's name as has at most so many bytes, and may stand before `.` or `-` in
/// another one (RFC 1123).
pub fn name_stem(name: &str, bytes_max: usize) -> &str {
    name[..name.floor_char_boundary(bytes_max)].trim_end_matches(['-', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stem_ends_as_a_name_may() {
        assert_eq!(name_stem("web-0", 9), "web-0");
        assert_eq!(name_stem("web-0", 4), "web");
        assert_eq!(name_stem("a.-b", 3), "a");
        assert_eq!(name_stem("web", 0), "");
    }
}
