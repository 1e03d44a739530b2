# A device under its stacks, and in groups: what a name may ask for, what is shown of each stack, what is refused.
cat > mine.json <<'END'
{"name": "mine", "title": "made up", "operators": {}, "companion": true, "time": {"stack": "slow",
  "f16_ops_per_us": 1000000, "memory_bytes_per_us": 50000, "dispatch_ns": 9000000, "interconnect_bytes_per_us": 4000,
  "group_sizes": [2, 4], "calibration": {"on": "rows of a page", "rows": 30, "shapes": 2, "constants": 3,
  "kinds": ["prefill", "decode"], "region": {"rows": [1, 512], "batch": [1, 8], "devices": [1, 2]},
  "errors": {"ttft": [52, 240, -31, 9], "tpot": [17, 90, 4, 12]}, "residuals": {"products": [-90, 0, 40]}}},
  "stacks": {"fast": {"dispatch_ns": 1000000, "calibration": {"on": "two rows", "rows": 2}},
  "sheet": {"dispatch_ns": null}}}
END
baton profiles ./mine.json
baton profiles ./mine.jsonx4@fast --json | grep -oE '"(name|group_sizes|dispatch_ns)": [^,}]*'
baton profiles ./mine.json@quick
baton profiles ./mine.jsonx3
baton profiles m2-ultra-gpu@none
baton profiles host
