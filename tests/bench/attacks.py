#!/usr/bin/env python3
"""Can one client hold up another? The gaps between the tokens of two streams, alone and beside each attack.

  BATON_BIN=build/release/bin python3 tests/bench/attacks.py [-s SECONDS] [-m MODEL] [-p PACE] [--keys] [ATTACK...]

One gateway, one prefill and one decode node. The decode node is paced to one token each 20 ms or so, so that what comes
late was held up; a little model with a large PACE leaves most of the machine to the gateway. Attackers run in a process
of their own at the lowest priority. With --keys they have an API key and the other client has one too, and the decode
node has 8 slots: what one key leaves to the other; --unshared: without shares.

A line for each attack has the gaps in ms, the time to the first token of short prompts, and how many turns of the
gateway's loop took longer than 20 ms (baton_gateway_turn_seconds; - where a gateway has no such histogram). With
--elsewhere each attack is also made on a second cluster of this machine that the client does not ask: what the attack
takes of the machine is in both lines, what it takes of the gateway in one."""
import argparse
import json
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

BIN = os.environ.get("BATON_BIN", "bin")
BODY = 4 << 20
LONG_TURN = 0.02
KEY_FILE = os.path.join(tempfile.mkdtemp(prefix="attacks-"), "keys")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Cluster:
    """Three processes; an unread pipe takes the gateway's log where wanted."""

    def __init__(self, model, pace, pipe=False, keys=False, shared=True):
        self.port, control, kv = free_port(), free_port(), free_port()
        far, log = f"tcp://127.0.0.1:{control}", subprocess.DEVNULL
        if os.environ.get("LOG") and not pipe:
            log = open(os.environ["LOG"], "ab")
        more = []
        if keys:
            with open(os.open(KEY_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
                f.write("good-key name=good\nbad-key name=bad\n")
            more = ["--api-key-file", KEY_FILE, "--node-choice", "all", *([] if shared else ["--share-by", "none"])]
        self.procs = [subprocess.Popen([f"{BIN}/{name}", "-m", model, *words], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE if pipe and name == "baton-gateway" else log)
                      for name, *words in (
                          ("baton-gateway", "--port", str(self.port), "--control", far, "--max-queue", "64",
                           *more, *(["--log-level", "debug"] if pipe else [])),
                          ("baton-prefill", "--gateway", far, "-t", "1"),
                          ("baton-decode", "--gateway", far, "-t", "1", "--listen", f"tcp://127.0.0.1:{kv}",
                           "--slots", "8" if keys else "64", "--decode-profile", "h100", "--pace", pace))]
        end = time.time() + 120
        while self.get("/health") is None:
            if time.time() > end:
                sys.exit("not ready within 2 minutes")
            time.sleep(0.1)

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as r:
                return r.read().decode()
        except OSError:
            return None

    def long_turns(self):
        """(turns over 20 ms, all turns), or None."""
        text = self.get("/metrics") or ""
        found = [re.search(rf"^baton_gateway_turn_seconds_{tail} (\d+)", text, re.M)
                 for tail in (rf'bucket{{le="{LONG_TURN}"}}', "count")]
        return tuple(int(m.group(1)) for m in found) if all(found) else None

    def stop(self):
        for p in self.procs:
            p.terminate()
        for p in self.procs:
            if p.stderr:
                p.stderr.close()
            try:
                p.wait(40)
            except subprocess.TimeoutExpired:
                p.kill()


# ---- what an attacker does: once for each of its connections, again and again ----

KEY = None  # of this process


def with_key(message):
    return message.replace(b"Host: x", b"Host: x\r\nAuthorization: Bearer " + KEY) if KEY else message


def head(body, path="/v1/completions"):
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def dial(port, buffer=0):
    s = socket.socket()
    if buffer:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    s.settimeout(60)
    s.connect(("127.0.0.1", port))
    return s


def ask_again(port, message, stop):
    """Sends it and takes the answer, for ever."""
    s, message = None, with_key(message)
    while not stop.is_set():
        try:
            s = s or dial(port)
            s.sendall(message)
            got = b""
            while b"\r\n\r\n" not in got:
                more = s.recv(65536)
                if not more:
                    raise OSError
                got += more
            top, _, rest = got.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", top.lower())
            left = int(length.group(1)) - len(rest) if length else 0
            while left > 0:
                more = s.recv(1 << 20)
                if not more:
                    raise OSError
                left -= len(more)
            if b"connection: close" in top.lower():
                raise OSError
        except OSError:
            if s:
                s.close()
            s = None


def crowd(count, message):
    def run(port, stop):
        for _ in range(count):
            threading.Thread(target=ask_again, args=(port, message, stop), daemon=True).start()
        stop.wait()
    return run


def hold(count, message, buffer=0):
    """Connections that send it, read nothing and stay."""
    def run(port, stop):
        held = []
        for _ in range(count):
            s = dial(port, buffer)
            s.settimeout(2)
            held.append(s)
            try:
                s.sendall(with_key(message))
            except OSError:
                pass
        stop.wait()
    return run


def fill(text):
    return (text * (BODY // len(text) + 1))[:BODY - 200].rsplit(" ", 1)[0]


def completion(max_tokens=1, **more):
    return json.dumps(dict(max_tokens=max_tokens, temperature=0, **more)).encode()


IDS = b'{"max_tokens":1,"prompt":[' + b"1," * ((BODY - 100) // 2) + b"1]}"
MOST_IDS = b'{"max_tokens":1,"prompt":[' + b"100," * 1000000 + b"1]}"
CHAT = json.dumps(dict(messages=[dict(role="user", content="words and more " * 60)] * 4000, max_tokens=1)).encode()
KEYS = ("{" + ",".join(f'"k{i}":1' for i in range(300000)) + "}").encode()
ATTACKS = {
    "ids": crowd(8, head(IDS)),
    "ids-1M": crowd(8, head(MOST_IDS)),
    "text": crowd(8, head(completion(prompt=fill("The quick brown fox. ")))),
    "one-word": crowd(8, head(completion(prompt="a" * (BODY - 200)))),
    "chat": crowd(8, head(CHAT, "/v1/chat/completions")),
    "keys": crowd(8, head(KEYS)),
    "16k": crowd(32, head(completion(prompt=fill("word ")[:15000]))),
    "chunks": hold(64, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"e" * 100000),
    "pipe": crowd(16, head(b"{")),
    "slow": hold(200, b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 20, 2048),
    "unread": hold(200, head(completion(64, prompt="Once upon a time", stream=True)), 2048),
    "bad": crowd(16, head(b'{"prompt":7}')),
    "nosuch": crowd(64, head(completion(prompt="x", baton=dict(decode="nosuch")))),
    "streams": crowd(200, head(completion(64, prompt="Once upon a time", ignore_eos=True))),
    "long": crowd(32, head(completion(prompt=fill("word ")[:9000]))),
    "pages": crowd(8, b"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"),
    "openapi": crowd(8, b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"),
}


# ---- the client that behaves ----

def stream(port, tokens, gaps, firsts):
    body = completion(tokens, prompt="Water boils at", stream=True, ignore_eos=True)
    begin = last = time.monotonic()
    s = dial(port)
    s.sendall(with_key(head(body)).replace(b"Host: x", b"Host: x\r\nConnection: close"))
    seen, text = 0, b""
    while True:
        more = s.recv(65536)
        if not more:
            break
        text += more
        now, count = time.monotonic(), text.count(b"data: {")
        if count > seen:
            (gaps if seen else firsts).append((now - last if seen else now - begin) * 1000)
            seen, last = count, now
    s.close()
    if b"[DONE]" not in text:
        raise OSError(text[:300])


def victim(port, seconds, out, key):
    global KEY
    KEY = key
    gaps, firsts, failed = [], [], []
    end = time.monotonic() + seconds

    def go_on():
        while time.monotonic() < end:
            try:
                stream(port, 50, gaps, firsts)
            except OSError as e:
                failed.append(str(e))
                time.sleep(0.1)
    threads = [threading.Thread(target=go_on) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    out.put((gaps, firsts, failed))


def part(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def attacker(run, port, stop, key):
    global KEY
    KEY = key
    os.nice(19)
    run(port, stop)


def measure(cluster, name, seconds, keys, target=None):
    """One line; returns the gaps' 99th percentile. The attack goes to `target`, or to the cluster itself."""
    stop, out, worker = multiprocessing.Event(), multiprocessing.Queue(), None
    if name != "alone":
        port = (target or cluster).port
        worker = multiprocessing.Process(target=attacker, args=(ATTACKS[name], port, stop, keys and b"bad-key"), daemon=True)
        worker.start()
        time.sleep(1.5)
    before = cluster.long_turns()
    watch = multiprocessing.Process(target=victim, args=(cluster.port, seconds, out, keys and b"good-key"))
    watch.start()
    gaps, firsts, failed = out.get()
    watch.join()
    after = cluster.long_turns()
    if worker:
        stop.set()
        worker.terminate()
        worker.join()
        time.sleep(2)
    turns = f"{(after[1] - after[0]) - (before[1] - before[0])} of {after[1] - before[1]}" if before and after else "-"
    times = "  ".join(f"{what} p50 {part(v, .5):7.1f} p99 {part(v, .99):8.1f} most {max(v, default=0):8.1f}"
                      for what, v in (("gap", gaps), ("first", firsts)))
    print(f"{name if not target else '  elsewhere':11} {times}   failed {len(failed)}   turns over 20 ms {turns}", flush=True)
    if failed:
        print(f"           {failed[0]}")
    return part(gaps, .99)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("attack", nargs="*", choices=[[], *ATTACKS], metavar="ATTACK", help=", ".join(ATTACKS))
    p.add_argument("-s", "--seconds", type=float, default=8)
    p.add_argument("-m", "--model", default="smollm2")
    p.add_argument("-p", "--pace", default="device:200", help="--pace of the decode node, on profile h100 (%(default)s, for smollm2)")
    p.add_argument("--keys", action="store_true", help="attackers have one API key, the client another")
    p.add_argument("--unshared", action="store_true", help="--keys, and the gateway with --share-by none")
    p.add_argument("--elsewhere", action="store_true", help="each attack also on a cluster that the client does not ask")
    a = p.parse_args()
    names, keys = a.attack or list(ATTACKS), a.keys or a.unshared
    for pipe in (False, True):
        these = [n for n in names if (n == "pipe") == pipe]
        if not these:
            continue
        clusters = [Cluster(a.model, a.pace, pipe, keys, not a.unshared) for _ in range(2 if a.elsewhere else 1)]
        try:
            for n in ["alone", *these, "alone"]:
                here = measure(clusters[0], n, a.seconds, keys)
                if a.elsewhere and n != "alone":
                    there = measure(clusters[0], n, a.seconds, keys, clusters[1])
                    print(f"{'':11} gap p99 here over elsewhere {here / there:.2f}", flush=True)
        finally:
            for c in clusters:
                c.stop()


if __name__ == "__main__":
    main()
