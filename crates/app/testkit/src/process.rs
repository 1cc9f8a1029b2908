//! What the kernel says of a container's first process, seen from the host.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

/// The namespaces a process can have of its own.
const NAMESPACES: [&str; 8] = ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"];

/// Lines of /proc/<pid>/status that make up what a process may do.
const RIGHTS: [&str; 13] = [
    "Umask:",
    "Uid:",
    "Gid:",
    "Groups:",
    "NSpid:",
    "CapInh:",
    "CapPrm:",
    "CapEff:",
    "CapBnd:",
    "CapAmb:",
    "NoNewPrivs:",
    "Seccomp:",
    "Seccomp_filters:",
];

/// Files of a cgroup, of both versions, that say what its processes may use.
const LIMITS: [&str; 14] = [
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.shares",
    "cpu.max",
    "cpu.weight",
    "cpuset.cpus",
    "memory.limit_in_bytes",
    "memory.max",
    "memory.high",
    "memory.swap.max",
    "memory.oom.group",
    "pids.max",
    "devices.list",
    "freezer.state",
];

/// The one process of the machine that has this variable in its environment and is the first of a
/// PID namespace.
pub fn find(name: &str, value: &str) -> Option<u32> {
    let wanted = format!("{name}={value}");
    fs::read_dir("/proc").expect("list /proc").flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        environment.split(|byte| *byte == 0).find(|one| *one == wanted.as_bytes())?;
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        (line(&status, "NSpid:")?.ends_with("\t1")).then_some(pid)
    })
}

/// The namespaces of a process, held open while a test compares them with later ones: the kernel
/// gives the number of a namespace again once no process holds it.
pub fn hold_namespaces(pid: u32) -> Vec<File> {
    let open = |kind| File::open(format!("/proc/{pid}/ns/{kind}")).expect(kind);
    NAMESPACES.map(open).into()
}

/// Every right, limit, mount, namespace and open file of the process; what must differ between two
/// starts (numbers of attempts, of namespaces, of pipes) is made the same. One fact a line.
pub fn facts(pid: u32) -> String {
    let proc = Path::new("/proc").join(pid.to_string());
    let read = |name: &str| fs::read_to_string(proc.join(name)).expect(name);
    let mut facts = Vec::new();
    let status = read("status");
    facts.extend(RIGHTS.iter().map(|name| match *name {
        // how deep, not which numbers
        "NSpid:" => format!("NSpid: {}", line(&status, name).expect(name).split('\t').count()),
        name => format!("{name}{}", line(&status, name).expect(name)),
    }));
    facts.push(format!("oom_score_adj {}", read("oom_score_adj").trim()));
    facts.extend(read("limits").lines().map(str::to_owned));
    facts.extend(namespaces(&proc));
    facts.extend(mounts(&read("mountinfo")));
    facts.extend(files(&proc));
    facts.extend(cgroups(&read("cgroup")));
    facts.push(format!("cwd {}", link(&proc.join("cwd"))));
    facts.join("\n")
}

/// What follows a name at the beginning of a line.
fn line<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name))
}

fn link(path: &Path) -> String {
    fs::read_link(path).map_or_else(|error| error.to_string(), |to| to.display().to_string())
}

fn namespaces(proc: &Path) -> impl Iterator<Item = String> {
    NAMESPACES.iter().map(move |kind| {
        let own = link(&proc.join("ns").join(kind));
        let hosts = link(&Path::new("/proc/self/ns").join(kind));
        format!("{kind} namespace: {}", if own == hosts { "the host's" } else { "its own" })
    })
}

/// Ids and every run of digits become `#`: the numbers of attempts and folders, the names of
/// sandboxes.
fn without_numbers(text: &str) -> String {
    let is_id = |word: &str| word.len() >= 24 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()).map(|word| {
        let (name, end) = match word.char_indices().next_back() {
            Some((at, c)) if !c.is_ascii_alphanumeric() => word.split_at(at),
            _ => (word, ""),
        };
        if is_id(name) {
            return format!("#{end}");
        }
        let numbered = name.split(|c: char| c.is_ascii_digit()).collect::<Vec<_>>();
        let mut shown = numbered.join("#");
        while shown.contains("##") {
            shown = shown.replace("##", "#");
        }
        shown + end
    });
    words.collect()
}

/// Each mount, and what it is mounted on. In which order they were made, which is how the kernel
/// lists them, no process in there notices.
fn mounts(mountinfo: &str) -> Vec<String> {
    let number_and_point = |line: &str| {
        let mut fields = line.split(' ');
        let number = fields.next().expect("proc(5)").to_owned();
        (number, fields.nth(3).expect("proc(5)").to_owned())
    };
    let points: BTreeMap<String, String> = mountinfo.lines().map(number_and_point).collect();
    let mut mounts: Vec<String> = mountinfo.lines().map(|line| mount(line, &points)).collect();
    mounts.sort();
    mounts
}

/// Root, mount point, options, type and options of the file system of one line of mountinfo, and
/// where it is mounted on.
fn mount(line: &str, points: &BTreeMap<String, String>) -> String {
    let (own, of_file_system) = line.split_once(" - ").expect("proc(5)");
    let own: Vec<&str> = own.split(' ').collect();
    let on = points.get(own[1]).map_or("nothing", String::as_str);
    let shared = own[6..].iter().map(|tag| without_numbers(tag)).collect::<Vec<_>>().join(" ");
    let (kind, rest) = of_file_system.split_once(' ').expect("proc(5)");
    let options = rest.split(',').map(|option| match option.split_once('=') {
        Some(("upperdir" | "workdir" | "lowerdir", _)) => without_numbers(option),
        _ => option.to_owned(),
    });
    let options = options.collect::<Vec<_>>().join(",");
    let root = without_numbers(own[3]);
    format!("mount {root} {} on {on} {} [{shared}] {kind} {options}", own[4], own[5])
}

/// What each descriptor is, and how it was opened.
fn files(proc: &Path) -> Vec<String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(proc.join("fd")).expect("list descriptors").flatten() {
        let number: u32 = entry.file_name().to_str().expect("a number").parse().expect("a number");
        let info = proc.join("fdinfo").join(number.to_string());
        let info = fs::read_to_string(info).expect("look at a descriptor");
        let flags = line(&info, "flags:").expect("its flags").trim().to_owned();
        files.insert(number, format!("{} {flags}", without_numbers(&link(&entry.path()))));
    }
    files.into_iter().map(|(number, what)| format!("file {number} {what}")).collect()
}

fn cgroups(memberships: &str) -> Vec<String> {
    let mut facts = Vec::new();
    for membership in memberships.lines() {
        let mut parts = membership.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().expect("cgroups(7)"), parts.next().expect("one"));
        facts.push(format!("cgroup {controllers} {}", without_numbers(path)));
        let folder = folder_of(controllers).join(path.trim_start_matches('/'));
        facts.extend(LIMITS.iter().filter_map(|name| {
            let value = fs::read_to_string(folder.join(name)).ok()?;
            Some(format!("cgroup {controllers} {name} {}", value.trim().replace('\n', "; ")))
        }));
    }
    facts
}

/// Where a hierarchy is mounted here.
fn folder_of(controllers: &str) -> std::path::PathBuf {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("read mountinfo");
    let found = mounts.lines().find_map(|line| {
        let (own, of_file_system) = line.split_once(" - ")?;
        let (kind, options) =
            (of_file_system.split(' ').next()?, of_file_system.rsplit(' ').next()?);
        let wanted = match (controllers, kind) {
            ("", "cgroup2") => true,
            ("", _) | (_, "cgroup2") => false,
            (_, "cgroup") => options.trim_start_matches("rw,") == controllers,
            _ => false,
        };
        wanted.then(|| own.split(' ').nth(4).expect("a mount point").into())
    });
    found.unwrap_or_default()
}
