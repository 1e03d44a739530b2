"""nginx and HAProxy in front of two gateways, as docs/proxy.md has them: proxy.py BUILD_DIR MODEL

Both files are taken out of the page and run as they stand there, on the ports that they name. Each proxy must pass whole
answers and streams (token by token), use both gateways, free what a client leaves behind, and lose no request when a
gateway is killed. One line a check; exit 1 where one fails."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

BIN, MODEL = os.path.join(sys.argv[1], "bin"), sys.argv[2]
PAGE = open(os.path.join(os.path.dirname(__file__), "../../docs/proxy.md"), encoding="utf-8").read()
DEADLINE_S = 120
failures = 0
running = []


def block(kind):
    return re.search(r"```" + kind + r"\n(.*?)```", PAGE, re.S).group(1)


def start(*command):
    p = subprocess.Popen(command, stdout=log, stderr=log)
    running.append(p)
    return p


def stop(p, how=signal.SIGTERM):
    p.send_signal(how)
    p.wait(30)
    running.remove(p)


def check(what, good):
    global failures
    failures += not good
    print(f"{'ok' if good else 'FAILS'}: {what}", flush=True)


def until(what, seconds=DEADLINE_S):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if what():
                return True
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.05)
    return False


def get(port, path):
    return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10).read().decode()


def listens(port):
    socket.create_connection(("127.0.0.1", port), 1).close()
    return True


def served(port):
    return sum(float(x) for x in re.findall(r"^baton_requests_total\{[^}]*\} (\S+)", get(port, "/metrics"), re.M))


def post(body, port=8080):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    return c, c.getresponse()


def answer(n=8):
    c, r = post({"prompt": "Once upon a time", "max_tokens": n, "ignore_eos": True})
    text = r.read()
    c.close()
    return r.status, text


def gateway(k):
    g = start(f"{BIN}/baton-gateway", "-m", MODEL, "--port", str(8080 + k), "--control", f"tcp://127.0.0.1:{5600 + k}")
    if not until(lambda: listens(8080 + k)):
        sys.exit(f"gateway {k} is not ready; {log.name} says why")
    return g


def through(name, proxy, gateways):
    if not until(lambda: answer(1)[0] == 200, 20):
        check(f"{name}: answers", False)
        return
    before = [served(8081), served(8082)]
    good = [answer()[0] == 200 for _ in range(20)]
    check(f"{name}: 20 whole answers of 20", all(good))
    check(f"{name}: both gateways serve", served(8081) > before[0] and served(8082) > before[1])
    c, r = post({"prompt": "x", "max_tokens": "many"})
    check(f"{name}: an error comes as the gateway says it", r.status == 400 and b'"error"' in r.read())
    asked = time.monotonic()
    c, r = post({"prompt": "Once upon a time", "max_tokens": 256, "ignore_eos": True, "stream": True})
    times = [time.monotonic() for line in r if line.startswith(b"data: ")]
    c.close()
    check(f"{name}: a stream of {len(times)} events comes as it is made", len(times) > 200 and
          times[-1] - times[0] > (times[-1] - asked) / 2)
    c, r = post({"prompt": "Once upon a time", "max_tokens": 4000, "ignore_eos": True, "stream": True})
    r.readline()
    r.close()
    c.close()
    check(f"{name}: what a client leaves behind is cancelled within 5 s", until(lambda: all(
        json.loads(get(p, "/v1/status"))["queue"]["running"] == 0 for p in (8081, 8082)), 5))
    stop(gateways[0], signal.SIGKILL)
    good = [answer()[0] for _ in range(20)]
    check(f"{name}: a gateway is killed, and 20 requests are served: {good.count(200)}", good.count(200) == 20)
    gateways[0] = gateway(1)
    stop(proxy)


def main():
    for program in ("nginx", "haproxy"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            sys.exit(f"{program} is missing: apt-get install nginx-light haproxy")
    os.environ["PATH"] += ":/usr/sbin"
    gateways = [gateway(1), gateway(2)]
    both = ["--gateway", "tcp://127.0.0.1:5601", "--gateway", "tcp://127.0.0.1:5602"]
    start(f"{BIN}/baton-prefill", "-m", MODEL, "--engine", "host", "--threads", "1", *both)
    start(f"{BIN}/baton-decode", "-m", MODEL, "--threads", "1", "--listen", "tcp://127.0.0.1:5603", *both)
    for k in (1, 2):
        if not until(lambda: get(8080 + k, "/health")):
            sys.exit(f"no nodes; {log.name} says why")
    with open(f"{work}/baton.conf", "w", encoding="utf-8") as f:
        f.write(block("nginx"))
    with open(f"{work}/nginx.conf", "w", encoding="utf-8") as f:
        f.write(f"daemon off; pid {work}/nginx.pid; error_log stderr;\nevents {{}}\n"
                f"http {{ access_log off; client_body_temp_path {work}/body; proxy_temp_path {work}/proxy;\n"
                f"include {work}/baton.conf; }}\n")
    through("nginx", start("nginx", "-p", work, "-c", f"{work}/nginx.conf"), gateways)
    with open(f"{work}/haproxy.cfg", "w", encoding="utf-8") as f:
        f.write(block("haproxy"))
    through("haproxy", start("haproxy", "-db", "-f", f"{work}/haproxy.cfg"), gateways)


work = tempfile.mkdtemp()
log = open(f"{work}/log", "w", encoding="utf-8")
try:
    main()
finally:
    for p in list(running):
        stop(p, signal.SIGKILL)
    log.close()
    if failures:
        print(open(log.name, encoding="utf-8").read()[-4000:], file=sys.stderr)
    shutil.rmtree(work)
sys.exit(failures > 0)
