//! Names of kernel settings: `net.ipv4.ip_forward`, or as sysctl(8) takes them as well, `net/ipv4/ip_forward`. In the second
//! form dots are part of a name: `net/ipv4/conf/eth0.100/rp_filter`.

/// The name with dots between its parts, and slashes for the dots that a part holds (kubelet: `NormalizeName`).
pub fn with_dots(name: &str) -> String {
    match name.find(['.', '/']).and_then(|at| name.get(at..=at)) {
        Some("/") => swapped(name),
        Some(_) | None => name.to_owned(),
    }
}

fn swapped(name: &str) -> String {
    name.chars()
        .map(|letter| match letter {
            '.' => '/',
            '/' => '.',
            other => other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_name_are_one_setting() {
        for (given, name) in [
            ("net.core.somaxconn", "net.core.somaxconn"),
            ("net/core/somaxconn", "net.core.somaxconn"),
            ("net/ipv4/conf/eth0.100/x", "net.ipv4.conf.eth0/100.x"),
            ("net.ipv4.conf.eth0/100.x", "net.ipv4.conf.eth0/100.x"),
            ("plain", "plain"),
        ] {
            assert_eq!(with_dots(given), name, "{given}");
        }
    }
}
