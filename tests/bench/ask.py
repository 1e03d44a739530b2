"""For the benches beside this file: what commands of baton say with --json, and the Python that has llama.cpp."""
import json
import os
import subprocess
import sys

VENV = "build/peers/venv"


class Failed(Exception):
    """A command's own last line."""


def json_of(baton, words, stdin=None):
    try:
        done = subprocess.run([baton] + words, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    except OSError as e:
        raise Failed(f"cannot run {baton}: {e.strerror}") from e
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        raise Failed(next((line for line in said if line.startswith(f"baton {words[0]}: ")), said[-1]))
    return json.loads(done.stdout)


def peer_python(who, package, module, source=False):
    """The Python that has module of another engine's package; made on first use, by pip: from a wheel, or built from its source."""
    python = VENV + "/bin/python"
    if os.path.exists(python) and subprocess.run([python, "-c", f"import {module}"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
        return python
    os.makedirs(os.path.dirname(VENV), exist_ok=True)
    log = os.path.dirname(VENV) + "/pip.log"
    takes = "building it once, ten minutes or more" if source else "fetching it once"
    print(f"{who}: {package}: {takes}; {log} tells how far it is", file=sys.stderr)
    with open(log, "w", encoding="utf-8") as out:
        if subprocess.run([sys.executable, "-m", "venv", VENV], stdout=out, stderr=out, check=False).returncode != 0:
            raise Failed(f"cannot make {VENV}: install Python's venv (Debian: apt-get install python3-venv); {log} has the reason")
        jobs = dict(os.environ, CMAKE_BUILD_PARALLEL_LEVEL=os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1)))
        words = [python, "-m", "pip", "install"] + ([] if source else ["--only-binary=:all:", "--no-deps"]) + [package]
        if subprocess.run(words, stdout=out, stderr=out, env=jobs, check=False).returncode != 0:
            needs = "a C++ compiler, cmake and a package index" if source else "a package index that has a wheel for this machine"
            raise Failed(f"pip cannot install {package}: it needs {needs}; {log} has the reason")
    return python
