#!/bin/sh
# What decides is pure: the folders of brains and the conversation of the hand-off reach, even through other headers, no
# socket, clock, thread or file.
set -eu
cd "${1:-.}"
pure='gateway/brain prefill-node/brain decode-node/brain common/xfer'
forbidden='^(rt/.*|node/.*|base/(clock|pool|ring|file)\.h)$'
system='<(zmq|time|pthread|unistd|poll|fcntl|signal|threads|sys/[a-z]+)\.h>'

# shellcheck disable=SC2086
find $pure -name '*.[ch]' 2> /dev/null | sort | {
    fail=0
    while read -r file; do
        if grep -nE "^ *# *include $system" "$file" | sed "s|^|$file:|;s|\$| (a brain)|" | grep .; then fail=1; fi
        seen='' queue=$file
        while [ -n "$queue" ]; do
            now=${queue%% *}
            case $queue in *' '*) queue=${queue#* } ;; *) queue='' ;; esac
            for inc in $(sed -n 's/^ *# *include "\([^"]*\)".*/\1/p' "$now"); do
                case " $seen " in *" $inc "*) continue ;; esac
                seen="$seen $inc"
                if echo "$inc" | grep -qE "$forbidden"; then
                    echo "$file: a brain must not reach $inc (through $now)"
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
