# Behind the rows with intervals come all others that differ; goodputs by unlike limits are no two figures of one thing.
run() {
    printf '{"requests": 4, "cached_tokens": %s, "joules": %s, "overload": %s, "points": {}, "notes": ["%s"],' "$1" "$2" "$3" "$1"
    printf '"kv_exposed_ms": {"p50": 1.5, "max": %s}, "nodes": [{"id": "decode-0", "role": "decode", "queued": %s}],' "$1" "$1"
    printf '"made_by": {"date": "%s", "host": "box", "options": {"decode": "1:h100"%s}}}\n' "$1" "$4"
}
run 100 null null ', "slo": "ttft:1s"' > one.json
run 150 20.25 '"prefill nodes work"' ', "slo": "ttft:1000ms", "model": ["a", "b"]' > two.json
run 150 20.25 null '' > three.json
baton compare one.json two.json | sed -n '/differs/,$p'
baton compare one.json two.json --json | grep -o '"row": "[a-z0-9_.-]*", "values": \[[^]]*\]'
baton compare two.json one.json three.json
