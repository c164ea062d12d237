# Boots a systemd of its own over the files of this machine: what it writes is in
# memory, and gone when it ends. $1 is an empty directory.
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/shm dev/pts
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
mknod -m 666 dev/ptmx c 5 2
mknod -m 666 dev/null c 1 3
mknod -m 666 dev/zero c 1 5
mknod -m 666 dev/full c 1 7
mknod -m 666 dev/random c 1 8
mknod -m 666 dev/urandom c 1 9
mknod -m 666 dev/tty c 5 0
mknod -m 666 dev/loop0 b 7 0 # for what the unit is to hide
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
# Nothing of this machine is to start, or to set what the kernel has but once.
rm -rf etc/systemd/system usr/sbin/policy-rc.d etc/mintage var/lib/mintage \
	usr/lib/systemd/system/*.wants usr/lib/systemd/system-generators var/lib/man-db/auto-update
mkdir -p etc/systemd/system etc/systemd/journald.conf.d
printf '[Journal]\nReadKMsg=no\nStorage=volatile\n' >etc/systemd/journald.conf.d/machine.conf
echo 5eed5eed5eed5eed5eed5eed5eed5eed >etc/machine-id
cat >etc/systemd/system/machine.target <<'UNIT'
[Unit]
Description=A machine for a test
Wants=systemd-journald.service
AllowIsolate=yes
UNIT
pivot_root . mnt
cd /
umount --lazy /mnt
mount --make-rshared / # credentials come to a service that way
exec env -i container=mintage-test PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	/lib/systemd/systemd --system --unit=machine.target --log-target=journal --show-status=no
