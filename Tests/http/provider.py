"""An authorization server of the test's own, whose tokens it can end: opaque ones, JWTs, and those bound to a key.

An account is known by the path of the token endpoint, `/NAME/token`, and by its refresh token, `rt-NAME`.
"""

import base64
import collections
import dataclasses
import hashlib
import http.server
import itertools
import json
import subprocess
import tempfile
import threading
import time
import urllib.parse

HOLD_SECONDS = 60
LIFETIME_SECONDS = 3600
# SubjectPublicKeyInfo of a P-256 key up to its coordinates (RFC 5480 §2).
P256 = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200 04")


def encoded(value):
    value = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclasses.dataclass
class Token:
    name: str
    scope: str
    end: float
    thumbprint: str | None
    resource: str | None = None
    is_dead: bool = False


@dataclasses.dataclass
class Asked:
    """A token request, and whether its answer was held back."""

    form: dict
    headers: object
    is_held: bool


class Provider(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Connection)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked, self.tokens = collections.defaultdict(list), {}
        # By account: what goes wrong, how long tokens live, and what holds answers back.
        self.faults, self.lifetimes, self.held = {}, {}, {}
        # By account: the error's `error_description`.
        self.descriptions = {}
        self.jwt, self.lock, self.count = {"jwt"}, threading.Lock(), itertools.count(1)
        self.proofs = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """Clients that hang up are no news."""

    def close(self):
        for event in self.held.values():
            event.set()
        self.shutdown()
        self.server_close()

    # ---- tokens

    def issue(self, section, name, scope, thumbprint, resource):
        seconds, now = self.lifetimes.get(name, LIFETIME_SECONDS), time.time()
        number = next(self.count)
        value = f"tok-{name}-{number}-{hashlib.sha256(str((number, now)).encode()).hexdigest()[:24]}"
        if section in self.jwt:
            claims = {"iss": self.url, "sub": name, "aud": "test", "iat": int(now), "exp": int(now + seconds),
                      "jti": value}
            value = f"{encoded({'alg': 'RS256', 'typ': 'JWT'})}.{encoded(claims)}.{encoded(b's' * 64)}"
        with self.lock:
            self.tokens[value] = Token(name, scope, now + seconds, thumbprint, resource)
        return value, seconds

    def kill(self, name):
        """All tokens of the account up to now are refused, and the broker is not told."""
        with self.lock:
            for token in self.tokens.values():
                token.is_dead |= token.name == name

    def is_alive(self, value):
        token = self.tokens.get(value)
        return bool(token) and not token.is_dead and token.end > time.time()

    def of(self, name):
        """The values that were issued for the account."""
        return [value for value, token in list(self.tokens.items()) if token.name == name]

    def hold(self, name):
        """Answers for the account wait until the event is set."""
        with self.lock:
            event = self.held[name] = threading.Event()
        return event

    # ---- proofs (RFC 9449)

    def proof(self, text, method, url, token=None):
        """The thumbprint of its key; ValueError says what is wrong."""
        head, claims, signature = text.split(".")
        header, body, key = json.loads(decoded(head)), json.loads(decoded(claims)), json.loads(decoded(head))["jwk"]
        if (header["typ"], header["alg"], key["kty"], key["crv"]) != ("dpop+jwt", "ES256", "EC", "P-256") or "d" in key:
            raise ValueError(f"header {header}")
        place = url.partition("?")[0]
        if (body["htm"], body["htu"].partition("?")[0]) != (method, place):
            raise ValueError(f"htm, htu: {body}, not {method} {place}")
        if abs(body["iat"] - time.time()) > 60 or body["jti"] in self.proofs:
            raise ValueError("iat or jti")
        if token is not None and body.get("ath") != encoded(hashlib.sha256(token.encode()).digest()):
            raise ValueError("ath")
        verify(key, f"{head}.{claims}".encode(), decoded(signature))
        self.proofs.add(body["jti"])
        return encoded(hashlib.sha256(json.dumps(
            {name: key[name] for name in ("crv", "kty", "x", "y")}, separators=(",", ":")).encode()).digest()), body

    def refuses(self, headers, method, url, nonce=None):
        """Why a resource server refuses the request; None: it does not."""
        scheme, _, value = headers.get("authorization", "").partition(" ")
        if not self.is_alive(value):
            return f"no live token: {scheme}"
        bound = self.tokens[value].thumbprint
        if scheme != ("DPoP" if bound else "Bearer"):
            return f"scheme {scheme}"
        if bound:
            try:
                thumbprint, claims = self.proof(headers.get("dpop", ""), method, url, value)
            except (ValueError, KeyError) as error:
                return f"proof: {error}"
            if thumbprint != bound:
                return "another key"
            if nonce and claims.get("nonce") != nonce:
                return "nonce"
        return None


def verify(key, data, signature):
    """ES256 (RFC 7518 §3.4), by openssl, which wants the signature as DER."""
    parts = b""
    for number in (signature[:32], signature[32:]):
        number = number.lstrip(b"\0") or b"\0"
        number = b"\0" * (number[0] >> 7) + number
        parts += b"\x02" + bytes([len(number)]) + number
    der = b"\x30" + bytes([len(parts)]) + parts
    public = P256 + decoded(key["x"]) + decoded(key["y"])
    with tempfile.NamedTemporaryFile() as one, tempfile.NamedTemporaryFile() as other:
        one.write(b"-----BEGIN PUBLIC KEY-----\n" + base64.encodebytes(public) + b"-----END PUBLIC KEY-----\n")
        other.write(der)
        one.flush()
        other.flush()
        done = subprocess.run(["openssl", "dgst", "-sha256", "-verify", one.name, "-signature", other.name], input=data,
                              capture_output=True)
    if done.returncode:
        raise ValueError("signature")


class Connection(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *arguments):
        pass

    def do_POST(self):
        server, section = self.server, self.path.split("/")[1]
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        token = form.get("refresh_token", "")
        name = token.removeprefix("rt-") if token else section
        with server.lock:
            held = server.held.get(name)
            server.asked[name].append(Asked(form, self.headers, held is not None))
        if held and not held.wait(HOLD_SECONDS):
            return self.json({"error": "server_error"}, 500)
        fault = server.faults.get(name)
        if fault == "close":
            self.close_connection = True
            return None
        if isinstance(fault, int):
            return self.json({}, fault)
        if fault:
            description = server.descriptions.get(name, "as the test wants it")
            return self.json({"error": fault, "error_description": description}, 400)
        try:
            proof = self.headers.get("DPoP")
            thumbprint = server.proof(proof, "POST", server.url + self.path)[0] if proof else None
        except (ValueError, KeyError) as error:
            return self.json({"error": "invalid_dpop_proof", "error_description": str(error)}, 400)
        scope = form.get("scope", "a b")
        value, seconds = server.issue(section, name, scope, thumbprint, form.get("resource"))
        answer = {"access_token": value, "token_type": "DPoP" if proof else "Bearer", "expires_in": seconds,
                  "scope": scope}
        if token:
            answer["refresh_token"] = token
        return self.json(answer)

    def do_GET(self):
        """/alive/TOKEN, for servers that are programs of their own."""
        token = self.path.removeprefix("/alive/")
        self.send_response(204 if self.server.is_alive(token) else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def json(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
