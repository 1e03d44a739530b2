#!/bin/sh
# The files that `make install` copies and `make uninstall` takes away, with a DESTDIR that has spaces and signs, of toy
# programs.
set -u
cd "$(dirname "$0")/.." || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL PREFIX BINDIR MANDIR COMPDIR DESTDIR CROSS
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
programs='baton baton-gateway baton-prefill baton-decode'

# A build with nothing to build: make is told that its programs and pages are there.
B=$work/build
mkdir -p "$B/bin" "$B/pages/man"
for p in $programs; do echo "$p" > "$B/bin/$p"; done
for p in $programs baton-run; do echo "page of $p" > "$B/pages/man/$p.1"; done
echo completion > "$B/pages/baton.bash"
touch "$B/pages/made"
# make TARGET DESTDIR [VARIABLE=VALUE...]
run_make() {
    target=$1 destdir=$2
    shift 2
    # shellcheck disable=SC2046
    make B="$B" $(for p in $programs; do echo "-o $B/bin/$p -o bin/$p"; done) -o all -o "$B/pages/made" "$target" \
        DESTDIR="$destdir" "$@" > "$work/out" 2>&1 || { echo "make $target failed"; cat "$work/out"; }
}
# files FOLDER: those below it, in one line
files() { (cd "$1" && find . -type f | LC_ALL=C sort | tr '\n' ' '); }
# same WHAT GOT WANTED
same() {
    if [ "$2" = "$3" ]; then passed=$((passed + 1))
    else failed=$((failed + 1)); printf 'install.sh: %s\n got    %s\n wanted %s\n' "$1" "$2" "$3"; fi
}
installed() {
    for p in $programs; do echo "./$1/bin/$p"; done
    for p in $programs; do echo "./$1/share/bash-completion/completions/$p"; done
    for p in $programs baton-run; do echo "./$1/share/man/man1/$p.1"; done
    echo "./$1/share/baton/installed"
}
wanted() { { installed usr; printf '%s\n' "$@"; } | grep . | LC_ALL=C sort | tr '\n' ' '; }

# Words of the path are files of others beside it, and others have files in its folders.
dest="$work/a place/it's \"here\" & so on"
mkdir -p "$dest/usr/bin" "$dest/usr/share/man/man1" "$work/so"
others='a so/on place baton here'
for f in $others; do echo mine > "$work/$f"; done
echo mine > "$dest/usr/bin/other"
echo mine > "$dest/usr/share/man/man1/baton-fly.1"
run_make install "$dest" PREFIX=/usr
same 'a path with spaces' "$(files "$dest")" "$(wanted ./usr/bin/other ./usr/share/man/man1/baton-fly.1)"
same 'a program is executable, and the program' "$([ -x "$dest/usr/bin/baton-decode" ] && cat "$dest/usr/bin/baton-decode")" baton-decode
run_make install "$dest" PREFIX=/usr
same 'installed twice' "$(sort "$dest/usr/share/baton/installed" | uniq -d)$(wc -l < "$dest/usr/share/baton/installed")" 13
run_make uninstall "$dest" PREFIX=/usr
same 'what others have stays' "$(files "$dest")" './usr/bin/other ./usr/share/man/man1/baton-fly.1 '
# shellcheck disable=SC2086
same 'the words of the path stay' "$(cd "$work" && cat $others | sort -u)" mine
run_make uninstall "$dest" PREFIX=/usr
same 'uninstalled twice' "$(files "$dest")" './usr/bin/other ./usr/share/man/man1/baton-fly.1 '
same 'and says so' "$(grep -c 'nothing to remove' "$work/out")" 1

# A file that was replaced since is not the copied one; pages of a build that is gone are.
dest=$work/plain
run_make install "$dest" PREFIX=/usr
echo changed > "$dest/usr/bin/baton"
rm "$B/pages/man/baton-run.1"
run_make uninstall "$dest" PREFIX=/usr
same 'a changed program stays' "$(files "$dest") $(cat "$dest/usr/bin/baton")" './usr/bin/baton  changed'
same 'and is named' "$(grep -c "^kept: $dest/usr/bin/baton is not" "$work/out")" 1
same 'no folder of ours stays' "$([ -e "$dest/usr/share/baton" ] && echo there)" ''

# Folders that the user names; two installs with different ones.
dest="$work/of two"
run_make install "$dest" PREFIX='/opt/my baton' BINDIR=/sbin
run_make install "$dest" PREFIX='/opt/my baton'
same 'named folders' "$(find "$dest" -name baton-gateway | wc -l)" 3
run_make uninstall "$dest" PREFIX='/opt/my baton'
same 'all that any install copied' "$(files "$dest")" ''

# Without pages, as after a cross build.
rm "$B/pages/made"
dest=$work/cross
DESTDIR=$dest sh deploy/install.sh install "$B/bin" "$B/pages" baton > "$work/out" 2>&1
same 'without pages' "$(files "$dest")" './usr/local/bin/baton ./usr/local/share/baton/installed '
same 'and says what makes them' "$(grep -c "run 'make docs'" "$work/out")" 1

echo "$passed passed, $failed failed"
[ $failed = 0 ]
