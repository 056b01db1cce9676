#!/usr/bin/env bash
# Installs what building (or testing) needs on a Debian-like machine, or says what is missing and how
# to get it. Usage: scripts/setup.sh build|test
set -euo pipefail

what=${1:-build}
missing=()
packages=()

need() { # command, package, reason
    command -v "$1" >/dev/null 2>&1 || { packages+=("$2"); missing+=("$1 ($3): apt-get install $2"); }
}

need cc build-essential "a C compiler for the built-in database"
if [ "$what" = test ]; then
    need fio fio "cross-checks against a second instrument"
    need losetup mount "loop devices for the guard's tests"
    need addpart util-linux "partitions on loop devices"
    need findmnt util-linux "the root disk's name"
    need mkfs.ext4 e2fsprogs "file systems for the guard's tests"
    need pvcreate lvm2 "LVM labels for the guard's tests"
    need qemu-system-x86_64 qemu-system-x86 "virtual machines with NVMe drives"
    need qemu-storage-daemon qemu-utils "block devices that behave as a test wants"
    need busybox busybox-static "the virtual machines' root file system"
    need cpio cpio "the virtual machines' root file system"
    need lz4 lz4 "the virtual machines' kernel"
    need modinfo kmod "the virtual machines' kernel modules"
    need nvme nvme-cli "a second opinion on NVMe drives"
    need smartctl smartmontools "a second opinion on drives"
    need hdparm hdparm "SATA drives, what their security allows"
    need sg_format sg3-utils "SAS drives, FORMAT UNIT"
    need lspci pciutils "the virtual machines' PCIe tree"
    need mdadm mdadm "MD sets for the guard's tests"
    need chromium chromium "a browser that reads and prints reports"
    need pdftotext poppler-utils "a reader of printed reports"
    need soffice libreoffice-calc-nogui "a reader of workbooks"
    need node nodejs "the scripts of the pages, and their tests"
    need npm npm "the tools that build these scripts"
    need strip binutils "small programs in the virtual machines"
    need python3 python3-venv "public readers of the exports"
fi

if [ ${#packages[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "setup: installing ${packages[*]}"
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq -o DPkg::Lock::Timeout=300 || true
        apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "${packages[@]}" >/dev/null
    else
        echo "setup: missing, and this is not root on a Debian-like machine:" >&2
        printf '  %s\n' "${missing[@]}" >&2
        # Tests say themselves what they cannot do; only the compiler is indispensable.
        command -v cc >/dev/null 2>&1 || exit 1
    fi
fi

if ! command -v cargo >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && apt-get install -y -qq rustup >/dev/null 2>&1; then
        rustup default stable
    else
        echo "setup: Rust is missing: get it from https://rustup.rs (1.89 or later) and run again" >&2
        exit 1
    fi
fi

version=$(rustc --version | sed 's/rustc \([0-9]*\)\.\([0-9]*\).*/\1 \2/')
read -r major minor <<<"$version"
if [ "$major" -lt 1 ] || { [ "$major" -eq 1 ] && [ "$minor" -lt 89 ]; }; then
    echo "setup: Rust $major.$minor is too old, 1.89 is needed: rustup update stable" >&2
    exit 1
fi
if [ "$what" = test ]; then
    for part in fmt clippy; do
        cargo $part --version >/dev/null 2>&1 || rustup component add "${part/fmt/rustfmt}" >/dev/null 2>&1 || {
            echo "setup: cargo $part is missing: rustup component add ${part/fmt/rustfmt}" >&2
            exit 1
        }
    done
fi
