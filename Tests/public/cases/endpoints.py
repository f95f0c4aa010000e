"""The listener of `[http]`, and requests through a proxy."""

import http.client
import json
import socket
import ssl
import subprocess
import threading
import urllib.parse

from grantd_testing import StreamServer
from browser import browse
from provider import Provider
from rig import described, must, same
from server import Answer, Request
from table import Section, oauth2, row

SECONDS = 20
PIPE_BYTES = 1 << 16


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=SECONDS)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SECONDS)
        self.sock.connect(str(self.path))


def ask(scene, method, target, form=None):
    """Status, header fields and body of a request to the broker's HTTP listener."""
    connection = UnixConnection(scene.broker.folder / "http.sock")
    body = urllib.parse.urlencode(form) if form else None
    connection.request(method, target, body, {"Content-Type": "application/x-www-form-urlencoded"} if form else {})
    try:
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


@row("F01", "anthropics/claude-code#92518", oauth2(api_base="{issuer}/api"))
def insufficient_scope(scene, site):
    """403 insufficient_scope is shown as an expired token"""
    challenge = 'Bearer error="insufficient_scope", scope="notes.write"'
    body = json.dumps({"message": "forbidden"})
    site.fake.always("/api/notes", Answer.text(body, 403, "application/json", [("WWW-Authenticate", challenge)]))
    site.sign_in()
    status, fields, found = ask(scene, "GET", f"/forward/{site.name}/notes")
    same((status, found), (403, body), "the forwarded answer")
    same((site.fake.count("/api/notes"), site.fake.count("refresh")), (1, 0), "the numbers of requests and refreshes")
    done = scene.ctl("request", site.name, "GET", "/notes", "--include")
    must(done.returncode == 22 and done.stdout.endswith(body), f"grantctl request: {done}")
    must("notes.write" in done.stdout + done.stderr, f"grantctl request does not tell the scope: {done}")
    must("notes.write" in json.dumps(fields), f"the forwarded answer does not tell the scope: {fields}")


@row("F03", "prometheus/prometheus#13603", oauth2())
def password_grant(scene, site):
    """Prometheus sends grant_type=password by endpoint_params"""
    site.sign_in()
    form = {"grant_type": "password", "client_id": site.name, "username": "u", "password": "p"}
    status, _, body = ask(scene, "POST", "/token", form)
    same((status, json.loads(body).get("error")), (400, "unsupported_grant_type"), "the answer")
    must(json.loads(body).get("error_description"), f"the answer does not tell what to do: {body}")
    status, _, body = ask(scene, "POST", "/token", {"grant_type": "client_credentials", "client_id": site.name})
    same((status, json.loads(body).get("access_token")), (200, site.token()), "the answer to client_credentials")


class Proxy(StreamServer):
    """An HTTP proxy that takes CONNECT only, and counts it (RFC 9110 §9.3.6)."""

    def __init__(self):
        self.asked = []
        super().__init__()

    def close(self):
        self.listener.close()

    def serve(self, stream):
        with stream, stream.makefile("rb") as file:
            method, target, _ = file.readline().decode().split()
            while file.readline().strip():
                """The rest of the head."""
            self.asked.append(f"{method} {target}")
            if method != "CONNECT":
                stream.sendall(b"HTTP/1.1 405 Answer\r\nContent-Length: 0\r\n\r\n")
                return
            with socket.create_connection(("127.0.0.1", int(target.rpartition(":")[2])), SECONDS) as other:
                stream.sendall(b"HTTP/1.1 200 Answer\r\n\r\n")
                threading.Thread(target=pipe, args=(other, stream), daemon=True).start()
                pipe(stream, other)


def pipe(source, target):
    try:
        while data := source.recv(PIPE_BYTES):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        """The connection ended."""


def private_authority(scene):
    """Providers with TLS at 0.0.0.0, which no list of loopback hosts has, of an authority that this machine does not know."""
    folder = scene.broker.folder
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=fake", "-addext", "subjectAltName=IP:0.0.0.0,IP:127.0.0.1", "-keyout", folder / "tls.key",
         "-out", folder / "tls.pem"],
        check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.pem", folder / "tls.key")
    for site in scene.sites:
        site.fake.close()
        site.fake = Provider(context=context, host="0.0.0.0")
        site.keys = {"issuer": site.fake.issuer, "client_id": "grantd-test", "tls_ca_file": str(folder / "tls.pem")}
    return ""


def proxied(scene):
    """The same, and a proxy in the environment."""
    private_authority(scene)
    scene.proxy = scene.keep(Proxy())
    url = f"http://127.0.0.1:{scene.proxy.port}"
    scene.broker.variables |= {"HTTPS_PROXY": url, "https_proxy": url}
    return ""


@row("O01", "tingly-dev/tingly-box PR 359", Section({}), own=proxied)
def outbound_proxy(scene, site):
    """HTTPS_PROXY is set, and the broker connects directly"""
    login = site.start(destinations=["manual"])
    must(login.url().startswith(site.fake.issuer), f"the URL is {login.url()}")
    target = site.fake.origin.removeprefix("https://")
    must(f"CONNECT {target}" in scene.proxy.asked, f"the proxy got {scene.proxy.asked}, not CONNECT {target}")
    shown = scene.ctl("doctor", site.name).stdout
    must(str(scene.proxy.port) in shown, f"doctor does not name the proxy: {shown[-600:]}")


def untrusted(scene):
    """Without the authority, by discovery and with endpoints."""
    private_authority(scene)
    for site in scene.sites:
        del site.keys["tls_ca_file"]
    scene.sites[1].keys |= {"discovery": False, "authorization_endpoint": f"{scene.sites[1].fake.issuer}/authorize",
                            "token_endpoint": f"{scene.sites[1].fake.issuer}/token", "kind": "oauth2"}
    return '[callback]\nport = 0\n'


@row("O02", "a report to this project", Section({}), Section({}), own=untrusted)
def untrusted_certificate(scene, discovered, configured):
    """the certificate of a private authority is refused, and nothing names the key that adds the authority"""
    error = discovered.broker.refused("login.start", provider=discovered.name)
    must("tls_ca_file" in error.data["hint"], f"login.start: {described(error)}")
    done = scene.ctl("login", discovered.name, "--manual")
    must("tls_ca_file" in done.stderr and f"[provider.{discovered.name}]" in done.stderr, f"grantctl login: {done.stderr}")
    # The code is exchanged at a server that is not trusted.
    login = configured.start()
    answer = configured.fake.answer_authorize(Request("GET", login.url(), {}, b""))
    browse(dict(answer.fields)["Location"])
    error = login.failed()
    must("tls_ca_file" in error.data["hint"], f"login.wait: {described(error)}")
    must("tls_ca_file" in scene.ctl("doctor", discovered.name).stdout, "doctor does not name tls_ca_file")
