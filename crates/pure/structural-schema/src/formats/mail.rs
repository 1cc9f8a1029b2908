//! Mail addresses (RFC 5322), with a name or without.

/// Whether a text is one address, such as `a@b.c` or `Ann <a@b.c>`.
pub(super) fn is_address(text: &str) -> bool {
    let text = text.trim();
    let Some(inner) = text.strip_suffix('>') else { return is_bare_address(text) };
    let Some((name, address)) = inner.rsplit_once('<') else { return false };
    let name = name.trim();
    let is_name = is_quoted(name) || name.split(' ').all(|word| word.chars().all(is_atom_sign));
    is_name && is_bare_address(address.trim())
}

fn is_bare_address(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    (is_quoted(local) || is_dot_atom(local)) && (is_dot_atom(domain) || is_literal(domain))
}

fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_sign))
}

fn is_atom_sign(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || !sign.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(sign)
}

fn is_literal(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    inner.is_some_and(|inner| super::address::parse_ip(inner.trim_start_matches("IPv6:")).is_some())
}

fn is_quoted(text: &str) -> bool {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.is_some_and(|inner| {
        let mut signs = inner.chars();
        while let Some(sign) = signs.next() {
            match sign {
                '"' => return false,
                '\\' if signs.next().is_none() => return false,
                sign if sign.is_ascii_control() => return false,
                _ => {}
            }
        }
        true
    })
}
