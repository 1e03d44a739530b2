#!/bin/sh
# What decides is pure: brains reach, even through other headers, no socket, clock, thread or file.
set -eu
cd "${1:-.}"
forbidden='^(rt/.*|base/(clock|pool|ring|file)\.h)$'
system='<(zmq|time|pthread|unistd|poll|fcntl|signal|threads|sys/[a-z]+)\.h>'

find . -path ./build -prune -o -type f \( -path '*/brain*.[ch]' -o -path './gateway/registry.[ch]' -o -path './gateway/request.[ch]' \
    -o -path './gateway/route.[ch]' -o -path './common/xfer/step.h' -o -path './common/xfer/attempt_log.[ch]' \
    -o -path './common/xfer/greeting.[ch]' -o -path './common/xfer/role.[ch]' -o -path './common/xfer/xfer_*.[ch]' \) -print | grep -v '^./tests/' | sort | {
    fail=0
    while read -r file; do
        if grep -nE "^ *# *include $system" "$file" | sed "s|^|${file#./}:|;s|\$| (a brain)|" | grep .; then fail=1; fi
        seen='' queue=$file
        while [ -n "$queue" ]; do
            now=${queue%% *}
            case $queue in *' '*) queue=${queue#* } ;; *) queue='' ;; esac
            for inc in $(sed -n 's/^ *# *include "\([^"]*\)".*/\1/p' "$now"); do
                case " $seen " in *" $inc "*) continue ;; esac
                seen="$seen $inc"
                if echo "$inc" | grep -qE "$forbidden"; then
                    echo "${file#./}: a brain must not reach $inc (through ${now#./})"
                    fail=1
                fi
                for at in "common/$inc" "$inc"; do
                    [ ! -f "$at" ] || queue="$queue${queue:+ }$at"
                done
            done
        done
    done
    exit $fail
}
