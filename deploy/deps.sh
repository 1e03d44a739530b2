#!/bin/sh
# The packages that Baton needs from Debian 12, in one place.
#   deps.sh                 say what is missing; exit 1 if anything is
#   deps.sh --install       install what is missing (apt-get, through sudo when not root)
#   deps.sh --checks        with what only `make lint` and `make test-emulated` need
#   deps.sh --write FILE    also write the compiler and linker flags as a make fragment
#   deps.sh --sysroot DIR   the flags of the libraries in that folder, of another architecture (deploy/sysroot.sh)
set -eu
# library as pkg-config knows it : Debian package
LIBS='libzmq:libzmq3-dev libprotobuf-c:libprotobuf-c-dev libsodium:libsodium-dev libmicrohttpd:libmicrohttpd-dev
      gnutls:libgnutls28-dev
      jansson:libjansson-dev libpcre2-8:libpcre2-dev libxxhash:libxxhash-dev
      libcurl:libcurl4-openssl-dev libutf8proc:libutf8proc-dev'
# of the program `baton` alone
EDIT_LIBS='libedit:libedit-dev'
# command : Debian package
TOOLS='cc:gcc ar:binutils pkg-config:pkg-config protoc-c:protobuf-c-compiler unzip:unzip python3:python3
       sha256sum:coreutils git:git openssl:openssl'
# what `make lint` and `make test-compilers COMPILERS=clang-14` ask for
CHECKS='clang-format-14:clang-format-14 nm:binutils tsort:coreutils clang-14:clang-14'

missing() {
    for t in $TOOLS; do command -v "${t%%:*}" > /dev/null || echo "${t#*:}"; done
    for l in $LIBS $EDIT_LIBS; do pkg-config --exists "${l%%:*}" 2> /dev/null || echo "${l#*:}"; done
    [ -e /usr/include/cmocka.h ] || echo libcmocka-dev
    [ -e /usr/include/stdio.h ] || echo libc6-dev
    [ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
    [ "$checks" = 0 ] || [ -e /usr/include/simde/x86/avx512.h ] || echo libsimde-dev
    python3 -m pip --version > /dev/null 2>&1 || echo python3-pip
}

install=0 checks=0 out=
while [ $# -gt 0 ]; do
    case $1 in
    --install) install=1 ;;
    --checks) TOOLS="$TOOLS $CHECKS" checks=1 ;;
    --write) out=$2; shift ;;
    --sysroot)
        PKG_CONFIG_LIBDIR=$(echo "$2"/usr/lib/*-linux-gnu*/pkgconfig):$2/usr/share/pkgconfig
        export PKG_CONFIG_SYSROOT_DIR="$2" PKG_CONFIG_LIBDIR
        shift ;;
    *) echo "deps.sh: unknown option '$1'" >&2; exit 2 ;;
    esac
    shift
done

need=$(missing | sort -u | tr '\n' ' ')
if [ -n "$need" ] && [ $install = 1 ]; then
    sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
    command -v apt-get > /dev/null || { echo "missing: $need-- no apt-get here; install them by hand" >&2; exit 1; }
    [ -z "$sudo" ] || command -v sudo > /dev/null || { echo "missing: $need-- run 'apt-get install $need' as root" >&2; exit 1; }
    echo "installing: $need" >&2
    # The output of dpkg for each file is shown only where something fails.
    get() { said=$(DEBIAN_FRONTEND=noninteractive $sudo apt-get "$@" 2>&1) || { printf '%s\n' "$said" >&2; return 1; }; }
    get update -qq || true
    # shellcheck disable=SC2086
    get install -y -qq --no-install-recommends $need ||
        for p in $need; do  # one that this Debian lacks keeps nothing else away
            get install -y -qq --no-install-recommends "$p" || true
        done
    need=$(missing | sort -u | tr '\n' ' ')
fi
[ -z "$need" ] || { echo "missing: $need-- run 'make deps' to install" >&2; exit 1; }

[ -n "$out" ] || exit 0
names=$(for l in $LIBS; do printf '%s ' "${l%%:*}"; done)
# shellcheck disable=SC2086
{
    echo "DEP_CFLAGS := $(pkg-config --cflags $names)"
    echo "DEP_LIBS := $(pkg-config --libs $names) -lm"
    echo "EDIT_LIBS := $(pkg-config --libs "${EDIT_LIBS%%:*}")"
} > "$out.tmp"
mv "$out.tmp" "$out"
