//! Pods with users of their own (`hostUsers: false`), with real containers: root inside is nobody
//! outside, on every rung and with every engine in the same range of ids, and volumes belong to the
//! same ids as without.
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rekindle_testkit::{Engine, process, text};

/// A variable that no process outside the test has.
const MARK: &str = "REKINDLE_TEST_OWN_USERS";

const OBJECTS: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {greeting: hello}
---
apiVersion: v1
kind: Secret
metadata: {name: secret}
stringData: {word: mellon}
";

/// Has every kind of volume, a server behind a probe, and a container that may see all of /proc.
fn web(engine: &Engine) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: web, labels: {{app: web}}}}
spec:
  hostUsers: false
  terminationGracePeriodSeconds: 5
  securityContext: {{fsGroup: 2000}}
  initContainers:
  - {{name: init, image: localhost/host, command: [sh, -c, 'echo begun > /scratch/init']
    , volumeMounts: [{{name: scratch, mountPath: /scratch}}]}}
  containers:
  - name: server
    image: localhost/demo
    args: [server, --port, '8080']
    readinessProbe: {{httpGet: {{port: 8080}}, periodSeconds: 1}}
  - name: look
    image: localhost/host
    command: [sh, -c, 'trap \"exit 0\" TERM; sleep 100000 & wait']
    env: [{{name: {MARK}, value: '{mark}'}}]
    securityContext: {{procMount: Unmasked}}
    lifecycle: {{preStop: {{exec: {{command: ['true']}}}}}}
    livenessProbe: {{exec: {{command: [test, -e, /proc/1]}}, periodSeconds: 1, timeoutSeconds: 30}}
    volumeMounts:
    - {{name: scratch, mountPath: /scratch}}
    - {{name: memory, mountPath: /memory}}
    - {{name: data, mountPath: /data}}
    - {{name: data, mountPath: /deep, subPath: a/b}}
    - {{name: config, mountPath: /config}}
    - {{name: about, mountPath: /about}}
    - {{name: secret, mountPath: /secret}}
    - {{name: host, mountPath: /host, readOnly: true}}
  volumes:
  - {{name: scratch, emptyDir: {{}}}}
  - {{name: memory, emptyDir: {{medium: Memory, sizeLimit: 1Mi}}}}
  - {{name: data, persistentVolumeClaim: {{claimName: data}}}}
  - {{name: config, configMap: {{name: config}}}}
  - {{name: secret, secret: {{secretName: secret, defaultMode: 256}}}}
  - {{name: about, downwardAPI: {{items: [{{path: name, fieldRef: {{fieldPath: metadata.name}}}}]}}}}
  - {{name: host, hostPath: {{path: /usr/share, type: Directory}}}}
",
        mark = mark(engine)
    )
}

fn plain(name: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{hostUsers: false, terminationGracePeriodSeconds: 1, \
         containers: [{{name: look, image: localhost/host, command: [sleep, '1000000']}}]}}}}"
    )
}

fn mark(engine: &Engine) -> String {
    engine.data_dir().display().to_string()
}

fn exec(engine: &Engine, pod: &str, command: &str) -> String {
    engine.kubectl(&["exec", pod, "-c", "look", "--", "sh", "-c", command])
}

/// The first id of the host that is the pod's.
fn first_id(engine: &Engine, pod: &str) -> u32 {
    let map = exec(engine, pod, "cat /proc/self/uid_map /proc/self/gid_map");
    let lines: Vec<Vec<u32>> = map
        .lines()
        .map(|line| line.split_whitespace().map(|id| id.parse().unwrap()).collect())
        .collect();
    let [of_users, of_groups] = lines.as_slice() else { panic!("{map}") };
    assert_eq!(of_users, of_groups);
    assert_eq!((of_users[0], of_users[2]), (0, 65_536));
    of_users[1]
}

fn pid(engine: &Engine) -> u32 {
    process::find(MARK, &mark(engine)).expect("the container runs")
}

fn owner_of_process(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    ids.split_whitespace().next().unwrap().parse().unwrap()
}

fn restart(engine: &Engine, rung: &str) {
    let output = engine.rekindle(&["restart", "pod/web", "--rung", rung, "--wait"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    engine.wait_ready("web");
}

fn claimed(engine: &Engine) -> PathBuf {
    let volume = engine.get("pvc/data")["spec"]["volumeName"].as_str().unwrap().to_owned();
    engine.get(&format!("pv/{volume}"))["spec"]["local"]["path"].as_str().unwrap().into()
}

/// All volumes can be read and written, by the ids that the spec names.
fn assert_volumes_are_the_pods_own(engine: &Engine) {
    let read = "cat /config/greeting; echo; cat /secret/word; echo; cat /about/name; echo; hostname; \
                grep -c web /etc/hosts; test -s /etc/resolv.conf; test -s /var/run/secrets/kubernetes.io/serviceaccount/token; \
                ls /host > /dev/null; stat -Lc '%u:%g' /scratch /memory /data /secret/word /etc/hosts; cat /etc/shadow | wc -c";
    assert_eq!(
        exec(engine, "web", read),
        "hello\nmellon\nweb\nweb\n1\n0:2000\n0:2000\n0:2000\n0:2000\n0:0\n0\n"
    );
    let write = "for at in /scratch /memory /data /deep /tmp /dev/shm; do rm -f $at/made; touch $at/made && chown 5:6 $at/made; done; \
                 stat -c '%u:%g' /data/made /dev/shm/made; echo 1000 > /proc/self/oom_score_adj; id -u; id -G";
    assert_eq!(exec(engine, "web", write), "5:6\n5:6\n0\n0 2000\n");
}

#[test]
fn users_of_a_pod_are_its_own_on_every_rung_and_with_every_engine() {
    let mut engine = Engine::start();
    engine.apply(OBJECTS);
    let said = engine.apply(&web(&engine));
    assert!(!said.contains("Warning"), "{said}");
    engine.apply(&plain("other"));
    engine.wait_ready("web");
    engine.wait_ready("other");
    let (first, other) = (first_id(&engine, "web"), first_id(&engine, "other"));
    assert!(first.abs_diff(other) >= 65_536, "{first} {other}");
    assert!(first >= 65_536);
    assert_eq!(owner_of_process(pid(&engine)), first);
    let user = &engine.get("pod/web")["status"]["containerStatuses"][1]["user"]["linux"];
    assert_eq!(user["uid"], 0, "as the pod's spec counts them");

    assert_volumes_are_the_pods_own(&engine);
    assert_eq!(exec(&engine, "web", "cat /scratch/init"), "begun\n");
    let made = std::fs::metadata(claimed(&engine).join("made")).unwrap();
    assert_eq!((made.uid(), made.gid()), (5, 6), "a volume is the same with any range");
    exec(&engine, "web", "echo kept > /data/kept");

    // all that root in there may do, and none of it is the node's
    let reach = "unshare -m true; echo 77 > /proc/sys/kernel/panic; nsenter -t 1 -n -m true; mount -t tmpfs x /mnt; \
                 mknod /tmp/rekindle-disk b 254 0; echo h > /proc/sysrq-trigger; true";
    let panic = || std::fs::read_to_string("/proc/sys/kernel/panic").unwrap();
    let before = panic();
    exec(&engine, "web", reach);
    assert_eq!(panic(), before, "all of /proc is seen, and none of the machine's written");

    for rung in ["container", "containers", "pod"] {
        restart(&engine, rung);
        assert_eq!(first_id(&engine, "web"), first, "rung {rung}");
        assert_volumes_are_the_pods_own(&engine);
    }
    assert_eq!(exec(&engine, "web", "cat /data/kept; cat /scratch/init"), "kept\nbegun\n");

    let running = pid(&engine);
    engine.kill();
    engine.launch(&[]);
    engine.wait_ready("web");
    assert_eq!(pid(&engine), running, "it ran on");
    assert_eq!((first_id(&engine, "web"), first_id(&engine, "other")), (first, other));
    engine.kubectl(&["delete", "pod", "other"]);
    for name in ["third", "fourth"] {
        engine.apply(&plain(name));
        engine.wait_ready(name);
    }
    let now = BTreeMap::from(["third", "fourth"].map(|name| (first_id(&engine, name), name)));
    assert_eq!(now.len(), 2, "each its own");
    assert!(now.contains_key(&other), "what a pod had that is gone is given again: {now:?}");
    assert!(!now.contains_key(&first), "what a pod has that an earlier engine started is not");
    restart(&engine, "pod");
    assert_eq!(first_id(&engine, "web"), first);
}

#[test]
fn what_is_the_nodes_does_not_go_with_users_of_the_pods_own() {
    let engine = Engine::start();
    // upstream names the second as its own code does
    for (field, named) in
        [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "hostIPC")]
    {
        let manifest =
            plain("wrong").replace("hostUsers: false", &format!("hostUsers: false, {field}: true"));
        let said = engine.kubectl_fails(&["create", "-f", "-"], &manifest);
        let expected = format!("spec.{named}: Forbidden: when `hostUsers` is false");
        assert!(said.contains(&expected), "{said}");
    }
    let unmasked = plain("wrong")
        .replace("hostUsers: false, ", "")
        .replace("command:", "securityContext: {procMount: Unmasked}, command:");
    let said = engine.kubectl_fails(&["create", "-f", "-"], &unmasked);
    assert!(said.contains("`hostUsers` must be false to use `Unmasked`"), "{said}");
    // a volume on a file system that cannot show other ids: told, and tried again
    let manifest = plain("kernel")
        .replace("command:", "volumeMounts: [{name: v, mountPath: /v}], command:")
        .replace("containers:", "volumes: [{name: v, hostPath: {path: /proc/sys}}], containers:");
    engine.apply(&manifest);
    engine.wait_for_event("kernel", "Failed", "id-mapped");
}
