//! Images and volumes that are made to break out: CVE classes of the container engines, each
//! against the real shim. The image is a layer of the test's own over the host's root, so that
//! there is a shell in it. Needs root.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use rekindle_shim::protocol::*;

use crate::shim::Shim;

#[test]
fn links_in_place_of_system_folders_are_refused() {
    for name in ["proc", "sys", "dev"] {
        let mut shim = Shim::new();
        symlink(shim.path("outside"), shim.path("image").join(name)).unwrap();
        let failure = shim.create(shim.plan("true")).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Config, "{failure:?}");
        let expected = format!("the image has a symbolic link at /{name}: it must be a folder");
        assert_eq!(failure.problem, expected);
        shim.assert_outside_is_untouched();
    }
}

#[test]
fn links_below_the_systems_folders_do_not_matter_as_those_are_new() {
    let mut shim = Shim::new();
    fs::create_dir(shim.path("image/dev")).unwrap();
    for name in ["pts", "shm", "null", "mqueue"] {
        symlink(shim.path("outside"), shim.path("image/dev").join(name)).unwrap();
    }
    let (cause, log) =
        shim.run(shim.plan("echo x > /dev/shm/x && echo y > /dev/null && test -d /dev/pts"));
    assert_eq!(cause, ExitCause::Code(0), "{log}");
    shim.assert_outside_is_untouched();
}

#[test]
fn a_passwd_file_that_is_a_link_out_is_looked_up_inside() {
    let mut shim = Shim::new();
    fs::create_dir(shim.path("image/etc")).unwrap();
    fs::write(shim.path("outside/passwd"), "evil:x:4242:4242::/:/bin/sh\n").unwrap();
    symlink(shim.path("outside/passwd"), shim.path("image/etc/passwd")).unwrap();
    let mut plan = shim.plan("id -u");
    // The link's target exists inside, too, as the host's root is a layer here: mask it, as an
    // image would not have it.
    plan.root.mask = vec![shim.text("outside")];
    plan.process.user.image_user = "evil".to_owned();
    let failure = shim.create(plan).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Config, "{failure:?}");
    assert!(failure.problem.contains("is not in its /etc/passwd"), "{failure:?}");
}

#[test]
fn a_passwd_file_that_blocks_or_is_a_device_is_not_read() {
    let mut shim = Shim::new();
    fs::create_dir(shim.path("image/etc")).unwrap();
    let status = Command::new("mkfifo").arg(shim.path("image/etc/passwd")).status().unwrap();
    assert!(status.success());
    let failure = shim.create(shim.plan("true")).unwrap_err();
    assert_eq!(failure.problem, "the image's /etc/passwd is not a regular file");
    fs::remove_file(shim.path("image/etc/passwd")).unwrap();
    symlink("/proc/self/fd/0", shim.path("image/etc/passwd")).unwrap();
    let failure = shim.create(shim.plan("true")).unwrap_err();
    assert!(failure.problem.starts_with("read the image's /etc/passwd"), "{failure:?}");
}

#[test]
fn a_mount_destination_through_links_stays_inside() {
    let mut shim = Shim::new();
    fs::write(shim.path("volume/file"), "volume").unwrap();
    symlink("../../../../../../../../..", shim.path("image/up")).unwrap();
    symlink("/", shim.path("image/abs")).unwrap();
    for destination in ["/up/inside-a", "/abs/inside-b", "/up/up/abs/inside-c"] {
        let mut plan = shim.plan(&format!("cat {destination}/file"));
        plan.mounts = vec![shim.volume(None, destination)];
        let (cause, log) = shim.run(plan);
        assert!(cause == ExitCause::Code(0) && log.ends_with("P volume\n"), "{destination}: {log}");
    }
    for name in ["inside-a", "inside-b", "inside-c"] {
        assert!(!Path::new("/").join(name).exists(), "made on the host");
    }
}

#[test]
fn a_mount_destination_that_is_a_magic_link_is_refused() {
    let mut shim = Shim::new();
    for destination in ["/proc/self/cwd/x", "/proc/1/root/x", "/proc/self/fd/3/x"] {
        let mut plan = shim.plan("true");
        plan.mounts = vec![shim.volume(None, destination)];
        let failure = shim.create(plan).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Setup, "{destination}: {failure:?}");
    }
}

#[test]
fn a_sub_path_that_leads_out_is_refused_at_every_start() {
    let mut shim = Shim::new();
    symlink(shim.path("outside"), shim.path("volume/abs")).unwrap();
    symlink("../outside", shim.path("volume/rel")).unwrap();
    symlink("/proc/1/root", shim.path("volume/magic")).unwrap();
    fs::create_dir(shim.path("volume/sub")).unwrap();
    symlink("../../outside/secret", shim.path("volume/sub/file")).unwrap();
    for sub_path in ["abs", "rel", "magic", "sub/file", "abs/new/folder", "rel/new"] {
        for _start in 0..2 {
            let mut plan = shim.plan("ls /vol");
            plan.mounts = vec![shim.volume(Some(sub_path), "/vol")];
            let failure = shim.create(plan).unwrap_err();
            let expected = format!("subPath {sub_path:?} leads out of its volume");
            assert_eq!(failure.problem, expected);
        }
    }
    shim.assert_outside_is_untouched();
}

#[test]
fn a_sub_path_that_is_absent_is_made_and_one_inside_is_followed() {
    let mut shim = Shim::new();
    symlink("real", shim.path("volume/link")).unwrap();
    fs::create_dir(shim.path("volume/real")).unwrap();
    for (sub_path, made) in [("a/b/c", "a/b/c/x"), ("link", "real/x")] {
        let mut plan = shim.plan("touch /vol/x");
        plan.mounts = vec![shim.volume(Some(sub_path), "/vol")];
        assert_eq!(shim.run(plan).0, ExitCause::Code(0), "{sub_path}");
        assert!(shim.path("volume").join(made).exists());
    }
}

/// CVE-2021-30465, CVE-2025-31133: a neighbour swaps links in a shared volume while mounts are made
/// in it.
#[test]
fn swapping_links_in_a_volume_while_it_is_mounted_changes_nothing_outside() {
    let mut shim = Shim::new();
    fs::create_dir(shim.path("volume/real")).unwrap();
    let volume = shim.path("volume");
    let outside = shim.path("outside");
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let swapper = {
        let stop = stop.clone();
        std::thread::spawn(move || {
            symlink(&outside, volume.join("evil")).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    volume.join("real"),
                    rustix::fs::CWD,
                    volume.join("evil"),
                    rustix::fs::RenameFlags::EXCHANGE,
                )
                .unwrap();
            }
        })
    };
    for _start in 0..60 {
        let mut plan = shim.plan("touch /sub/x; touch /vol/real/deep/y; true");
        plan.mounts = vec![
            shim.volume(Some("real"), "/sub"),
            shim.volume(None, "/vol"),
            shim.volume(None, "/vol/real/deep"),
        ];
        if shim.create(plan.clone()).is_ok() {
            let slot = plan.slot.clone();
            shim.call(ShimRequest::Start { slot }).unwrap();
            assert!(matches!(shim.next(), ShimMessage::Exited { .. }));
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    swapper.join().unwrap();
    shim.assert_outside_is_untouched();
}

#[test]
fn deleting_everything_inside_leaves_the_host_unchanged() {
    let mut shim = Shim::new();
    let before = fs::metadata("/etc/passwd").unwrap();
    let script = "rm -rf /etc /home /bin/sh 2>/dev/null; echo still here";
    let (_, log) = shim.run(shim.plan(script));
    assert!(log.contains("still here"), "{log}");
    let after = fs::metadata("/etc/passwd").unwrap();
    assert_eq!((before.ino(), before.mtime()), (after.ino(), after.mtime()));
    shim.assert_outside_is_untouched();
}

#[test]
fn setuid_programs_and_device_nodes_on_volumes_gain_nothing() {
    let mut shim = Shim::new();
    let disk = shim.path("volume/null");
    let device = rustix::fs::makedev(1, 3);
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    let kind = rustix::fs::FileType::CharacterDevice;
    rustix::fs::mknodat(rustix::fs::CWD, &disk, kind, mode, device).unwrap();
    fs::copy("/usr/bin/id", shim.path("volume/id")).unwrap();
    fs::set_permissions(shim.path("volume/id"), fs::Permissions::from_mode(0o4755)).unwrap();
    let mut plan = shim.plan("echo x > /vol/null; /vol/id -u");
    plan.mounts = vec![shim.volume(None, "/vol")];
    plan.process.user.uid = Some(1234);
    let (_, log) = shim.run(plan);
    assert!(log.contains("ermission denied"), "{log}");
    assert!(log.ends_with("stdout F 1234\n"), "no_new_privs: {log}");
}

#[test]
fn more_layers_than_a_page_of_options_can_name_are_mounted() {
    let mut shim = Shim::new();
    let mut plan = shim.plan("cat /layer-7 /layer-59");
    let layers: Vec<String> = (0..60)
        .map(|n| {
            let name =
                format!("image-with-quite-a-long-name-as-digests-are-long-in-general-too-{n:0>20}");
            fs::create_dir(shim.path(&name)).unwrap();
            fs::write(shim.path(&name).join(format!("layer-{n}")), format!("{n} ")).unwrap();
            shim.text(&name)
        })
        .collect();
    plan.root.lower_dirs = layers.into_iter().chain(["/".to_owned()]).collect();
    let (cause, log) = shim.run(plan);
    assert!(cause == ExitCause::Code(0) && log.contains("59"), "{log}");
}

#[test]
fn paths_with_colons_and_commas_are_mounted() {
    let mut shim = Shim::new();
    let odd = "image:with,odd\\name";
    fs::create_dir(shim.path(odd)).unwrap();
    fs::write(shim.path(odd).join("here"), "found").unwrap();
    let mut plan = shim.plan("cat /here");
    plan.root.lower_dirs = vec![shim.text(odd), "/".to_owned()];
    let (cause, log) = shim.run(plan);
    assert!(cause == ExitCause::Code(0) && log.contains("found"), "{log}");
}

/// An image as a volume: its layers lie over each other, nothing is written to them, and no link in
/// them leads out.
#[test]
fn layers_as_a_volume_are_one_folder_and_a_sub_path_stays_inside() {
    let mut shim = Shim::new();
    for (layer, content) in [("image-top", "top"), ("image-bottom", "bottom")] {
        fs::create_dir_all(shim.path(layer).join("sub")).unwrap();
        fs::write(shim.path(layer).join("both"), content).unwrap();
        fs::write(shim.path(layer).join("sub").join(layer), content).unwrap();
    }
    symlink(shim.path("outside"), shim.path("image-top").join("out")).unwrap();
    let layers = vec![shim.text("image-top"), shim.text("image-bottom")];
    let volume = |layers: &[String], sub_path: Option<&str>, destination: &str| MountPlan {
        source: "test/model:1".to_owned(),
        layers: layers.to_vec(),
        sub_path: sub_path.map(str::to_owned),
        destination: destination.to_owned(),
        access: MountAccess::ReadOnly,
        options: MountOptions { without: vec![MountFeature::Exec], ..Default::default() },
    };
    for (of, both, listed) in
        [(&layers[..], "top", "image-bottom\nimage-top"), (&layers[1..], "bottom", "image-bottom")]
    {
        let script = "echo $(cat /vol/both); ls /sub; touch /vol/x || echo refused; grep ' /vol ' /proc/self/mountinfo | cut -d' ' -f6";
        let mut plan = shim.plan(script);
        plan.mounts = vec![
            volume(of, None, "/vol"),
            volume(of, Some("sub"), "/sub"),
            volume(of, Some("both"), "/file"),
        ];
        let (cause, log) = shim.run(plan);
        assert_eq!(cause, ExitCause::Code(0), "{log}");
        let said: Vec<&str> = log
            .lines()
            .filter_map(|line| line.split_once("stdout F "))
            .map(|(_, text)| text)
            .collect();
        let listed: Vec<&str> = listed.lines().collect();
        let expected = [&[both], &listed[..], &["refused"]].concat();
        assert_eq!(said[..expected.len()], expected, "{log}");
        let options = said.last().unwrap();
        assert!(
            options.starts_with("ro,") && options.contains("nodev") && options.contains("noexec"),
            "{log}"
        );
    }
    for (sub_path, cause) in
        [("out", "invalid cross-device link"), ("none", "no such file or directory")]
    {
        let mut plan = shim.plan("true");
        plan.mounts = vec![volume(&layers, Some(sub_path), "/vol")];
        let failure = shim.create(plan).unwrap_err();
        let expected = format!("open subPath {sub_path:?} of image test/model:1: {cause}");
        assert_eq!(failure.problem, expected);
    }
    for layer in ["image-top", "image-bottom"] {
        assert!(!shim.path(layer).join("x").exists());
    }
    shim.assert_outside_is_untouched();
}
