//! Roots that are put together ahead of a container's start, against the real shim. Needs root.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::Path;

use rekindle_shim::protocol::*;

use crate::shim::Shim;

/// What a container can see of how it was put together: mounts without their numbers, /dev, what is
/// hidden, its rights.
const LOOK: &str = "exec 2>&1; sed -E 's/^[0-9]+ [0-9]+ [0-9]+:[0-9]+ //; s/(master|shared|propagate_from):[0-9]+ //' /proc/self/mountinfo | sort; \
    ls -l /dev /dev/pts | sed -E 's/[A-Z][a-z]{2} .*:[0-9]{2}//'; ls -a /sys/firmware; cat /proc/timer_list; cat /proc/self/status | \
    grep -E 'Cap|Seccomp|NoNew|Uid|Gid|Groups'; readlink /proc/self/ns/mnt >/dev/null; pwd; umask; ls -a /data; cat /etc/made; set -- /proc/[0-9]*; echo $#; \
    touch /x && mv /x /y && ls -d /y; mkdir /sys/x || echo refused";

/// Has one made, and answers its mount namespace. Those of containers that have ended may go
/// meanwhile.
fn make(shim: &mut Shim, plan: &ContainerPlan) -> (String, File) {
    let before = held(shim);
    let ahead = RootAhead::new("web", plan).unwrap();
    assert_eq!(shim.call(ShimRequest::MakeRoot(Box::new(ahead))), Ok(ShimAnswer::Done));
    let mut new = held(shim);
    new.retain(|name, _| !before.contains_key(name));
    assert_eq!(new.len(), 1, "{before:?} {new:?}");
    new.pop_first().unwrap()
}

/// The mount namespaces that the shim holds open. They are kept: the number of one that is gone
/// would be given to another one.
fn held(shim: &Shim) -> BTreeMap<String, File> {
    let files = fs::read_dir(format!("/proc/{}/fd", shim.pid())).unwrap();
    let held = files.filter_map(|file| {
        let path = file.unwrap().path();
        let is_of_mounts = |name: &Path| name.to_string_lossy().starts_with("mnt:");
        fs::read_link(&path).ok().filter(|name| is_of_mounts(name))?;
        let kept = File::open(path).ok()?;
        let name = fs::read_link(format!("/proc/self/fd/{}", kept.as_raw_fd())).unwrap();
        Some((name.to_string_lossy().into_owned(), kept))
    });
    held.collect()
}

fn names(held: &BTreeMap<String, File>) -> Vec<&String> {
    held.keys().collect()
}

#[test]
fn a_container_in_a_root_made_ahead_sees_what_it_would_see_in_its_own() {
    for access in [MountAccess::ReadWrite, MountAccess::ReadOnly] {
        let mut shim = Shim::new();
        fs::create_dir(shim.path("image/etc")).unwrap();
        fs::write(shim.path("image/etc/made"), "of the image").unwrap();
        fs::write(shim.path("volume/before"), "").unwrap();
        let plan = |shim: &Shim| {
            let mut plan = shim.plan(LOOK);
            plan.root.access = access;
            plan.root.volumes = vec!["/cache".to_owned()];
            plan.mounts = vec![shim.volume(None, "/data")];
            plan
        };
        let (_, own) = shim.run(plan(&shim));
        let next = plan(&shim);
        make(&mut shim, &next);
        let (_, ahead) = shim.run(next);
        assert_eq!(texts(&ahead), texts(&own));
        assert!(own.contains("of the image") && own.contains("before"), "{own}");
    }
}

/// The texts of a CRI log, however they were cut on the way.
fn texts(log: &str) -> String {
    let fields = log.lines().map(|line| line.splitn(4, ' ').skip(2).collect::<Vec<_>>());
    let text = |fields: Vec<&str>| match fields.as_slice() {
        ["F", text] => format!("{text}\n"),
        [_, text] => (*text).to_owned(),
        other => panic!("{other:?}"),
    };
    fields.map(text).collect()
}

#[test]
fn volumes_working_directory_and_user_are_those_of_the_moment_of_the_start() {
    let mut shim = Shim::new();
    fs::create_dir(shim.path("volume/part")).unwrap();
    let mut plan = shim.plan("pwd; ls /data; id -u");
    plan.mounts = vec![shim.volume(Some("part"), "/data"), shim.volume(None, "/etc")];
    plan.process.working_dir = "/data/work".to_owned();
    plan.process.user.image_user = "late".to_owned();
    make(&mut shim, &plan);
    fs::rename(shim.path("volume/part"), shim.path("volume/old")).unwrap();
    fs::create_dir_all(shim.path("volume/part/work")).unwrap();
    fs::write(shim.path("volume/passwd"), "late:x:4242:4242::/:/bin/sh\n").unwrap();
    let (cause, log) = shim.run(plan);
    assert_eq!(cause, ExitCause::Code(0), "{log}");
    assert!(log.contains("/data/work") && log.contains("4242"), "{log}");
}

#[test]
fn a_sub_path_that_leads_out_by_then_is_refused() {
    let mut shim = Shim::new();
    fs::create_dir(shim.path("volume/part")).unwrap();
    let mut plan = shim.plan("cat /data/secret");
    plan.mounts = vec![shim.volume(Some("part"), "/data")];
    make(&mut shim, &plan);
    fs::remove_dir(shim.path("volume/part")).unwrap();
    symlink(shim.path("outside"), shim.path("volume/part")).unwrap();
    let failure = shim.create(plan).unwrap_err();
    assert!(failure.problem.contains("leads out of its volume"), "{failure:?}");
    shim.assert_outside_is_untouched();
}

#[test]
fn an_image_with_links_in_place_of_system_folders_gets_none() {
    let mut shim = Shim::new();
    symlink(shim.path("outside"), shim.path("image/dev")).unwrap();
    let ahead = RootAhead::new("web", &shim.plan("true")).unwrap();
    let failure = shim.call(ShimRequest::MakeRoot(Box::new(ahead))).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Config, "{failure:?}");
    shim.assert_outside_is_untouched();
}

#[test]
fn it_serves_one_start_and_only_one_like_what_it_was_made_for() {
    let mut shim = Shim::new();
    let plan = shim.plan("touch /mine; ls /mine /firmware /sys/firmware");
    let (ready, _kept) = make(&mut shim, &plan);
    // of another image: it stays
    fs::create_dir(shim.path("image/firmware")).unwrap();
    let mut other = shim.plan("true");
    other.root.lower_dirs = vec!["/".to_owned()];
    other.slot = "other-0".to_owned();
    assert_eq!(shim.run(other).0, ExitCause::Code(0));
    // of one that is to see more of /sys
    let mut open = shim.plan("true");
    open.confinement.masked_paths.clear();
    open.slot = "open-0".to_owned();
    assert_eq!(shim.run(open).0, ExitCause::Code(0));
    let mut privileged = shim.plan("true");
    privileged.confinement.privilege = Privilege::Privileged;
    assert_eq!(RootAhead::new("web", &privileged), None);
    assert!(held(&shim).contains_key(&ready));
    // its own start, and the one after that, which has nothing of it
    assert_eq!(shim.run(plan).0, ExitCause::Code(0));
    let mut second = shim.plan("ls /mine");
    second.slot = "web-second".to_owned();
    assert_ne!(shim.run(second).0, ExitCause::Code(0));
}

#[test]
fn another_one_for_the_same_container_takes_its_place() {
    let mut shim = Shim::new();
    let mut plan = shim.plan("true");
    let (first, _kept) = make(&mut shim, &plan);
    plan.root.lower_dirs = vec!["/".to_owned()];
    make(&mut shim, &plan);
    assert!(!held(&shim).contains_key(&first));
}

#[test]
fn two_that_are_asked_for_at_once_are_both_answered_and_one_stands() {
    let mut shim = Shim::new();
    let none = held(&shim);
    let ahead = RootAhead::new("web", &shim.plan("true")).unwrap();
    let asked = || ShimRequest::MakeRoot(Box::new(ahead.clone()));
    let [first, second] = shim.call_all([asked(), asked()]);
    assert!(first == Ok(ShimAnswer::Done) || first.unwrap_err().kind == FailureKind::State);
    assert_eq!(second, Ok(ShimAnswer::Done));
    assert_eq!(held(&shim).len(), none.len() + 1);
}

#[test]
fn it_goes_away_when_another_agent_comes() {
    let mut shim = Shim::new();
    let plan = shim.plan("true");
    let none = held(&shim);
    make(&mut shim, &plan);
    shim.connect_again();
    // answered by the same loop, after it took the connection
    assert!(matches!(shim.call(ShimRequest::State), Ok(ShimAnswer::State(_))));
    assert_eq!(names(&held(&shim)), names(&none));
    assert_eq!(shim.run(plan).0, ExitCause::Code(0));
}

#[test]
fn a_shim_says_that_it_makes_them() {
    let mut shim = Shim::new();
    match shim.call(ShimRequest::State) {
        Ok(ShimAnswer::State(state)) => assert_eq!(state.roots_ahead, RootsAhead::Made),
        answer => panic!("{answer:?}"),
    }
    // as one of an earlier version answers
    let old = r#"{"pid":1,"sandbox":"Ready","containers":[]}"#;
    let old: ShimState = serde_json::from_str(old).unwrap();
    assert_eq!(old.roots_ahead, RootsAhead::Unknown);
}
