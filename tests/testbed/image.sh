#!/usr/bin/env bash
# Builds what the guests of the test bed boot from: an uncompressed kernel and a small root file system
# in memory. Usage: image.sh FOLDER. Everything comes from the distribution's packages; nothing of it is
# installed on this machine. What is there already and fits is kept.
set -euo pipefail
out=$1
mkdir -p "$out"
script=$(readlink -f "$0")

fail() {
    echo "testbed: $*" >&2
    exit 1
}
for program in qemu-system-x86_64 busybox cpio lz4 modinfo depmod dpkg nvme smartctl hdparm sg_format sg_sanitize lspci mdadm mke2fs; do
    command -v "$program" >/dev/null || fail "$program is missing"
done

package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends:/ {print $2; exit}')
[ -n "$package" ] || fail "no kernel package (linux-image-cloud-amd64) in the package lists"
key="$package $(sha256sum "$script" | cut -c1-16)"
if [ "$(cat "$out/key" 2>/dev/null)" = "$key" ]; then
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && apt-get download -qq "$package" >/dev/null 2>&1) || fail "$package cannot be downloaded"
dpkg -x "$work"/*.deb "$work/kernel"
release=${package#linux-image-}

# The emulated processor would need seconds to unpack the kernel.
image=$work/kernel/boot/vmlinuz-$release
at=$(LC_ALL=C grep -abom1 "$(printf '\x02\x21\x4c\x18')" "$image" | head -1 | cut -d: -f1)
[ -n "$at" ] || fail "the kernel is not packed as expected"
tail -c +$((at + 1)) "$image" | lz4 -dcq 2>/dev/null >"$work/vmlinux" || true
head -c 4 "$work/vmlinux" | grep -q ELF || fail "the kernel could not be unpacked"

root=$work/root
mkdir -p "$root"/{bin,sbin,dev,proc,sys,run,tmp,mnt,etc/nvme,lib64,root}
cp "$(command -v busybox)" "$root/bin/busybox"
for applet in $(busybox --list); do
    [ "$applet" = busybox ] || ln -sf busybox "$root/bin/$applet"
done
ln -sf ../bin/busybox "$root/sbin/modprobe"

# Programs to compare with, and their libraries.
copy() {
    mkdir -p "$root$(dirname "$1")"
    [ -e "$root$1" ] || cp -L "$1" "$root$1"
}
for program in nvme smartctl hdparm sg_format sg_sanitize lspci mdadm mke2fs; do
    path=$(readlink -f "$(command -v "$program")")
    rm -f "$root/bin/$program"
    cp -L "$path" "$root/bin/$program"
    ldd "$path" | grep -o '/[^ ]*' | while read -r library; do copy "$library"; done
done

modules=lib/modules/$release
mkdir -p "$root/$modules"
find_name() { # modules are called with - or _
    local name
    for name in "$1" "${1//_/-}" "${1//-/_}"; do
        [ -z "$(find "$work/kernel/$modules" -name "$name.ko*")" ] || {
            echo "$name"
            return
        }
    done
    fail "no kernel module $1"
}
add() {
    local name file
    name=$(find_name "$1")
    file=$(find "$work/kernel/$modules" -name "$name.ko*" | head -1)
    mkdir -p "$root/$modules/kernel"
    [ ! -e "$root/$modules/kernel/$(basename "$file")" ] || return 0
    cp "$file" "$root/$modules/kernel/"
    for more in $(modinfo -F depends "$file" | tr ',' ' '); do add "$more"; done
}
for module in nvme-tcp loop md-mod raid1 ata_piix virtio_pci virtio_scsi sd_mod; do add "$module"; done
cp "$work/kernel/$modules"/modules.{builtin,order} "$root/$modules/"
depmod -b "$root" "$release"

cat >"$root/init" <<'INIT'
#!/bin/sh
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mkdir -p /dev/shm && mount -t tmpfs shm /dev/shm
echo "nqn.2014-08.org.nvmexpress:uuid:6f0b1c1e-0000-4000-8000-000000000001" >/etc/nvme/hostnqn
echo "6f0b1c1e-0000-4000-8000-000000000001" >/etc/nvme/hostid
ip link set lo up 2>/dev/null || ifconfig lo 127.0.0.1 up
scenario=$(sed -n 's/.*scenario=\([^ ]*\).*/\1/p' /proc/cmdline)
/bin/guest "$scenario"
echo "GUEST EXIT $?"
poweroff -f
INIT
chmod 755 "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet) >"$work/base.cpio"
mv "$work/vmlinux" "$work/base.cpio" "$out/"
echo "$key" >"$out/key"
