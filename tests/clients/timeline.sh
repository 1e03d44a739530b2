#!/bin/sh
# Timelines of the default model under every schedule, read with Perfetto's protobuf bindings, which are fetched from
# PyPI into a folder of the user's cache.
#   timeline.sh BUILD_DIR
set -eu
cd "$(dirname "$0")/../.."
bin=$1/bin
home=${XDG_CACHE_HOME:-$HOME/.cache}/baton-tools/perfetto
if [ ! -f "$home/ready" ]; then
    echo "fetching perfetto into $home" >&2
    mkdir -p "$home"
    python3 -m venv "$home"
    "$home/bin/pip" -q install perfetto protobuf
    touch "$home/ready"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for schedule in serial fifo ooo split; do
    for form in pftrace json; do
        "$bin/baton" timeline -q -m smollm2 --profile hexagon-v75 --decode-profile adreno-750 -p 1000 -n 8 \
            --schedule $schedule -o "$work/$schedule.$form" > /dev/null
    done
    printf '%-7s ' $schedule
    "$home/bin/python" tests/clients/check_timeline.py "$work/$schedule.pftrace" "$work/$schedule.json"
done
