//! Names of signals, as `lifecycle.stopSignal` and images spell them.

/// SIGRTMIN as container runtimes count it: the two below are the C library's own.
const RTMIN: i32 = 34;
/// SIGRTMAX.
const RTMAX: i32 = 64;

/// The names in the order of their numbers, from 1 on (the same on x86_64 and aarch64). Source:
/// signal(7).
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

/// What Kubernetes knows above SIGRTMIN and below SIGRTMAX; each signal has one of these names.
const ABOVE_RTMIN_MAX: i32 = 15;
const BELOW_RTMAX_MAX: i32 = 14;

/// All names that `lifecycle.stopSignal` may have on Linux, in order (KEP-4960).
pub fn stop_signal_names() -> Vec<String> {
    let aliases = ["SIGIOT", "SIGCLD", "SIGPOLL", "SIGRTMIN", "SIGRTMAX"];
    let plain = NAMES.into_iter().chain(aliases).map(str::to_owned);
    let above = (1..=ABOVE_RTMIN_MAX).map(|number| format!("SIGRTMIN+{number}"));
    let below = (1..=BELOW_RTMAX_MAX).map(|number| format!("SIGRTMAX-{number}"));
    let mut names: Vec<String> = plain.chain(above).chain(below).collect();
    names.sort();
    names
}

/// The number of a signal by its name, `SIGTERM`; `None` for one that Linux does not know.
pub fn signal_number(name: &str) -> Option<i32> {
    let name = match name {
        "SIGIOT" => "SIGABRT",
        "SIGCLD" => "SIGCHLD",
        "SIGPOLL" => "SIGIO",
        "SIGRTMIN" => return Some(RTMIN),
        "SIGRTMAX" => return Some(RTMAX),
        plain => plain,
    };
    let real_time = |number: &i32| (RTMIN..=RTMAX).contains(number);
    if let Some(above) = name.strip_prefix("SIGRTMIN+") {
        return above.parse::<i32>().ok().and_then(|n| RTMIN.checked_add(n)).filter(real_time);
    }
    if let Some(below) = name.strip_prefix("SIGRTMAX-") {
        return below.parse::<i32>().ok().and_then(|n| RTMAX.checked_sub(n)).filter(real_time);
    }
    let at = NAMES.iter().position(|known| *known == name)?;
    i32::try_from(at + 1).ok()
}

/// The same as an image may spell it: `SIGQUIT`, `quit`, `3`, `RTMIN+3`.
pub fn signal_number_of_image(text: &str) -> Option<i32> {
    let upper = text.trim().to_ascii_uppercase();
    match upper.parse::<i32>() {
        Ok(number) => Some(number).filter(|number| (1..=RTMAX).contains(number)),
        Err(_) if upper.starts_with("SIG") => signal_number(&upper),
        Err(_) => signal_number(&format!("SIG{upper}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_numbers_of_signal_7() {
        for (name, number) in [
            ("SIGHUP", Some(1)),
            ("SIGKILL", Some(9)),
            ("SIGTERM", Some(15)),
            ("SIGCHLD", Some(17)),
            ("SIGCLD", Some(17)),
            ("SIGIOT", Some(6)),
            ("SIGPOLL", Some(29)),
            ("SIGWINCH", Some(28)),
            ("SIGSYS", Some(31)),
            ("SIGRTMIN", Some(34)),
            ("SIGRTMIN+3", Some(37)),
            ("SIGRTMAX-1", Some(63)),
            ("SIGRTMAX-40", None),
            ("SIGRTMIN+2147483647", None),
            ("SIGRTMAX--2147483648", None),
            ("TERM", None),
            ("", None),
        ] {
            assert_eq!(signal_number(name), number, "{name}");
        }
    }

    #[test]
    fn every_name_that_kubernetes_knows_has_a_number_and_they_are_sixty_five() {
        let names = stop_signal_names();
        assert_eq!(names.len(), 65);
        for name in names {
            assert!(signal_number(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn images_spell_signals_in_many_ways() {
        for (text, number) in [
            ("SIGQUIT", Some(3)),
            (" quit ", Some(3)),
            ("3", Some(3)),
            ("SIGRTMIN+3", Some(37)),
            ("rtmax-1", Some(63)),
            ("SIGXCPU", Some(24)),
            ("SIGNONSENSE", None),
            ("900", None),
            ("0", None),
        ] {
            assert_eq!(signal_number_of_image(text), number, "{text:?}");
        }
    }
}
