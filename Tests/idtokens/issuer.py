"""An OpenID provider by OpenID Connect Core, RFC 6749, RFC 7636 and RFC 8693, whose ID tokens a case can spoil.

Each provider is a path of one server: its issuer is `http://127.0.0.1:PORT/NAME`. ID tokens are signed with RS256.
"""

import base64
import dataclasses
import hashlib
import http.server
import itertools
import json
import threading
import time
import urllib.parse

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT = "client"
SUBJECT = "ada"
TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
KEY_BITS = 2048


def b64(value):
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def key():
    return rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)


def jwk(private, kid):
    numbers = private.public_key().public_numbers()

    def text(number):
        return b64(number.to_bytes((number.bit_length() + 7) // 8, "big"))
    return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": kid, "n": text(numbers.n), "e": text(numbers.e)}


@dataclasses.dataclass
class Provider:
    """What one provider does; a case changes it."""

    issuer: str
    signing: object
    foreign: object
    # Seconds that tokens live.
    id_ttl: int = 3600
    access_ttl: int = 3600
    # What a refresh returns as ID token: new, none, old, or a fault of `spoiled`.
    at_refresh: str = "new"
    at_login: str = "new"
    rotates: bool = True
    exchanges: bool = False
    # Audiences that it refuses, and how long a request takes.
    refused: tuple = ()
    delay: float = 0
    asked: list = dataclasses.field(default_factory=list)
    codes: dict = dataclasses.field(default_factory=dict)
    refresh_tokens: dict = dataclasses.field(default_factory=dict)
    access_tokens: dict = dataclasses.field(default_factory=dict)
    last: str = ""
    count: object = dataclasses.field(default_factory=itertools.count)
    lock: object = dataclasses.field(default_factory=threading.Lock)

    def refreshes(self):
        return [form for form in self.asked if form.get("grant_type") == "refresh_token"]

    def exchanged(self):
        return [form for form in self.asked if form.get("grant_type") == EXCHANGE]

    def id_token(self, nonce=None, audience=None, how="new"):
        now = int(time.time())
        claims = {"iss": self.issuer, "sub": SUBJECT, "aud": audience or CLIENT, "iat": now, "exp": now + self.id_ttl,
                  "jti": str(next(self.count)), "email": "ada@example.com"}
        if audience:
            claims["azp"] = CLIENT
        if nonce:
            claims["nonce"] = nonce
        return self.spoiled(claims, how)

    def spoiled(self, claims, how):
        """The ID token, with the fault of this name."""
        signing, kid = self.signing, "k1"
        match how:
            case "iss":
                claims["iss"] = self.issuer + "/other"
            case "sub":
                claims["sub"] = "eve"
            case "aud":
                claims["aud"] = "someone-else"
            case "azp":
                claims["azp"] = "someone-else"
            case "iat":
                claims["iat"] -= 7200
            case "future":
                claims["iat"] += 7200
            case "expired":
                claims["exp"] = claims["iat"] - 600
            case "signature":
                signing = self.foreign
            case "unsigned":
                return ".".join([b64(b'{"alg":"none"}'), b64(json.dumps(claims).encode()), ""])
            case "encrypted":
                # RFC 7516 §7.1: five segments. Its content is nothing to the client.
                head = b64(json.dumps({"alg": "RSA-OAEP", "enc": "A256GCM", "kid": "k9"}).encode())
                return ".".join([head, b64(b"k" * 256), b64(b"i" * 12), b64(b"c" * 400), b64(b"t" * 16)])
        return jwt.encode(claims, signing, algorithm="RS256", headers={"kid": kid})


class Issuer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Connection)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.signing, self.foreign, self.providers = key(), key(), {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def provider(self, name):
        made = self.providers[name] = Provider(f"{self.url}/{name}", self.signing, self.foreign)
        return made

    def handle_error(self, request, client_address):
        """Clients that hang up are no news."""

    def close(self):
        self.shutdown()
        self.server_close()


class Connection(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def route(self):
        path = urllib.parse.urlsplit(self.path).path
        name, _, rest = path.strip("/").partition("/")
        return self.server.providers[name], rest

    def do_GET(self):
        provider, rest = self.route()
        match rest:
            case ".well-known/openid-configuration":
                self.json(self.metadata(provider))
            case "jwks":
                self.json({"keys": [jwk(provider.signing, "k1")]})
            case "authorize":
                self.authorize(provider)
            case _:
                self.json({}, 404)

    @staticmethod
    def metadata(provider):
        grants = ["authorization_code", "refresh_token", "client_credentials"] + [EXCHANGE] * provider.exchanges
        return {
            "issuer": provider.issuer, "authorization_endpoint": provider.issuer + "/authorize",
            "token_endpoint": provider.issuer + "/token", "jwks_uri": provider.issuer + "/jwks",
            "response_types_supported": ["code"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"], "code_challenge_methods_supported": ["S256"],
            "grant_types_supported": grants, "scopes_supported": ["openid", "email", "offline_access"]}

    def authorize(self, provider):
        """The person agrees at once (RFC 6749 §4.1.2)."""
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        code = f"code-{next(provider.count)}"
        with provider.lock:
            provider.asked.append(asked)
            provider.codes[code] = asked
        query = urllib.parse.urlencode({"code": code, "state": asked["state"]})
        self.send_response(302)
        self.send_header("Location", f"{asked['redirect_uri']}?{query}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self):
        provider, _ = self.route()
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        with provider.lock:
            provider.asked.append(form)
        time.sleep(provider.delay)
        answer = {"authorization_code": self.code, "refresh_token": self.refresh, EXCHANGE: self.exchange,
                  "client_credentials": self.client}[form["grant_type"]](provider, form)
        self.json(answer, 400 if "error" in answer else 200)

    def code(self, provider, form):
        asked = provider.codes.pop(form.get("code"), None)
        if not asked or asked["redirect_uri"] != form["redirect_uri"]:
            return {"error": "invalid_grant"}
        # RFC 7636 §4.6.
        if b64(hashlib.sha256(form["code_verifier"].encode()).digest()) != asked["code_challenge"]:
            return {"error": "invalid_grant", "error_description": "code_verifier"}
        answer = self.issued(provider, asked["scope"], asked.get("audience") or asked.get("resource"))
        if "openid" in asked["scope"].split() and provider.at_login != "none":
            provider.last = answer["id_token"] = provider.id_token(asked.get("nonce"), how=provider.at_login)
        return answer | {"refresh_token": self.new_refresh_token(provider, asked["scope"])}

    @staticmethod
    def new_refresh_token(provider, scope):
        token = f"rt-{next(provider.count)}"
        provider.refresh_tokens[token] = scope
        return token

    def issued(self, provider, scope, audience=None):
        token = f"at-{next(provider.count)}"
        provider.access_tokens[token] = (audience, scope)
        return {"access_token": token, "token_type": "Bearer", "expires_in": provider.access_ttl, "scope": scope}

    def refresh(self, provider, form):
        with provider.lock:
            scope = provider.refresh_tokens.get(form["refresh_token"])
            if scope is None:
                return {"error": "invalid_grant"}
            audience = form.get("audience") or form.get("resource")
            if audience in provider.refused:
                return {"error": "invalid_target", "error_description": "this audience is not registered"}
            answer = self.issued(provider, scope, audience)
            if provider.rotates:
                del provider.refresh_tokens[form["refresh_token"]]
                answer["refresh_token"] = self.new_refresh_token(provider, scope)
            if "openid" in scope.split() and provider.at_refresh != "none":
                old = provider.at_refresh == "old"
                answer["id_token"] = provider.last if old else provider.id_token(how=provider.at_refresh)
            return answer

    def exchange(self, provider, form):
        """RFC 8693 §2.2.1."""
        if form.get("subject_token") not in provider.access_tokens or form["subject_token_type"] != TOKEN_TYPE + "access_token":
            return {"error": "invalid_request", "error_description": "subject_token"}
        audience = form.get("audience")
        if audience in provider.refused:
            return {"error": "invalid_target", "error_description": "this audience is not registered"}
        if form.get("requested_token_type") == TOKEN_TYPE + "id_token":
            token = provider.id_token(audience=audience, how=provider.at_refresh)
            return {"access_token": token, "issued_token_type": TOKEN_TYPE + "id_token", "token_type": "N_A",
                    "expires_in": provider.id_ttl}
        return self.issued(provider, form.get("scope", "api"), audience) | {"issued_token_type": TOKEN_TYPE + "access_token"}

    def client(self, provider, form):
        return self.issued(provider, form.get("scope", "api"), form.get("audience"))

    def json(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def verified(token, issuer, audience=CLIENT):
    """The claims, as a relying party finds them: the keys by discovery, then signature, issuer, audience, times."""
    keys = jwt.PyJWKClient(issuer + "/jwks")
    return jwt.decode(token, keys.get_signing_key_from_jwt(token), algorithms=["RS256"], audience=audience, issuer=issuer,
                      options={"require": ["exp", "iat", "sub"]})
