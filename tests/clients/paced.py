"""Simulated equals real: paced.py BUILD_DIR MODEL [K...]

The same requests run on real processes with --pace device:K and in `baton simulate`, by default and layer by layer, with
the package that the processes run. Mean TTFT and TPOT lie within 1 %. Each is judged where late work can have moved it by
less than 1 %. One line a check; exit 1 where one fails, 3 where one cannot be judged. A K takes four minutes or more, all
mostly idle."""
import json
import os
import subprocess
import sys

BATON, MODEL = os.path.join(sys.argv[1], "bin/baton"), sys.argv[2]
PACES = sys.argv[3:] or ["16"]
LOAD = ["--synthetic", "in:60-250,out:12,rate:0.05", "--limit", "8", "--seed", "3", "-c", "2048", "-m", MODEL]
LIMIT = 0.01
TIMES = ("ttft_ms", "tpot_ms")


def run(*args):
    return json.loads(subprocess.run([BATON, *args, "--json", "-q"], stdout=subprocess.PIPE, check=True).stdout)


def check(good, text):
    print(("ok    " if good else "FAIL  ") + text, flush=True)
    return good


package = run("compile", "-m", MODEL, "--profile", "hexagon-v75")["path"]
failed = unjudged = False
for k in PACES:
    pace = ["--link", "1", "--pace", "device:" + k]
    real = run("replay", *LOAD, *pace, "--profile", "hexagon-v75", "--decode-profile", "adreno-750")
    if real["completed"] != real["requests"]:
        failed = not check(False, f"K {k}: {real['completed']} of {real['requests']} requests were answered")
        continue
    moved = {t: real["pace"]["moved"][t]["most_ratio"] for t in TIMES}
    for how in ([], ["--full"], ["--by-layer"]):
        said = run("simulate", *LOAD, *pace, "--prefill", "1:hexagon-v75", "--decode", "1:adreno-750", "--package", package, *how)
        for t in TIMES:
            a, b = real[t]["mean"], said[t]["mean"]
            text = f"K {k}: mean {t} {a:.1f} real, {b:.1f} by {' '.join(['simulate', *how])}"
            if moved[t] < LIMIT:
                failed |= not check(abs(b - a) <= LIMIT * a, text)
            else:
                unjudged = True
                print(f"?     {text}; not judged, late work can have moved it by {moved[t]:.2%}", flush=True)
        failed |= not check(said["prefill_busy_ratio"] <= 1 and said["recomputed_rows"] == 0, f"K {k}: nothing was computed twice")
sys.exit(1 if failed else 3 if unjudged else 0)
