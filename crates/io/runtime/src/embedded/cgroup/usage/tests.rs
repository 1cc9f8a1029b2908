use std::path::PathBuf;

use super::*;

const NOW: Tick = Tick::from_secs(1_760_000_000);

/// Folders with files as a kernel shows them.
struct Groups(tempfile::TempDir);

impl Groups {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn trees(&self, mounts: &[(&str, &str)]) -> v1::CgroupTrees {
        let mut trees = v1::CgroupTrees::default();
        for (point, options) in mounts {
            trees.add(&self.path(point), options);
        }
        trees
    }
}

/// Of a container on a 6.18 kernel, shortened.
const V1: &[(&str, &str)] = &[
    ("memory/pod/memory.usage_in_bytes", "52428800\n"),
    (
        "memory/pod/memory.stat",
        "cache 4096\nrss 8192\ninactive_file 4096\nhierarchical_memory_limit 134217728\ntotal_cache 20971520\n\
         total_rss 31457280\ntotal_pgfault 70210\ntotal_pgmajfault 17\ntotal_inactive_anon 1\ntotal_inactive_file 10485760\n\
         total_active_file 10485760\n",
    ),
    ("memory/pod/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
    ("cpuacct/pod/cpuacct.usage", "7123456789\n"),
    (
        "cpu/pod/cpu.stat",
        "nr_periods 120\nnr_throttled 30\nthrottled_time 1500000000\nnr_bursts 0\nburst_time 0\n",
    ),
    ("pids/pod/pids.current", "7\n"),
    ("pids/pod/pids.events", "max 2\n"),
];

#[test]
fn version_1_is_read_from_the_trees_of_its_controllers() {
    let groups = Groups::new(V1);
    let trees = groups.trees(&[
        ("memory", "rw,memory"),
        ("cpu", "rw,cpu"),
        ("cpuacct", "rw,cpuacct"),
        ("pids", "rw,pids"),
    ]);
    assert_eq!(
        v1_usage(&trees, Path::new("pod"), NOW).unwrap(),
        CgroupUsage {
            taken_at: NOW,
            cpu: Some(CpuUsage {
                usage_ns: 7_123_456_789,
                periods: 120,
                throttled_periods: 30,
                throttled_ns: 1_500_000_000,
            }),
            memory: MemoryUsage {
                usage_bytes: 50 << 20,
                working_set_bytes: 40 << 20,
                rss_bytes: 30 << 20,
                page_faults: 70_210,
                major_page_faults: 17,
                oom_kills: 3,
            },
            pids: Some(7),
            forks_refused: 2,
        }
    );
}

#[test]
fn version_1_without_some_controllers_says_what_it_knows() {
    let groups = Groups::new(V1);
    let trees = groups.trees(&[("memory", "rw,memory")]);
    let usage = v1_usage(&trees, Path::new("pod"), NOW).unwrap();
    assert_eq!((usage.cpu, usage.pids), (None, None));
    assert_eq!(usage.memory.usage_bytes, 50 << 20);
}

const V2_STAT: &str = "anon 31457280\nfile 20971520\nkernel 1048576\ninactive_anon 1\nactive_anon 31457280\n\
                       inactive_file 10485760\nactive_file 10485760\npgfault 70210\npgmajfault 17\n";

#[test]
fn version_2_is_read_from_its_one_tree() {
    let groups = Groups::new(&[
        ("pod/memory.current", "52428800\n"),
        ("pod/memory.stat", V2_STAT),
        ("pod/memory.events", "low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 1\n"),
        (
            "pod/cpu.stat",
            "usage_usec 7123456\nuser_usec 7000000\nsystem_usec 123456\nnr_periods 120\nnr_throttled 30\n\
             throttled_usec 1500000\nnr_bursts 0\nburst_usec 0\n",
        ),
        ("pod/pids.current", "7\n"),
        ("pod/pids.events", "max 5\n"),
    ]);
    let usage = v2_usage(&groups.path("pod"), NOW).unwrap();
    assert_eq!(
        usage.cpu,
        Some(CpuUsage {
            usage_ns: 7_123_456_000,
            periods: 120,
            throttled_periods: 30,
            throttled_ns: 1_500_000_000,
        })
    );
    assert_eq!(usage.memory.working_set_bytes, 40 << 20);
    assert_eq!((usage.memory.rss_bytes, usage.memory.oom_kills), (30 << 20, 3));
    assert_eq!((usage.pids, usage.forks_refused), (Some(7), 5));
}

#[test]
fn the_root_of_version_2_is_known_from_meminfo() {
    let groups = Groups::new(&[
        ("root/memory.stat", V2_STAT),
        ("root/cpu.stat", "usage_usec 900\nuser_usec 500\nsystem_usec 400\n"),
        (
            "meminfo",
            "MemTotal:       24684096 kB\nMemFree:         4684096 kB\nMemAvailable:   22819448 kB\n",
        ),
    ]);
    let usage = v2_root_usage(&groups.path("root"), &groups.path("meminfo"), NOW).unwrap();
    assert_eq!(usage.memory.usage_bytes, 20_000_000 * 1024);
    assert_eq!(usage.memory.working_set_bytes, 20_000_000 * 1024 - 10_485_760);
    assert_eq!(usage.cpu.map(|cpu| cpu.usage_ns), Some(900_000));
    assert_eq!(usage.pids, None);
}

#[test]
fn a_group_that_has_gone_is_no_error_and_nonsense_is_one() {
    let groups = Groups::new(&[("bad/memory.stat", V2_STAT), ("bad/memory.current", "max\n")]);
    assert!(matches!(v2_usage(&groups.path("no"), NOW), Err(MissingFigure::Group(_))));
    assert!(matches!(v2_usage(&groups.path("bad"), NOW), Err(MissingFigure::Answer(_))));
}
