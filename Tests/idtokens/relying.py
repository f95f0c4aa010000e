"""Servers that take an ID token, by their documentation: kube-apiserver, AWS STS, Google's STS, Vault, Entra ID."""

import datetime
import http.server
import json
import ssl
import threading
import urllib.parse

import jwt
from issuer import TOKEN_TYPE, verified

ROLE = "arn:aws:iam::123456789012:role/reader"
STS_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
PODS = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"},
        "items": [{"metadata": {"name": "pod-1", "namespace": "default"}, "spec": {"containers": []}, "status": {}}]}
RESOURCES = {"kind": "APIResourceList", "groupVersion": "v1", "resources": [
    {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]}]}


class Server(http.server.ThreadingHTTPServer):
    """On a port of loopback; `tls` has a certificate chain and its key."""

    daemon_threads = True

    def __init__(self, handler, issuer, audience, tls=None):
        super().__init__(("127.0.0.1", 0), handler)
        self.issuer, self.audience = issuer, audience
        # The users, and why tokens were refused.
        self.users, self.refusals = [], []
        self.url = f"{'https' if tls else 'http'}://localhost:{self.server_port}"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def user(self, token):
        """Whose the token is; None: it is refused."""
        try:
            self.users.append(verified(token or "", self.issuer, self.audience)["sub"])
        except (jwt.PyJWTError, OSError) as error:
            self.refusals.append(f"{type(error).__name__}: {error}")
            return None
        return self.users[-1]

    def handle_error(self, request, client_address):
        """Clients that hang up are no news."""

    def close(self):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()

    def form(self):
        return dict(urllib.parse.parse_qsl(self.body()))

    def reply(self, status, text, kind="application/json"):
        body = (text if isinstance(text, str) else json.dumps(text)).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Cluster(Handler):
    """kube-apiserver with --oidc-issuer-url and --oidc-client-id."""

    def do_GET(self):
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not self.server.user(token):
            return self.reply(401, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized",
                                    "message": "Unauthorized", "code": 401})
        path = self.path.partition("?")[0]
        answers = {"/api": {"kind": "APIVersions", "versions": ["v1"]}, "/api/v1": RESOURCES,
                   "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
                   "/api/v1/namespaces/default/pods": PODS, "/version": {"major": "1", "minor": "32"}}
        return self.reply(200 if path in answers else 404, answers.get(path, {}))


class AmazonSTS(Handler):
    """AssumeRoleWithWebIdentity (AWS STS API reference)."""

    def do_POST(self):
        form = self.form()
        action = form.get("Action", "")
        if action == "GetCallerIdentity":
            signed = "Credential=ASIATEST/" in self.headers.get("Authorization", "")
            return self.xml(action, f"<Account>{'123456789012' if signed else 'unsigned'}</Account><UserId>u</UserId>"
                            f"<Arn>{ROLE}</Arn>")
        subject = self.server.user(form.get("WebIdentityToken")) if form.get("RoleArn") == ROLE else None
        if not subject:
            return self.reply(400, f'<ErrorResponse xmlns="{STS_NAMESPACE}"><Error><Type>Sender</Type>'
                              "<Code>InvalidIdentityToken</Code><Message>no</Message></Error></ErrorResponse>", "text/xml")
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=int(form["DurationSeconds"]))
        return self.xml(action, "<Credentials><AccessKeyId>ASIATEST</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
                        f"<SessionToken>t</SessionToken><Expiration>{end:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials>"
                        f"<SubjectFromWebIdentityToken>{subject}</SubjectFromWebIdentityToken>")

    def xml(self, action, content):
        self.reply(200, f'<{action}Response xmlns="{STS_NAMESPACE}"><{action}Result>{content}</{action}Result>'
                   f"</{action}Response>", "text/xml")


class GoogleSTS(Handler):
    """RFC 8693 with an ID token as subject token."""

    def do_POST(self):
        form = self.form()
        if form.get("subject_token_type") != TOKEN_TYPE + "id_token" or not self.server.user(form.get("subject_token")):
            return self.reply(400, {"error": "invalid_grant", "error_description": "the subject token is not valid"})
        return self.reply(200, {"access_token": "google-token", "token_type": "Bearer", "expires_in": 3600,
                                "issued_token_type": TOKEN_TYPE + "access_token"})


class Vault(Handler):
    """`auth/jwt/login` (the API of Vault's JWT method)."""

    def do_POST(self):
        given = json.loads(self.body())
        if self.path != "/v1/auth/jwt/login" or given.get("role") != "reader" or not self.server.user(given.get("jwt")):
            return self.reply(400, {"errors": ["error validating token"]})
        return self.reply(200, {"auth": {"client_token": "hvs.test", "policies": ["default"], "lease_duration": 3600}})


class Entra(Handler):
    """The token endpoint of Entra ID with a federated credential: the ID token is the client assertion (RFC 7523)."""

    def do_GET(self):
        parts = self.path.partition("?")[0].split("/")
        base = f"{self.server.url}/{parts[1]}"
        self.reply(200, {
            "token_endpoint": f"{base}/oauth2/v2.0/token", "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
            "issuer": f"{base}/v2.0", "tenant_discovery_endpoint": f"{base}/v2.0/.well-known/openid-configuration",
            "metadata": []})

    def do_POST(self):
        form = self.form()
        if form.get("client_assertion_type") != ASSERTION or not self.server.user(form.get("client_assertion")):
            return self.reply(400, {"error": "invalid_client", "error_description": "AADSTS700211: no matching identity"})
        return self.reply(200, {"access_token": "azure-token", "token_type": "Bearer", "expires_in": 3600,
                                "ext_expires_in": 3600})
