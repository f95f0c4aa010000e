"""What the checks in a browser have around them: a proxy, and a stranger."""

import http.server
import os
import socket
import subprocess
import threading

from grantd_testing import Program, free_ports, wait_until

START_SECONDS = 60
END_SECONDS = 60
ANSWER_SECONDS = 90


class Proxy:
    """TLS for a public host, in front of the callback listener."""

    def __init__(self, folder, host, target):
        (self.port,) = free_ports()
        pem = folder / "proxy.pem"
        made = subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={host}", "-addext",
             f"subjectAltName=DNS:{host}", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
            capture_output=True, text=True)
        if made.returncode:
            raise RuntimeError(f"no certificate: {made.stderr}")
        pem.write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())
        (folder / "haproxy.cfg").write_text(f"""
defaults
  mode http
  timeout connect 30s
  timeout client 90s
  timeout server 90s
frontend web
  bind 127.0.0.1:{self.port} ssl crt {pem}
  default_backend broker
backend broker
  server broker 127.0.0.1:{target}
""")
        self.process = Program([haproxy(), "-db", "-f", folder / "haproxy.cfg"], folder / "haproxy.log")
        self.close = self.process.stop
        wait_until(self.listens, START_SECONDS, "the proxy listens")

    def listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def haproxy():
    """Its folder is not in everybody's path."""
    folders = os.environ.get("PATH", "").split(":") + ["/usr/sbin", "/usr/local/sbin"]
    return next((path for path in (f"{folder}/haproxy" for folder in folders) if os.access(path, os.X_OK)), None)


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
