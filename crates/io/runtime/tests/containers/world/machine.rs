//! Files of a machine that are open or closed to others, and what a container tries to read them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

/// What is in each closed file.
pub const SECRET: &str = "the secret";

/// Names of files that only their owner, or a group, may read.
pub const CLOSED: [&str; 8] = [
    "root-only",
    "root-only-read",
    "sudoers",
    "shadow",
    "of-a-user",
    "of-nobody",
    "engine/kubeconfig",
    "group/open-in-a-closed-folder",
];

/// A folder that anybody may look into. It goes away with the test.
pub struct Machine(tempfile::TempDir);

impl Machine {
    pub fn new() -> Self {
        let machine = Self(tempfile::Builder::new().prefix("rekindle-machine-").tempdir().unwrap());
        fs::set_permissions(machine.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // another engine's data directory; a folder of a service
        for (name, mode) in [("engine", 0o700), ("group", 0o750), ("folder", 0o755)] {
            fs::create_dir(machine.path(name)).unwrap();
            fs::set_permissions(machine.path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        for (name, owner, mode) in [
            ("root-only", 0, 0o600),
            ("root-only-read", 0, 0o400),
            ("sudoers", 0, 0o440),
            ("shadow", 0, 0o640),
            ("of-a-user", 1000, 0o600),
            ("of-nobody", 65_534, 0o660),
            ("engine/kubeconfig", 0, 0o644),
            ("group/open-in-a-closed-folder", 0, 0o666),
        ] {
            machine.write(name, owner, mode, SECRET);
        }
        machine.write("open", 0, 0o644, "open to all\n");
        machine.write("folder/file", 0, 0o644, "open to all\n");
        machine
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, owner: u32, mode: u32, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        chown(&path, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// What root may try to get at a file: as it is, by its folder, through a copy, a link, another
/// name, another mode or owner.
pub fn attempts(path: &str) -> String {
    let folder = path.rsplit_once('/').unwrap().0;
    format!(
        "cat {path}; cp {path} /tmp/copy.$$ && cat /tmp/copy.$$; ln {path} {path}.link; cat {path}.link; \
         chmod 777 {path}; cat {path}; chown 0:0 {path}; cat {path}; mv {path} {path}.moved; cat {path}.moved; \
         chmod 777 {folder}; cat {path}; cat {folder}/*; mv {folder} {folder}.moved; cat {folder}.moved/*; \
         echo > {path}; cat {path}; tar c {path} | cat; exec 3< {path}; cat <&3"
    )
}
