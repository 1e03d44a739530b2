"""What commands of baton say with --json, for the benches beside this file."""
import json
import subprocess


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
