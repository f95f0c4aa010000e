"""A protected resource that speaks the Model Context Protocol, and its authorization server, by the RFCs alone.

Each case changes the attributes of a fresh pair. Requests are kept in `requests`, as (method, path, headers, form or body).
"""

import base64
import contextlib
import hashlib
import http.server
import json
import secrets
import sys
import threading
import time
import urllib.parse

BODY_BYTES = 1 << 20
LIFETIME_SECONDS = 3600
WELL_KNOWN = "/.well-known/"
RESOURCE = WELL_KNOWN + "oauth-protected-resource"
SERVER = WELL_KNOWN + "oauth-authorization-server"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, value=None, **fields):
        body = b"" if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in ({"Content-Type": "application/json"} | fields).items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body)

    def handle_any(self):
        parts = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), BODY_BYTES))
        with self.server.owner.lock:
            self.server.owner.requests.append((self.command, parts.path, dict(self.headers), body.decode(errors="replace")))
        self.server.owner.serve(self, parts.path, dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True)), body)

    do_GET = do_POST = do_DELETE = handle_any


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that hangs up is no error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Server:
    """An HTTP server on a loopback port that the kernel chooses."""

    def __init__(self):
        self.requests, self.lock = [], threading.RLock()
        self.listener = Listener(("127.0.0.1", 0), Handler)
        self.listener.owner = self
        self.url = f"http://127.0.0.1:{self.listener.server_address[1]}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def close(self):
        self.listener.shutdown()
        self.listener.server_close()

    def asked(self, path, method=None):
        """The bodies of the requests for a path."""
        with self.lock:
            return [body for verb, place, _, body in self.requests if place == path and method in (None, verb)]

    def forms(self, path):
        return [dict(urllib.parse.parse_qsl(body)) for body in self.asked(path, "POST")]


class Authorization(Server):
    """RFC 6749 with PKCE, RFC 7591, 8414, 8628, 8707 and 9207. Refresh tokens rotate, and one that is used twice ends."""

    def __init__(self, path=""):
        super().__init__()
        self.path = path
        self.issuer = self.url + path
        self.scopes = ["notes.read", "notes.write"]
        self.registers, self.takes_documents, self.methods = True, False, ["none", "client_secret_post"]
        self.changes, self.documents = {}, [SERVER + path]
        self.clients, self.codes, self.refreshes, self.tokens = {}, {}, {}, {}
        self.lifetime, self.refused_registration, self.devices = LIFETIME_SECONDS, None, {}
        # `iss` of the authorization response.
        self.responds_as = self.issuer

    @property
    def metadata(self):
        found = {
            "issuer": self.issuer, "authorization_endpoint": self.url + "/authorize", "token_endpoint": self.url + "/token",
            "scopes_supported": self.scopes, "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
            "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": self.methods,
            "device_authorization_endpoint": self.url + "/device", "revocation_endpoint": self.url + "/revoke",
            "authorization_response_iss_parameter_supported": True}
        if self.registers:
            found["registration_endpoint"] = self.url + "/register"
        if self.takes_documents:
            found["client_id_metadata_document_supported"] = True
        return {name: value for name, value in (found | self.changes).items() if value is not None}

    def serve(self, request, path, query, body):
        if path in self.documents:
            return request.answer(200, self.metadata)
        form = dict(urllib.parse.parse_qsl(body.decode(errors="replace")))
        action = {"/register": self.register, "/authorize": self.authorize, "/token": self.token, "/device": self.device,
                  "/revoke": lambda request, *_: request.answer(200, {})}.get(path)
        if not action:
            return request.answer(404, {"error": "not_found"})
        with self.lock:
            action(request, query, form, body)

    def register(self, request, _query, _form, body):
        if self.refused_registration:
            return request.answer(400, {"error": "invalid_client_metadata", "error_description": self.refused_registration})
        members = json.loads(body)
        client = secrets.token_urlsafe(8)
        self.clients[client] = members
        request.answer(201, members | {"client_id": client})

    def knows(self, client):
        return client in self.clients or self.takes_documents and client.startswith("https://")

    def authorize(self, request, query, _form, _body):
        if not self.knows(query.get("client_id", "")) or query.get("code_challenge_method") != "S256":
            return request.answer(400, {"error": "invalid_request"})
        code = secrets.token_urlsafe(8)
        self.codes[code] = query
        back = {"code": code, "state": query["state"], "iss": self.responds_as}
        request.answer(302, Location=f"{query['redirect_uri']}?{urllib.parse.urlencode(back)}")

    def device(self, request, _query, form, _body):
        code = secrets.token_urlsafe(8)
        self.devices[code] = form
        request.answer(200, {"device_code": code, "user_code": "WDJB-MJHT", "verification_uri": self.url + "/verify",
                             "expires_in": 300, "interval": 1})

    def token(self, request, _query, form, _body):
        client = form.get("client_id", "")
        if not self.knows(client):
            return request.answer(401, {"error": "invalid_client", "error_description": "Missing client_id"})
        kind = form.get("grant_type")
        if kind == "authorization_code":
            asked = self.codes.pop(form.get("code"), None)
            verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            challenge = base64.urlsafe_b64encode(verifier).rstrip(b"=").decode()
            if not asked or asked["code_challenge"] != challenge or asked["client_id"] != client:
                return request.answer(400, {"error": "invalid_grant"})
        elif kind == "refresh_token":
            asked = self.refreshes.pop(form.get("refresh_token"), None)
            if not asked:
                return request.answer(400, {"error": "invalid_grant"})
        elif kind == "urn:ietf:params:oauth:grant-type:device_code":
            asked = self.devices.pop(form.get("device_code"), None)
            if not asked:
                return request.answer(400, {"error": "expired_token"})
        else:
            return request.answer(400, {"error": "unsupported_grant_type"})
        # RFC 8707: bound to the resource of this request, which must be that of the authorization request.
        if form.get("resource") != asked.get("resource"):
            return request.answer(400, {"error": "invalid_target", "error_description": "resource differs"})
        self.issue(request, asked)

    def issue(self, request, asked):
        access, refresh = "at-" + secrets.token_urlsafe(12), "rt-" + secrets.token_urlsafe(12)
        self.tokens[access] = {"resource": asked.get("resource"), "scope": asked.get("scope", ""),
                               "ends": time.time() + self.lifetime}
        self.refreshes[refresh] = asked
        request.answer(200, {"access_token": access, "token_type": "Bearer", "expires_in": self.lifetime,
                             "refresh_token": refresh, "scope": asked.get("scope", "")})


class Resource(Server):
    """`initialize`, `tools/list` and `tools/call` of the protocol, for tokens that are for this resource."""

    def __init__(self, authorization, path="/mcp"):
        super().__init__()
        self.authorization, self.path, self.resource = authorization, path, self.url + path
        self.issuers = [authorization.issuer]
        self.scopes = ["notes.read"]
        # None: the challenge names no metadata. Of the scopes, the challenge names these.
        self.challenge_metadata, self.challenge_scope, self.is_open = self.url + RESOURCE + path, None, False
        self.documents, self.changes, self.needed = {RESOURCE + path: None}, {}, "notes.read"
        self.raw_challenge = None

    @property
    def metadata(self):
        return {"resource": self.resource, "authorization_servers": self.issuers, "scopes_supported": self.scopes,
                "bearer_methods_supported": ["header"]} | self.changes

    def challenge(self, error=None, scope=None):
        if self.raw_challenge is not None:
            return self.raw_challenge
        members = {"error": error, "resource_metadata": self.challenge_metadata, "scope": scope or self.challenge_scope}
        words = ", ".join(f'{name}="{value}"' for name, value in members.items() if value)
        return f"Bearer {words}".strip()

    def serve(self, request, path, query, body):
        if path in self.documents:
            given = self.documents[path]
            if callable(given):
                return given(request)
            return request.answer(200, self.metadata if given is None else given)
        if path != self.path:
            return request.answer(404, {"error": "not_found"})
        if self.is_open:
            return request.answer(200, {"open": True})
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        token = self.authorization.tokens.get(bearer)
        if not token or token["ends"] < time.time() or token["resource"] != self.resource:
            return request.answer(401, {"error": "invalid_token"},
                                  WWW_Authenticate=self.challenge("invalid_token" if bearer else None))
        if self.needed not in token["scope"].split():
            return request.answer(403, {"error": "insufficient_scope"},
                                  WWW_Authenticate=self.challenge("insufficient_scope", self.needed))
        if request.command != "POST":
            return request.answer(405)
        call = json.loads(body)
        result = {"tools": [{"name": "add"}]} if call.get("method") == "tools/list" else {"content": []}
        request.answer(200, {"jsonrpc": "2.0", "id": call.get("id"), "result": result})
