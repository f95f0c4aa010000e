"""From an issuer URL to a clone: a real git at a git server that asks the provider about each token."""

import base64
import contextlib
import http.client
import http.server
import os
import ssl
import subprocess
import threading
import time
import urllib.parse

from cases import LONGEST_SECONDS, case, same, shows, sign_in
from grantd_testing import Wrong
from imports import need
from person import Skip

BACKEND = "/usr/lib/git-core/git-http-backend"
GIT_SECONDS = 60
PROVIDER_SECONDS = 60


def certificate(folder):
    """A certificate for `localhost`, which is its own authority."""
    files = folder / "server.key", folder / "server.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", files[0], "-out", files[1]],
        check=True, capture_output=True)
    return files


class Handler(http.server.BaseHTTPRequestHandler):
    """git-http-backend behind Basic authentication with an access token as the password (RFC 7617)."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def is_allowed(self):
        scheme, _, value = self.headers.get("Authorization", "").partition(" ")
        if scheme != "Basic":
            return False
        _, _, token = base64.b64decode(value).decode().partition(":")
        url = urllib.parse.urlsplit(self.server.userinfo)
        connection = http.client.HTTPConnection(url.netloc, timeout=PROVIDER_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", url.path, headers={"Authorization": f"Bearer {token}"})
            return connection.getresponse().status == 200

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.is_allowed():
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            return self.end_headers()
        path, _, query = self.path.partition("?")
        answer = subprocess.run([BACKEND], input=body, capture_output=True, env={
            "GIT_PROJECT_ROOT": str(self.server.root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "PATH": "/usr/bin:/bin",
            "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "x", "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.server.served += 1

    do_GET = do_POST = serve


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder, userinfo):
        super().__init__(("127.0.0.1", 0), Handler)
        self.root, self.userinfo, self.served = folder / "repositories", userinfo, 0
        key, self.authority = certificate(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority, key)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()


@case
def git_clone(stage, person):
    """One command, no file edited by hand, under two minutes: then `git clone` works with the token."""
    need("git", "openssl")
    if not os.access(BACKEND, os.X_OK):
        raise Skip("git-http-backend is not installed")
    issuer = stage.glewlwyd().info["issuer"]
    work = person.home / "work"
    env = person.env | {"PATH": f"{person.products}:{os.environ['PATH']}", "GIT_TERMINAL_PROMPT": "0"}

    def git(*words):
        return subprocess.run(["git", *map(str, words)], env=env, capture_output=True, text=True, timeout=GIT_SECONDS)

    with contextlib.closing(Server(person.home, f"{issuer}/userinfo")) as server:
        repository = server.root / "notes.git"
        same(git("init", "--quiet", "--bare", "-b", "main", repository).returncode, 0, "git init")
        env["GIT_SSL_CAINFO"] = str(server.authority)
        place = f"localhost:{server.server_port}"
        if git("clone", f"https://{place}/notes.git", work).returncode == 0:
            raise Wrong("git clone works without a token")
        began = time.monotonic()
        shown = person.setup(issuer, "--tool", "git", "--server", place, "--yes")
        sign_in(shown, lambda url: stage.signs_in(url))
        same(shown.end(), 0, "the exit status")
        shows(shown, "✓ Program: git")
        done = git("clone", f"https://{place}/notes.git", work)
        same(done.returncode, 0, f"git clone: {done.stderr}")
        if time.monotonic() - began > LONGEST_SECONDS:
            raise Wrong("it took more than two minutes")
        same((work / ".git").is_dir() and server.served > 0, True, "the clone by the server")
        same(person.files(), [], "files of the configuration")
