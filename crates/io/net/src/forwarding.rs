//! Whether the kernel forwards packets: of the whole machine, and of one interface.
//!
//! What a pod sends comes in by the bridge, so the bridge's own setting is enough for packets
//! between pods. What leaves the machine has answers that come in elsewhere, and so has what comes
//! from outside to a port of the node: that needs the machine's setting.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rekindle_types::{IpFamily, causes};

use crate::error::NetError;
use crate::rules::table_with_source_nat;
use crate::sysctl;

const MACHINE: &str = "ipv4/ip_forward";
/// Of IPv6 there is no other: that of an interface says only whether it is a router's.
const MACHINE_IPV6: &str = "ipv6/conf/all/forwarding";
/// Where each interface has its settings of IPv6.
const INTERFACES_IPV6: &str = "/proc/sys/net/ipv6/conf";
/// Entries there that are no interfaces.
const NO_INTERFACES: [&str; 2] = ["all", "default"];
/// Of `accept_ra`: unless the machine forwards; and also then.
const ACCEPT_AS_HOST: &str = "1";
const ACCEPT_ALWAYS: &str = "2";
const OFF: &str = "0";
const ON: &str = "1";
/// The file that is locked while another one of the folder is read or written. No bridge is called
/// so.
const LOCK: &str = ".lock";

/// The networks of a machine that need it to forward packets: a file for each, in a folder that all
/// engines share. In it is what the setting was before the first of them came; the last one that
/// goes puts it back, unless another process relies on it by then. A network without its bridge
/// needs it no more: its engine was killed, and the bridge was taken away since.
#[derive(Clone, Debug)]
pub struct ForwardingUsers {
    folder: PathBuf,
    bridge: String,
    family: IpFamily,
}

impl ForwardingUsers {
    /// The user with this bridge. The folder is made when it is needed.
    pub fn new(folder: &Path, bridge: &str, family: IpFamily) -> Self {
        Self { folder: folder.to_owned(), bridge: bridge.to_owned(), family }
    }

    const fn setting(&self) -> &'static str {
        match self.family {
            IpFamily::V4 => MACHINE,
            IpFamily::V6 => MACHINE_IPV6,
        }
    }

    /// This one needs it: it is on from now on, until the last one leaves.
    pub fn join(&self) -> Result<(), NetError> {
        let _locked = self.lock()?;
        let own = self.own();
        if !own.exists() {
            // what a dead one had switched on is put back in its place
            let before = match self.others()?.first() {
                Some(other) => read(other)?,
                None => self.found()?,
            };
            // first the note that it must be put back
            fs::write(&own, before).map_err(|source| failed("write", &own, source))?;
        }
        if sysctl::get(self.setting())? == OFF {
            for interface in hosts(&read(&own)?) {
                match sysctl::set(&accept_ra(interface), ACCEPT_ALWAYS) {
                    // it is gone since it was noted
                    Err(NetError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                    Ok(()) => {}
                    Err(error) => return Err(error),
                }
            }
            sysctl::set(self.setting(), ON)?;
            let setting = self.setting().replace('/', ".");
            tracing::info!(
                "turned net.{setting} on for pods; it is put back when the last engine is taken down, unless another process masquerades then"
            );
        }
        Ok(())
    }

    /// This one needs it no more. One that never joined changes nothing.
    pub fn leave(&self) -> Result<(), NetError> {
        if !self.own().exists() {
            return Ok(());
        }
        let _locked = self.lock()?;
        let own = self.own();
        let before = read(&own)?;
        let others = self.others()?;
        let is_last = !others.iter().any(|other| has_bridge(other));
        let was_off = before.split_whitespace().next() == Some(OFF);
        if was_off && is_last && !self.is_needed_by_others() {
            sysctl::set(self.setting(), OFF)?;
            for interface in hosts(&before) {
                // one that is gone has no settings to put back
                sysctl::set_if_possible(&accept_ra(interface), ACCEPT_AS_HOST)?;
            }
        }
        // the notes go last: killed before that, the next one puts it back once more
        for dead in others.iter().filter(|_| is_last) {
            remove(dead)?;
        }
        remove(&own)
    }

    /// Whether another process masquerades. A Docker that started after the first engine found the
    /// setting on, and does not turn it on once more.
    fn is_needed_by_others(&self) -> bool {
        let setting = self.setting().replace('/', ".");
        match table_with_source_nat(self.family) {
            Ok(Some(table)) => {
                tracing::warn!(
                    "found table {table} of another process, which masquerades forwarded packets: left net.{setting} on; turn it off if nothing needs it"
                );
                true
            }
            Ok(None) => false,
            Err(error) => {
                let error = causes(&error);
                tracing::warn!(error, "failed to look who else needs net.{setting}; put it back");
                false
            }
        }
    }

    /// What the machine has: its setting, then the interfaces that take router advertisements, but
    /// would not while it forwards.
    fn found(&self) -> Result<String, NetError> {
        let mut found = vec![sysctl::get(self.setting())?];
        if self.family == IpFamily::V6 {
            let folder = Path::new(INTERFACES_IPV6);
            let entries = fs::read_dir(folder).map_err(|source| failed("list", folder, source))?;
            let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
            let takes_them =
                |name: &String| sysctl::get(&accept_ra(name)).is_ok_and(|it| it == ACCEPT_AS_HOST);
            let is_interface = |name: &String| !NO_INTERFACES.contains(&name.as_str());
            found.extend(names.filter(is_interface).filter(takes_them));
        }
        Ok(found.join(" "))
    }

    fn own(&self) -> PathBuf {
        self.folder.join(&self.bridge)
    }

    /// The files of the others.
    fn others(&self) -> Result<Vec<PathBuf>, NetError> {
        let list = || -> io::Result<Vec<PathBuf>> {
            let entries = fs::read_dir(&self.folder)?;
            let paths = entries.map(|entry| entry.map(|entry| entry.path()));
            paths.filter(|path| !path.as_ref().is_ok_and(|path| self.is_no_other(path))).collect()
        };
        list().map_err(|source| failed("list", &self.folder, source))
    }

    fn is_no_other(&self, path: &Path) -> bool {
        *path == self.own() || path.ends_with(LOCK)
    }

    fn lock(&self) -> Result<File, NetError> {
        let path = self.folder.join(LOCK);
        let lock = || {
            fs::create_dir_all(&self.folder)?;
            let file = File::options().create(true).append(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        lock().map_err(|source| failed("lock", &path, source))
    }
}

/// Whether the network of a note has its bridge.
fn has_bridge(note: &Path) -> bool {
    let bridge = note.file_name().and_then(|name| name.to_str());
    bridge.is_some_and(|bridge| sysctl::get(&format!("ipv4/conf/{bridge}/forwarding")).is_ok())
}

fn remove(note: &Path) -> Result<(), NetError> {
    match fs::remove_file(note) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", note, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The interfaces in a note.
fn hosts(note: &str) -> impl Iterator<Item = &str> {
    note.split_whitespace().skip(1)
}

fn accept_ra(interface: &str) -> String {
    format!("ipv6/conf/{interface}/accept_ra")
}

/// Lets what comes in by this interface go on to others.
pub(crate) fn turn_on_for(interface: &str) -> Result<(), NetError> {
    sysctl::set(&format!("ipv4/conf/{interface}/forwarding"), ON)
}

/// Interfaces that the calling thread's namespace gets from now on take no ICMP redirect. The node
/// forwards from its bridge to its bridge, and tells each pod of a shorter way: that one goes
/// around the node's rules.
pub(crate) fn refuse_redirects_on_new_interfaces() -> Result<(), NetError> {
    sysctl::set_if_possible("ipv4/conf/all/accept_redirects", OFF)?;
    sysctl::set_if_possible("ipv4/conf/default/accept_redirects", OFF)
}

/// What a note says.
fn read(note: &Path) -> Result<String, NetError> {
    match fs::read_to_string(note) {
        Ok(text) => Ok(text),
        // the file was deleted by hand: nothing is put back
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(ON.to_owned()),
        Err(source) => Err(failed("read", note, source)),
    }
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> NetError {
    NetError::Io { operation, path: path.to_owned(), source }
}
