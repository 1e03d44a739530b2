"""A hub of models for the tests of this theme: the paths that Hugging Face's hub has, on a loopback address.

    hub.py FOLDER      writes FOLDER/url once it listens, FOLDER/log for each request; ends after two minutes

Files are served by a second server, to which the first redirects. The name of a repository of `acme` says what goes wrong.
FOLDER/https has the address of the same hub by HTTPS, with a certificate that nobody has signed.
"""
import hashlib
import json
import os
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

folder = sys.argv[1]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TINY = bytes(range(256)) * 200
FILES = {"tiny-q4_k_m.gguf": TINY, "tiny-q8_0.gguf": TINY[::-1], "README.md": b"no model",
         "Q5/two-q5_0-00001-of-00002.gguf": TINY[:30000], "Q5/two-q5_0-00002-of-00002.gguf": TINY[30000:]}
times = {}
lock = threading.Lock()


def digest(data):
    return hashlib.sha256(data).hexdigest()


def entry(path, data):
    return {"rfilename": path, "lfs": {"sha256": digest(data), "size": len(data), "pointerSize": 130}}


def about(name):
    files = [entry(path, data) for path, data in FILES.items()]
    if name == "short":
        del files[-1]
    if name == "hostile":
        files = [entry("../../evil-q4_k_m.gguf", TINY), entry("/etc/evil-q4_k_m.gguf", TINY), entry("a/../b-q4_k_m.gguf", TINY)]
    if name == "twice":
        files += files[:1]
    if name == "huge":
        files[0]["lfs"]["size"] = 1 << 50
    if name == "small":
        files[0]["lfs"]["size"] = 1000
    return {"id": "acme/" + name, "sha": COMMIT, "cardData": {"license": "apache-2.0"}, "siblings": files}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def note(self, who):
        token = {None: "no token", "Bearer secret": "the token"}.get(self.headers["Authorization"], "another token")
        with lock, open(f"{folder}/log", "a", encoding="ascii") as f:
            f.write(f"{who} {self.path.split('?')[0]} {token} {self.headers['Range'] or ''}\n")


class Hub(Handler):
    def do_GET(self):
        self.note("hub")
        word = self.path.split("?")[0].split("/")
        if word[1] == "api":
            name = word[4]
            if name == "none" or (name == "gated" and not self.headers["Authorization"]):
                return self.reply(401)
            if name == "garbled":
                return self.reply(200, b"<html>")
            return self.reply(200, json.dumps(about(name)).encode())
        name, path = word[2], "/".join(word[5:])
        to = {"loop": self.path, "plain": "http://192.0.2.1/x", "file": "file:///etc/passwd", "unsigned": https_url + self.path}.get(name, f"{files_url}/{name}/{path}?signed")
        return self.reply(302, Location=to)


class Files(Handler):
    def do_GET(self):
        self.note("files")
        name, path = self.path.split("?")[0][1:].split("/", 1)
        data = FILES[path]
        if name == "liar":
            data = data[:-1] + b"x"
        begin = int((self.headers["Range"] or "bytes=0-")[6:-1])
        if name == "no-range" or not begin:
            begin, status, headers = 0, 200, {}
        else:
            status, headers = 206, {"Content_Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"}
        with lock:
            times[self.path] = times.get(self.path, 0) + 1
            is_cut = name in ("cut", "no-range") and times[self.path] == 1 or name == "ends"
        if not is_cut:
            return self.reply(status, data[begin:], **headers)
        self.send_response(status)
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        if name != "ends" or not begin:
            self.wfile.write(data[begin:begin + 20000])
        self.close_connection = True
        return None


files = ThreadingHTTPServer(("127.0.0.1", 0), Files)
files_url = f"http://127.0.0.1:{files.server_port}"
hub = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
https = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
https_url = f"https://127.0.0.1:{https.server_port}"
subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{folder}/key.pem", "-out",
                f"{folder}/certificate.pem", "-days", "2", "-subj", "/CN=hub", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, stderr=subprocess.DEVNULL)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{folder}/certificate.pem", f"{folder}/key.pem")
https.socket = context.wrap_socket(https.socket, server_side=True)
with open(f"{folder}/https", "w", encoding="ascii") as f:
    f.write(https_url + "\n")
for server in (files, hub, https):
    threading.Thread(target=server.serve_forever, daemon=True).start()
with open(f"{folder}/url.new", "w", encoding="ascii") as f:
    f.write(f"http://127.0.0.1:{hub.server_port}\n")
os.rename(f"{folder}/url.new", f"{folder}/url")
threading.Event().wait(120)
