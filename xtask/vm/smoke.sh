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

mkfifo /tmp/rows
rekindle up --data-dir /data --node-name node-1 -f /manifests/poisoned.yaml -f /manifests/limits.yaml >/tmp/rows 2>&1 &
engine=$!
healed="" hog="" limited=""
# a line comes with each change of a pod; when the engine ends, the lines do
while read -r line; do
    echo "$line"
    set -- $line
    case "$line" in
    poisoned-*1/1*Running*" Pod "*) case "$healed" in *"$1"*) ;; *) healed="$healed $1" ;; esac ;;
    hog*OOMKilled*) hog=OOMKilled ;;
    limited*1/1*Running*) limited=Running ;;
    esac
    if [ "$(echo $healed | wc -w)" = 3 ] && [ -n "$hog" ] && [ -n "$limited" ]; then
        break
    fi
done </tmp/rows
cat /tmp/rows >/dev/null & # so that the engine never writes to a closed pipe

[ "$(echo $healed | wc -w)" = 3 ] || end "failed: healed by a whole-pod restart: $healed, and no more"
[ -n "$hog" ] || end "failed: the pod that takes too much memory was not reported as OOMKilled"
[ -n "$limited" ] || end "failed: the pod with limits does not run"

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
end ok
