#!/bin/busybox sh
# Runs the engine under cgroup version 2 alone and says what came of it: the last line begins with "verdict:".
export PATH=/bin
/bin/busybox --install -s /bin

mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t cgroup2 none /sys/fs/cgroup
for module in /modules/*.ko; do insmod "$module"; done
ip link set lo up

end() {
    echo "verdict: $1"
    poweroff -f
}

# The kernel's own server of NFS. It asks programs who may mount what; here the answers are
# written before it asks.
mkdir /export
echo hello >/export/greeting
mount -t nfsd nfsd /proc/fs/nfsd
until=$(($(date +%s) + 100000))
echo "nfsd 127.0.0.1 $until *" >/proc/net/rpc/auth.unix.ip/channel
# flags: any port, no check of subtrees, named by a number; which is 0, the root of version 4
echo "* /export $until 9218 65534 65534 0" >/proc/net/rpc/nfsd.export/channel
echo "* 1 \\x00000000 $until /export" >/proc/net/rpc/nfsd.fh/channel
echo 10 >/proc/fs/nfsd/nfsv4leasetime
echo 10 >/proc/fs/nfsd/nfsv4gracetime
echo "-3" >/proc/fs/nfsd/versions # it would have to be registered with a program that is not here
echo 2 >/proc/fs/nfsd/threads

mkfifo /tmp/rows
# the engine mounts with the program of util-linux, as on any machine
PATH=/usr/bin:/sbin:/bin rekindle up --data-dir /data --node-name node-1 \
    -f /manifests/poisoned.yaml -f /manifests/limits.yaml -f /manifests/shares.yaml >/tmp/rows 2>&1 &
engine=$!
healed="" hog="" limited="" share="" claimed=""
# a line comes with each change of a pod; when the engine ends, the lines do
while read -r line; do
    echo "$line"
    set -- $line
    case "$line" in
    poisoned-*1/1*Running*" Pod "*) case "$healed" in *"$1"*) ;; *) healed="$healed $1" ;; esac ;;
    hog*OOMKilled*) hog=OOMKilled ;;
    limited*1/1*Running*) limited=Running ;;
    share*1/1*Running*) share=Running ;;
    claimed*1/1*Running*) claimed=Running ;;
    esac
    if [ "$(echo $healed | wc -w)" = 3 ] && [ -n "$hog" ] && [ -n "$limited" ] && [ "$share$claimed" = RunningRunning ]; then
        break
    fi
done </tmp/rows
cat /tmp/rows >/dev/null & # so that the engine never writes to a closed pipe

[ "$(echo $healed | wc -w)" = 3 ] || end "failed: healed by a whole-pod restart: $healed, and no more"
[ -n "$hog" ] || end "failed: the pod that takes too much memory was not reported as OOMKilled"
[ -n "$limited" ] || end "failed: the pod with limits does not run"

[ -n "$share" ] || end "failed: the pod with a share of NFS does not run"
[ -n "$claimed" ] || end "failed: the pod with a share behind a claim does not run"
answer=$(cat /export/answer)
[ "$answer" = "hello from a pod" ] || end "failed: the server of NFS has: $answer"
[ ! -e /export/forbidden ] || end "failed: a pod wrote to a share that it may only read"
echo 0 >/proc/fs/nfsd/threads # from now on nothing answers

tree=/sys/fs/cgroup/rekindle/$(cat /data/engine-id)
holds() { # file, value: the group of the container with limits has them
    found=$(cat "$tree"/pod*/0/limited-0/"$1")
    [ "$found" = "$2" ] || end "failed: $1 is $found, not $2"
}
holds cpu.max "20000 100000"
holds memory.max 67108864
holds memory.oom.group 1

kill -INT "$engine"
wait "$engine" || end "failed: the engine ended with $? after Ctrl-C"
[ ! -e "$tree" ] || end "failed: the engine left cgroups: $(find "$tree" -type d)"
left=$(grep ' nfs' /proc/self/mountinfo | grep -v nfsd)
[ -z "$left" ] || end "failed: the engine left mounts: $left"
end ok
