#!/bin/sh
# The libraries of another architecture in a folder of their own, for `make CROSS=aarch64`. Nothing of the system's own
# changes: its package lists and what is installed stay as they are, and no foreign architecture is added to dpkg.
#   sysroot.sh MACHINE FOLDER       fetch and unpack them, unless FOLDER is whole
# The packages come from the apt sources of this machine; those of riscv64, which Debian 12 lacks, from the releases
# after it, by the same sources. The cross compiler and qemu are installed where they are missing.
# Exit code 3: something cannot be had here; stderr says what.
set -eu
machine=${1:?machine, such as aarch64}
folder=${2:?folder, such as ~/.cache/baton/sysroot-aarch64}
arch=$machine suites='' more=''
case $machine in
    aarch64) arch=arm64 triplet=aarch64-linux-gnu ;;
    riscv64) triplet=riscv64-linux-gnu suites='trixie forky' more=libatomic1 ;; # gcc there calls it for bytes
    ppc64le) arch=ppc64el triplet=powerpc64le-linux-gnu ;;
    i686) arch=i386 triplet=i686-linux-gnu ;;
    *) echo "sysroot.sh: no such machine: $machine" >&2; exit 2 ;;
esac
packages='libc6-dev libzmq3-dev libprotobuf-c-dev libsodium-dev libmicrohttpd-dev libgnutls28-dev libjansson-dev
          libpcre2-dev libxxhash-dev libcurl4-openssl-dev libutf8proc-dev libedit-dev libcmocka-dev '$more

missing=
command -v $triplet-gcc > /dev/null || missing="gcc-$triplet libc6-dev-$arch-cross"
[ $machine = i686 ] || command -v "qemu-$machine" > /dev/null || missing="$missing qemu-user"
if [ -n "$missing" ]; then
    sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
    echo "installing: $missing" >&2
    # shellcheck disable=SC2086
    { DEBIAN_FRONTEND=noninteractive $sudo apt-get update -qq || true
      DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing; } > /dev/null 2>&1 ||
        { echo "sysroot.sh: no $machine here: apt-get cannot install: $missing" >&2; exit 3; }
fi
[ ! -e "$folder/.whole" ] || exit 0

# Unpacked beside it, and renamed when whole: others may be fetching it too.
mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$folder.XXXXXX")
apt=$(mktemp -d)
trap 'rm -rf "$apt" "$work"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$apt/lists/partial" "$apt/archives/partial"
: > "$apt/status"
sources=
if [ -n "$suites" ]; then
    site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Component: main' | grep '/debian/*$' | head -n 1)
    for suite in $suites; do echo "deb $site $suite main"; done > "$apt/sources"
    sources="-o Dir::Etc::SourceList=$apt/sources -o Dir::Etc::SourceParts=$apt/none"
fi
private() {
    # shellcheck disable=SC2086
    apt-get -qq -o APT::Architecture=$arch -o APT::Architectures=$arch -o Dir::State="$apt" \
        -o Dir::State::Lists="$apt/lists" -o Dir::State::Status="$apt/status" -o Dir::Cache="$apt" \
        -o Dir::Cache::Archives="$apt/archives" -o Debug::NoLocking=1 -o APT::Sandbox::User=root $sources "$@"
}
echo "fetching the libraries of $arch into $folder" >&2
# An index that a mirror is about to change is left out; what then cannot be had is said by the second command.
private update > "$apt/said" 2>&1 || true
# shellcheck disable=SC2086
private install -y --no-install-recommends --download-only $packages > /dev/null 2>> "$apt/said" || {
    cat "$apt/said" >&2
    echo "sysroot.sh: no $machine here: its libraries cannot be fetched (see above)" >&2
    exit 3
}
for deb in "$apt"/archives/*.deb; do dpkg -x "$deb" "$work"; done
# Newer releases unpack into usr alone, which base-files then links.
for d in lib lib64; do [ -e "$work/$d" ] || [ ! -d "$work/usr/$d" ] || ln -s "usr/$d" "$work/$d"; done
# Links to absolute places would leave the folder.
find "$work" -type l -lname '/*' | while read -r link; do
    ln -sfnr "$work$(readlink "$link")" "$link"
done
echo "$(find "$apt/archives" -name '*.deb' | wc -l) packages of $arch" >&2
touch "$work/.whole"
chmod 0755 "$work"
[ -e "$folder/.whole" ] || { rm -rf "$folder" && mv -T "$work" "$folder"; }
