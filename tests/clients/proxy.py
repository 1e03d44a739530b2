"""nginx and HAProxy in front of two gateways, as docs/proxy.md has them: proxy.py BUILD_DIR MODEL

The files are taken out of the page and run as they stand there, on the ports that they name. Each proxy must pass whole
answers and streams (token by token), use both gateways, free what a client leaves behind, and lose no request when a
gateway is killed; nginx also HTTP/2 by curl, before gateways that speak plain HTTP and before such as speak TLS. One
line a check; exit 1 where one fails."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
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
tls = []  # options of gateways that speak it


def block(kind, at=0):
    return re.findall(r"```" + kind + r"\n(.*?)```", PAGE, re.S)[at]


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
    scheme, trust = ("https", ssl.create_default_context(cafile=f"{work}/baton.crt")) if tls else ("http", None)
    return urllib.request.urlopen(f"{scheme}://127.0.0.1:{port}{path}", timeout=10, context=trust).read().decode()


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
    g = start(f"{BIN}/baton-gateway", "-m", MODEL, "--port", str(8080 + k), "--control", f"tcp://127.0.0.1:{5600 + k}", *tls)
    if not until(lambda: listens(8080 + k)):
        sys.exit(f"gateway {k} is not ready; {log.name} says why")
    return g


def all_idle():
    return all(json.loads(get(p, "/v1/status"))["queue"]["running"] == 0 for p in (8081, 8082))


def curl(body, *more):
    return ["curl", "-sSN", "--http2", "--cacert", f"{work}/baton.crt", "https://localhost:8443/v1/completions",
            "-H", "Content-Type: application/json", "-d", json.dumps(body), *more]


def by_http2(name):
    body = {"prompt": "Once upon a time", "max_tokens": 256, "ignore_eos": True, "stream": True}
    said = subprocess.run(curl({"prompt": "x", "max_tokens": 4}, "-o", "/dev/null", "-w", "%{http_version} %{http_code}"),
                          capture_output=True, text=True, timeout=60, check=False).stdout
    check(f"{name}: answers by HTTP/2: {said}", said == "2 200")
    asked = time.monotonic()
    with subprocess.Popen(curl(body), stdout=subprocess.PIPE) as p:
        times = [time.monotonic() for line in p.stdout if line.startswith(b"data: ")]
    check(f"{name}: a stream of {len(times)} events comes by HTTP/2 as it is made", len(times) > 200 and
          times[-1] - times[0] > (times[-1] - asked) / 2)
    with subprocess.Popen(curl(dict(body, max_tokens=4000)), stdout=subprocess.PIPE) as p:
        p.stdout.readline()
        p.kill()
    check(f"{name}: a stream that its client leaves by HTTP/2 is cancelled within 5 s", until(all_idle, 5))


def nginx(edit=lambda text: text):
    with open(f"{work}/baton.conf", "w", encoding="utf-8") as f:
        f.write(edit(block("nginx")))
    with open(f"{work}/nginx.conf", "w", encoding="utf-8") as f:
        f.write(f"daemon off; pid {work}/nginx.pid; error_log stderr;\nevents {{}}\n"
                f"http {{ access_log off; client_body_temp_path {work}/body; proxy_temp_path {work}/proxy;\n"
                f"include {work}/baton.conf; }}\n")
    return start("nginx", "-p", work, "-c", f"{work}/nginx.conf")


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
    check(f"{name}: what a client leaves behind is cancelled within 5 s", until(all_idle, 5))
    if name.startswith("nginx"):
        by_http2(name)
    stop(gateways[0], signal.SIGKILL)
    good = [answer()[0] for _ in range(20)]
    check(f"{name}: a gateway is killed, and 20 requests are served: {good.count(200)}", good.count(200) == 20)
    gateways[0] = gateway(1)
    stop(proxy)


def main():
    for program in ("nginx", "haproxy", "openssl", "curl"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            sys.exit(f"{program} is missing: apt-get install nginx-light haproxy openssl curl")
    os.environ["PATH"] += ":/usr/sbin"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                    f"{work}/baton.key", "-out", f"{work}/baton.crt", "-days", "1", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1"], stderr=log, check=True)
    gateways = [gateway(1), gateway(2)]
    both = ["--gateway", "tcp://127.0.0.1:5601", "--gateway", "tcp://127.0.0.1:5602"]
    start(f"{BIN}/baton-prefill", "-m", MODEL, "--engine", "host", "--threads", "1", *both)
    start(f"{BIN}/baton-decode", "-m", MODEL, "--threads", "1", "--listen", "tcp://127.0.0.1:5603", *both)
    for k in (1, 2):
        if not until(lambda: get(8080 + k, "/health")):
            sys.exit(f"no nodes; {log.name} says why")
    through("nginx", nginx(), gateways)
    with open(f"{work}/haproxy.cfg", "w", encoding="utf-8") as f:
        f.write(block("haproxy"))
    through("haproxy", start("haproxy", "-db", "-f", f"{work}/haproxy.cfg"), gateways)
    tls.extend(["--tls-cert", f"{work}/baton.crt", "--tls-key", f"{work}/baton.key"])
    for k in (1, 2):
        stop(gateways[k - 1])
        gateways[k - 1] = gateway(k)
    for k in (1, 2):
        if not until(lambda: get(8080 + k, "/health")):
            sys.exit(f"no nodes; {log.name} says why")
    through("nginx, TLS to gateways", nginx(lambda text: text.replace("        proxy_pass http://baton;\n", block("nginx", 1))),
            gateways)


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
