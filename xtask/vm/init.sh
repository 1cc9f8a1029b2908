#!/bin/busybox sh
# The first process of the virtual machine. Its root is the initramfs, from which no process can pivot away, as containers'
# first processes do: everything moves to a tmpfs, as on any machine that boots from an initramfs.
set -e
/bin/busybox mkdir /new
/bin/busybox mount -t tmpfs -o mode=755 none /new
/bin/busybox cp -a /bin /lib /lib64 /modules /manifests /sbin /smoke.sh /usr /new/
/bin/busybox mkdir /new/proc /new/sys /new/dev /new/tmp /new/run /new/etc /new/root
exec /bin/busybox switch_root /new /smoke.sh
