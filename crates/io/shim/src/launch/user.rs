//! Who the process is: the image's user by its own /etc/passwd and /etc/group, the pod's numbers
//! over it.
//!
//! Rules as containerd follows them: `user`, `uid`, `user:group` and `uid:gid`; a user without an
//! entry is taken by number with group 0; the groups that list the user's name are added, and so is
//! the primary one.

use crate::protocol::{ImageGroups, RootUser, UserPlan};
use crate::report::ProcessIdentity;

/// The highest user or group id, as Kubernetes and container engines have it. The highest `u32`
/// means "as it is" to the kernel: a process that takes it stays root.
const ID_MAX: u32 = i32::MAX as u32;

/// Bytes of an image's passwd or group file that are looked at.
pub(crate) const FILE_BYTES_MAX: u64 = 1024 * 1024;

struct PasswdEntry<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

fn passwd_entries(text: &str) -> impl Iterator<Item = PasswdEntry<'_>> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        let home = fields.nth(1).unwrap_or_default();
        Some(PasswdEntry { name, uid, gid, home })
    })
}

/// Name, number and members of each group.
fn group_entries(text: &str) -> impl Iterator<Item = (&str, u32, &str)> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let gid = fields.nth(1)?.parse().ok()?;
        Some((name, gid, fields.next().unwrap_or_default()))
    })
}

/// Looks the plan up in the image's files (empty when the image has none). The error is for people.
pub(crate) fn identify(
    plan: &UserPlan,
    passwd: &str,
    group: &str,
) -> Result<ProcessIdentity, String> {
    let (image_user, image_group) = match plan.image_user.split_once(':') {
        Some((user, group)) => (user, group),
        None => (plan.image_user.as_str(), ""),
    };
    let entry = match (plan.uid, image_user) {
        (Some(uid), _) => passwd_entries(passwd).find(|entry| entry.uid == uid),
        (None, "") => passwd_entries(passwd).find(|entry| entry.uid == 0),
        (None, user) => passwd_entries(passwd)
            .find(|entry| entry.name == user)
            .or_else(|| passwd_entries(passwd).find(|e| Ok(e.uid) == user.parse::<u32>())),
    };
    let uid = match (plan.uid, &entry, image_user) {
        (Some(uid), _, _) => uid,
        (None, Some(entry), _) => entry.uid,
        (None, None, "") => 0,
        (None, None, user) => user.parse().map_err(|_| unknown(user, plan.root))?,
    };
    let gid = match (plan.gid, plan.uid, image_group) {
        (Some(gid), _, _) => gid,
        (None, None, group_name) if !group_name.is_empty() => group_number(group_name, group)?,
        (None, _, _) => entry.as_ref().map_or(0, |entry| entry.gid),
    };
    if uid == 0 && plan.root == RootUser::Refused {
        return Err("container has runAsNonRoot and image will run as root".to_owned());
    }
    let mut groups = vec![gid];
    if let (Some(entry), ImageGroups::Merged) = (&entry, plan.image_groups) {
        let member = |members: &str| members.split(',').any(|name| name == entry.name);
        groups.extend(group_entries(group).filter(|g| member(g.2)).map(|g| g.1));
    }
    groups.extend(&plan.groups);
    groups.sort_unstable();
    groups.dedup();
    if let Some(id) = groups.iter().chain([&uid]).find(|id| **id > ID_MAX) {
        return Err(format!("user or group {id} is out of range: ids are 0 to {ID_MAX}"));
    }
    let home = entry.map_or("", |entry| entry.home);
    Ok(ProcessIdentity {
        uid,
        gid,
        groups,
        home: if home.is_empty() { "/" } else { home }.to_owned(),
    })
}

/// Why a name of which nothing is known is no user; where root is refused in the kubelet's words
/// (`verifyRunAsNonRoot`).
fn unknown(user: &str, root: RootUser) -> String {
    match root {
        RootUser::Allowed => format!("the image's user {user:?} is not in its /etc/passwd"),
        RootUser::Refused => format!(
            "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root"
        ),
    }
}

fn group_number(name: &str, file: &str) -> Result<u32, String> {
    let by_name = group_entries(file).find(|entry| entry.0 == name).map(|entry| entry.1);
    match by_name {
        Some(gid) => Ok(gid),
        None => {
            name.parse().map_err(|_| format!("the image's group {name:?} is not in its /etc/group"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n\
        app:x:1000:1001:An app:/home/app:/bin/sh\n\
        broken line\n\
        sneaky:x:0:0::/:/bin/sh\n\
        1002:x:7:7::/:/bin/sh\n";
    const GROUP: &str = "root:x:0:\naudio:x:29:app,other\nweb:x:33:\nvideo:x:44:other\n";

    fn plan(image_user: &str) -> UserPlan {
        UserPlan {
            image_user: image_user.to_owned(),
            uid: None,
            gid: None,
            groups: Vec::new(),
            root: RootUser::Allowed,
            image_groups: ImageGroups::Merged,
        }
    }

    fn numbers(plan: &UserPlan) -> Result<(u32, u32, Vec<u32>), String> {
        identify(plan, PASSWD, GROUP).map(|id| (id.uid, id.gid, id.groups))
    }

    #[test]
    fn image_users_are_looked_up_as_containerd_does() {
        for (user, expected) in [
            ("", (0, 0, vec![0])),
            ("app", (1000, 1001, vec![29, 1001])),
            ("1000", (1000, 1001, vec![29, 1001])),
            ("app:web", (1000, 33, vec![29, 33])),
            ("app:12", (1000, 12, vec![12, 29])),
            ("4711", (4711, 0, vec![0])),
            ("4711:4712", (4711, 4712, vec![4712])),
            ("1002", (7, 7, vec![7])), // a name that looks like a number is a name
        ] {
            assert_eq!(numbers(&plan(user)), Ok(expected), "{user:?}");
        }
        assert!(numbers(&plan("nobody")).is_err());
        assert!(numbers(&plan("app:nogroup")).is_err());
    }

    #[test]
    fn an_id_that_would_leave_a_process_root_is_nobodys() {
        let passwd = "x:x:4294967295:0::/:/bin/sh\ny:x:5:4294967295::/:/bin/sh\n";
        let groups = "wide:x:4294967295:z\n";
        let with = |uid, gid| UserPlan { uid, gid, ..plan("") };
        for plan in [
            plan("4294967295"),
            plan("2147483648"),
            plan("x"),
            plan("y"),
            plan("5:wide"),
            with(Some(u32::MAX), None),
            with(Some(5), Some(u32::MAX)),
            UserPlan { groups: vec![u32::MAX], ..plan("0") },
        ] {
            let refused = identify(&plan, passwd, groups);
            assert!(refused.is_err_and(|why| why.contains("out of range")), "{plan:?}");
        }
        assert!(identify(&plan("2147483647"), "", "").is_ok());
    }

    #[test]
    fn the_pods_numbers_go_before_the_images() {
        let with = |uid, gid| UserPlan { uid, gid, groups: vec![5000], ..plan("app:web") };
        assert_eq!(numbers(&with(Some(0), None)), Ok((0, 0, vec![0, 5000])));
        assert_eq!(numbers(&with(Some(1000), None)), Ok((1000, 1001, vec![29, 1001, 5000])));
        assert_eq!(numbers(&with(Some(4711), Some(4712))), Ok((4711, 4712, vec![4712, 5000])));
        assert_eq!(numbers(&with(None, Some(7))), Ok((1000, 7, vec![7, 29, 5000])));
    }

    #[test]
    fn a_strict_policy_leaves_the_groups_of_the_images_files_out_but_for_the_primary_one() {
        let strict =
            |user| UserPlan { image_groups: ImageGroups::Left, groups: vec![5000], ..plan(user) };
        assert_eq!(numbers(&strict("app")), Ok((1000, 1001, vec![1001, 5000])));
        assert_eq!(numbers(&strict("app:web")), Ok((1000, 33, vec![33, 5000])));
        let given = UserPlan { uid: Some(1000), gid: Some(7), ..strict("") };
        assert_eq!(numbers(&given), Ok((1000, 7, vec![7, 5000])));
    }

    #[test]
    fn run_as_non_root_looks_at_the_number_not_at_the_name() {
        let strict = |user| UserPlan { root: RootUser::Refused, ..plan(user) };
        for user in ["", "0", "root", "sneaky"] {
            assert!(numbers(&strict(user)).is_err(), "{user:?}");
        }
        assert!(numbers(&strict("app")).is_ok());
        let unknown = identify(&strict("ghost"), PASSWD, GROUP).unwrap_err();
        assert!(
            unknown.ends_with("image has non-numeric user (ghost), cannot verify user is non-root")
        );
        assert!(numbers(&UserPlan { uid: Some(0), ..strict("app") }).is_err());
        assert!(numbers(&UserPlan { uid: Some(5), ..strict("") }).is_ok());
    }

    #[test]
    fn home_comes_from_the_image() {
        let home = |user: &str| identify(&plan(user), PASSWD, GROUP).unwrap().home;
        assert_eq!(home("app"), "/home/app");
        assert_eq!(home("4711"), "/");
        assert_eq!(identify(&plan(""), "", "").unwrap().home, "/");
    }
}
