//! Names of signals, as `lifecycle.stopSignal` spells them.

/// SIGRTMIN as container runtimes count it: the two below are the C library's own.
const RTMIN: i32 = 34;
/// SIGRTMAX.
const RTMAX: i32 = 64;

/// The names in the order of their numbers, from 1 on (the same on x86_64 and aarch64). Source: signal(7).
const NAMES: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// The number of a signal by its name; `None` for a name that Kubernetes does not know.
pub(super) fn signal_number(name: &str) -> Option<i32> {
    match name {
        "SIGIOT" => return signal_number("SIGABRT"),
        "SIGCLD" => return signal_number("SIGCHLD"),
        "SIGPOLL" => return signal_number("SIGIO"),
        "SIGRTMIN" => return Some(RTMIN),
        "SIGRTMAX" => return Some(RTMAX),
        _ => {}
    }
    if let Some(above) = name.strip_prefix("SIGRTMIN+") {
        return above
            .parse::<i32>()
            .ok()
            .map(|n| RTMIN + n)
            .filter(|n| (RTMIN..=RTMAX).contains(n));
    }
    if let Some(below) = name.strip_prefix("SIGRTMAX-") {
        return below
            .parse::<i32>()
            .ok()
            .map(|n| RTMAX - n)
            .filter(|n| (RTMIN..=RTMAX).contains(n));
    }
    let at = NAMES.iter().position(|known| *known == name)?;
    i32::try_from(at + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::signal_number;

    #[test]
    fn names_have_the_numbers_of_signal_7() {
        for (name, number) in [
            ("SIGHUP", Some(1)),
            ("SIGKILL", Some(9)),
            ("SIGTERM", Some(15)),
            ("SIGCHLD", Some(17)),
            ("SIGWINCH", Some(28)),
            ("SIGSYS", Some(31)),
            ("SIGRTMIN", Some(34)),
            ("SIGRTMIN+3", Some(37)),
            ("SIGRTMAX-1", Some(63)),
            ("SIGRTMAX-40", None),
            ("TERM", None),
            ("", None),
        ] {
            assert_eq!(signal_number(name), number, "{name}");
        }
    }
}
