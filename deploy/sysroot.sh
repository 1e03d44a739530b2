#!/bin/sh
# The libraries of another architecture in a folder of their own, for `make CROSS=aarch64`. Nothing of the system's own
# changes: its package lists and what is installed stay as they are, and no foreign architecture is added to dpkg.
#   sysroot.sh FOLDER       fetch and unpack them, unless FOLDER is whole
# The packages come from the apt sources of this machine.
set -eu
folder=${1:?folder, such as build/sysroot-aarch64}
arch=arm64
packages='libc6-dev libzmq3-dev libprotobuf-c-dev libsodium-dev libmicrohttpd-dev libjansson-dev libpcre2-dev
          libxxhash-dev libcurl4-openssl-dev libedit-dev libcmocka-dev'

[ ! -e "$folder/.whole" ] || exit 0
missing=
command -v aarch64-linux-gnu-gcc > /dev/null || missing='gcc-aarch64-linux-gnu libc6-dev-arm64-cross'
command -v qemu-aarch64 > /dev/null || missing="$missing qemu-user"
if [ -n "$missing" ]; then
    sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
    echo "installing: $missing" >&2
    # shellcheck disable=SC2086
    { DEBIAN_FRONTEND=noninteractive $sudo apt-get update -qq || true
      DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing; } > /dev/null 2>&1 ||
        { echo "sysroot.sh: install by hand: $missing" >&2; exit 1; }
fi

rm -rf "$folder"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/lists/partial" "$apt/archives/partial"
: > "$apt/status"
private() {
    apt-get -qq -o APT::Architecture=$arch -o APT::Architectures=$arch -o Dir::State="$apt" \
        -o Dir::State::Lists="$apt/lists" -o Dir::State::Status="$apt/status" -o Dir::Cache="$apt" \
        -o Dir::Cache::Archives="$apt/archives" -o Debug::NoLocking=1 -o APT::Sandbox::User=root "$@"
}
echo "fetching the libraries of $arch into $folder" >&2
private update
# shellcheck disable=SC2086
private install -y --no-install-recommends --download-only $packages > /dev/null
for deb in "$apt"/archives/*.deb; do dpkg -x "$deb" "$folder"; done
# Links to absolute places would leave the folder.
find "$folder" -type l -lname '/*' | while read -r link; do
    ln -sfnr "$folder$(readlink "$link")" "$link"
done
echo "$(find "$apt/archives" -name '*.deb' | wc -l) packages of $arch" >&2
touch "$folder/.whole"
