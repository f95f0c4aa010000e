"""What the checks in a browser have around them: the provider, the broker's socket, a proxy, and a stranger."""

import http.server
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "Support" / "glewlwyd"))

from rig import PRODUCTS, free_port, run, until

START_SECONDS = 20
END_SECONDS = 10
ANSWER_SECONDS = 30
LONGEST_LINE = 1 << 20


class Program:
    """One that is ended with the checks."""

    process = None

    def launch(self, command, folder, **more):
        with open(folder / f"{pathlib.Path(command[0]).name}.log", "ab") as log:
            self.process = subprocess.Popen(command, stderr=log, stdin=subprocess.DEVNULL, **more)

    def close(self):
        if self.process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None:
                self.process.send_signal(number)
                try:
                    self.process.wait(END_SECONDS)
                except subprocess.TimeoutExpired:
                    continue
        if self.process.stdout:
            self.process.stdout.close()


class Demo(Program):
    """A provider that asks a person on a page."""

    def __init__(self, folder, redirect_uri, **settings):
        options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        self.launch([PRODUCTS / "grantd-demo-provider", "--approve", "ask", "--access-ttl", "600", "--redirect-uri",
                     redirect_uri, *options], folder, stdout=subprocess.PIPE)
        if not select.select([self.process.stdout], [], [], START_SECONDS)[0]:
            raise RuntimeError("the demo provider does not start")
        line = self.process.stdout.readline().decode()
        if not line.startswith("ready "):
            raise RuntimeError(f"the demo provider does not start: {line!r}")
        self.issuer = json.loads(line.removeprefix("ready "))["issuer"]

    def control(self, name, **members):
        request = urllib.request.Request(
            f"{self.issuer}/_control/{name}", method="POST", data=json.dumps(members).encode(),
            headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return json.load(answer)


class Proxy(Program):
    """TLS for a public host, in front of the callback listener."""

    def __init__(self, folder, host, target):
        self.port = free_port()
        pem = folder / "proxy.pem"
        made = run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={host}",
                    "-addext", f"subjectAltName=DNS:{host}", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"])
        if made.returncode:
            raise RuntimeError(f"no certificate: {made.stderr}")
        pem.write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())
        (folder / "haproxy.cfg").write_text(f"""
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 90s
frontend web
  bind 127.0.0.1:{self.port} ssl crt {pem}
  default_backend broker
backend broker
  server broker 127.0.0.1:{target}
""")
        self.launch([haproxy(), "-db", "-f", folder / "haproxy.cfg"], folder, stdout=subprocess.DEVNULL)
        until(self.listens, "the proxy listens", START_SECONDS)

    def listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def haproxy():
    """Its folder is not in everybody's path."""
    folders = os.environ.get("PATH", "").split(":") + ["/usr/sbin", "/usr/local/sbin"]
    return next((path for path in (f"{folder}/haproxy" for folder in folders) if os.access(path, os.X_OK)), None)


class Socket:
    """The broker's, for calls that are many."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(ANSWER_SECONDS)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rb")
        self.count = 0

    def call(self, method, **params):
        """The result, or the error with `reason`."""
        self.count += 1
        request = {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(self.file.readline(LONGEST_LINE))
        if "error" in answer:
            return answer["error"] | answer["error"].get("data", {})
        return answer["result"]

    def close(self):
        self.file.close()
        self.socket.close()


class Stranger:
    """A site of somebody else's. It shows what it is told to, and notes who comes."""

    def __init__(self):
        self.pages, self.visits = {}, []
        stranger = self

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = ANSWER_SECONDS

            def do_GET(self):
                stranger.visits.append(self.path)
                page = stranger.pages.get(self.path)
                self.send_response(200 if page else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write((page or "").encode())

            do_POST = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def show(self, path, body):
        self.pages[path] = f"<!DOCTYPE html><title>stranger</title><body>{body}"
        return self.origin + path

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(END_SECONDS)
