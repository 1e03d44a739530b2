#!/bin/sh
# Copies what `make install` installs, and takes it away again:
#   install.sh install BIN PAGES PROGRAM...     programs from BIN, manual pages and completion from PAGES (docs/pages.sh)
#   install.sh uninstall
# DESTDIR, PREFIX, BINDIR, MANDIR and COMPDIR in the environment say where; any of them may have spaces. Each copied
# file stands with its digest in PREFIX/share/baton/installed. Uninstall reads that list, removes what is still as it
# was copied, and names what is not; nothing else is touched.
set -eu
what=${1:?install or uninstall}
shift
: "${PREFIX:=/usr/local}"
: "${BINDIR:=$PREFIX/bin}" "${MANDIR:=$PREFIX/share/man}" "${COMPDIR:=$PREFIX/share/bash-completion/completions}"
root=${DESTDIR:-} list=$PREFIX/share/baton/installed
there=$root$list

# put MODE FILE TO: and its line of the list
put() {
    echo "  INSTALL $root$3"
    ${INSTALL:-install} -d "$(dirname "$root$3")"
    ${INSTALL:-install} -m "$1" "$2" "$root$3"
    printf '%s %s\n' "$(digest "$root$3")" "$3" >> "$there.new"
}
digest() { sha256sum < "$1" | cut -d ' ' -f 1; }

case $what in
install)
    bin=$1 pages=$2
    shift 2
    ${INSTALL:-install} -d "$(dirname "$there")"
    : > "$there.new"
    for p in "$@"; do put 0755 "$bin/$p" "$BINDIR/$p"; done
    if [ -f "$pages/made" ]; then
        for page in "$pages"/man/*.1; do put 0644 "$page" "$MANDIR/man1/${page##*/}"; done
        for p in "$@"; do put 0644 "$pages/baton.bash" "$COMPDIR/$p"; done
    else
        echo "no manual pages and no completion: this machine's programs make them; run 'make docs' without CROSS first" >&2
    fi
    # Files that an earlier install put elsewhere are still ours.
    [ ! -f "$there" ] || awk 'NR == FNR { new[substr($0, 66)] = 1; next } !(substr($0, 66) in new)' "$there.new" "$there" > "$there.old"
    [ ! -f "$there.old" ] || cat "$there.old" >> "$there.new"
    rm -f "$there.old"
    mv "$there.new" "$there"
    ;;
uninstall)
    [ -f "$there" ] || { echo "nothing to remove: there is no $there, which an install leaves" >&2; exit 0; }
    while read -r sum path; do
        file=$root$path
        [ -f "$file" ] || continue
        if [ "$(digest "$file")" = "$sum" ]; then
            echo "  REMOVE  $file"
            rm -f "$file"
        else
            echo "kept: $file is not what was installed" >&2
        fi
    done < "$there"
    rm -f "$there"
    rmdir "$(dirname "$there")" 2> /dev/null || true
    ;;
*) echo "install.sh: unknown word '$what'" >&2; exit 2 ;;
esac
