"""`grantctl login URL`: the documents, the client, the request, and the account that it makes."""

import json
import re
import subprocess
import tomllib

from grantd_testing import environment, redirected
from scene import LOGIN_SECONDS, must, same
from servers import RESOURCE

CASES = {}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def case(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


def works(broker, account, path="/mcp"):
    status, answer, _ = broker.forward(account + path, LIST)
    same((status, answer), (200, {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "add"}]}}), "the answer")


@case
def url_alone(scene):
    """One command, and `/forward` works; also after a restart."""
    authorization, resource = scene.pair()
    broker = scene.start()
    asked, text = broker.login(scene.url(resource), "notes")
    same(asked["resource"], resource.resource, "resource of the authorization request (RFC 8707)")
    same(asked["code_challenge_method"], "S256", "the PKCE method")
    same(asked["scope"], "notes.read", "the scope of the request")
    works(broker, "notes")
    must("configure" in text, f"the next step is missing: {text}")
    for form in authorization.forms("/token"):
        # The client's authentication is tried with a made-up token before.
        must("client_id" in form, f"client_id is missing in the body: {form}")
    same([form["resource"] for form in authorization.forms("/token") if "code" in form], [resource.resource],
         "resource of the token request")
    registered = json.loads(authorization.asked("/register", "POST")[0])
    same(registered["token_endpoint_auth_method"], "none", "the client's authentication")
    must({"authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"}
         <= set(registered["grant_types"]), f"grant types: {registered}")
    broker.end(15)
    broker.start()
    works(broker, "notes")
    broker.must("refresh", "notes")
    works(broker, "notes")
    same([form["resource"] for form in authorization.forms("/token") if form["grant_type"] == "refresh_token"][-1],
         resource.resource, "resource of the refresh")
    same(len(authorization.asked("/register", "POST")), 1, "registrations")


@case
def scopes_of_the_challenge(scene):
    """Those of the challenge win over the document's; offline_access only if the server lists it."""
    authorization, resource = scene.pair()
    authorization.scopes = ["notes.read", "notes.write", "offline_access"]
    resource.challenge_scope = "notes.read notes.write"
    broker = scene.start()
    asked, _ = broker.login(scene.url(resource))
    same(asked["scope"], "notes.read notes.write offline_access", "the scope of the request")
    same(broker.providers(), ["127.0.0.1"], "the provider's name")


@case
def without_challenge(scene):
    """The document is found without `resource_metadata`: at the path, else at the root."""
    authorization, resource = scene.pair()
    resource.challenge_metadata = None
    resource.documents = {"/.well-known/oauth-protected-resource": None}
    resource.resource = resource.url + "/"
    broker = scene.start()
    broker.login(scene.url(resource), "notes")
    paths = [path for _, path, _, _ in resource.requests if "well-known" in path]
    same(paths, ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"], "the requests")
    works(broker, "notes")


@case
def redirected_metadata(scene):
    """A document that moved within its origin is found there."""
    authorization, resource = scene.pair()
    place = RESOURCE + resource.path
    resource.documents = {place: lambda request: request.answer(302, Location="/moved"), "/moved": None}
    broker = scene.start()
    broker.login(scene.url(resource), "notes")
    works(broker, "notes")


@case
def server_with_a_path(scene):
    """RFC 8414 with the path inserted, OpenID inserted, OpenID appended, in turn."""
    authorization = scene.authorization("/tenant")
    authorization.documents = ["/tenant/.well-known/openid-configuration"]
    authorization.changes = {"jwks_uri": authorization.url + "/keys"}
    resource = scene.resource(authorization)
    broker = scene.start()
    broker.login(scene.url(resource), "notes")
    paths = [path for _, path, _, _ in authorization.requests if "well-known" in path]
    same(paths[:3], ["/.well-known/oauth-authorization-server/tenant", "/.well-known/openid-configuration/tenant",
                     "/tenant/.well-known/openid-configuration"], "the requests")
    works(broker, "notes")


@case
def second_resource(scene):
    """A second URL at the issuer uses the client again, and has its own provider and token."""
    authorization, first = scene.pair()
    second = scene.resource(authorization, "/other/mcp")
    broker = scene.start()
    broker.login(scene.url(first), "notes")
    _, text = broker.login(scene.url(second), "other")
    must("existing provider" in text, f"the client's source is missing: {text}")
    same(len(authorization.asked("/register", "POST")), 1, "registrations")
    works(broker, "notes")
    works(broker, "other", "/other/mcp")
    broker.end(15)
    broker.start()
    works(broker, "other", "/other/mcp")
    refused = broker.refused("provider", "unregister", broker.call("account.get", account="notes")["provider"])
    must("accounts" in refused, refused)
    # Once more: the same provider.
    before = broker.providers()
    broker.login(scene.url(second), "other")
    same(broker.providers(), before, "the providers")


@case
def configured_provider(scene):
    """A provider of the configuration at the issuer lends its client, before a metadata document and a registration."""
    authorization, resource = scene.pair()
    authorization.clients["by-hand"], authorization.takes_documents = {}, True
    broker = scene.start('[client_metadata]\nurl = "https://example.com/grantd.json"\n'
                         f'[provider.company]\nkind = "oauth2"\nissuer = "{authorization.issuer}"\nclient_id = "by-hand"\n')
    asked, _ = broker.login(scene.url(resource), "notes", "--name", "notes-server")
    same(asked["client_id"], "by-hand", "the client")
    same(authorization.asked("/register", "POST"), [], "registrations")
    same(broker.providers(), ["company", "notes-server"], "the providers")
    works(broker, "notes")
    broker.must("reload")
    works(broker, "notes")
    shown = broker.must("provider", "show", "notes-server", "--toml")
    must("other keys of [provider.company]" in shown, f"the section: {shown}")
    section = tomllib.loads(shown)["provider"]["notes-server"]
    same(section, {"scopes": ["notes.read"], "resource": resource.resource, "api_base": resource.url}, "the section")


@case
def metadata_document(scene):
    """The client is the URL of `[client_metadata]` if the server takes such documents."""
    authorization, resource = scene.pair()
    authorization.takes_documents = True
    broker = scene.start('[client_metadata]\nurl = "https://example.com/grantd.json"\n')
    asked, _ = broker.login(scene.url(resource), "notes")
    same(asked["client_id"], "https://example.com/grantd.json", "the client")
    same(authorization.asked("/register", "POST"), [], "registrations")
    works(broker, "notes")
    document = json.loads(broker.must("client-metadata"))
    same(document["client_id"], "https://example.com/grantd.json", "client_id of the document")
    same(document["redirect_uris"], ["http://127.0.0.1/callback"], "redirect_uris of the document")


@case
def client_by_hand(scene):
    """A server that registers no clients: the error has the command, and the command works."""
    authorization, resource = scene.pair()
    authorization.registers = False
    authorization.clients["by-hand"] = {}
    broker = scene.start()
    refused = broker.refused("login", scene.url(resource), "notes")
    must("--client-id" in refused and authorization.issuer in refused, refused)
    same(broker.providers(), [], "the providers")
    asked, _ = broker.login(scene.url(resource), "notes", "--client-id", "by-hand")
    same(asked["client_id"], "by-hand", "the client")
    works(broker, "notes")


@case
def two_servers(scene):
    """The first server that works is used; `--issuer` chooses; a server with a provider comes first."""
    first, second = scene.authorization(), scene.authorization()
    resource = scene.resource(second)
    resource.issuers = [first.issuer, second.issuer]
    broker = scene.start()
    refused = broker.refused("login", scene.url(resource), "--issuer", "https://other.example.com")
    must(first.issuer in refused and "--issuer" in refused, refused)
    broker.login(scene.url(resource), "notes", "--issuer", second.issuer)
    works(broker, "notes")
    same(first.requests, [], "requests to the other server")
    third = scene.resource(second, "/third")
    third.issuers = [first.issuer, second.issuer]
    broker.login(scene.url(third), "third")
    works(broker, "third", "/third")
    first.documents = []
    fourth = scene.resource(second, "/fourth")
    fourth.issuers = [first.issuer, second.issuer]
    broker.login(scene.url(fourth), "fourth", "--name", "fourth")
    works(broker, "fourth", "/fourth")


@case
def on_another_device(scene):
    """The device grant, with the resource."""
    authorization, resource = scene.pair()
    broker = scene.start()
    text = broker.must("login", scene.url(resource), "notes", "--device", "--qr", "never")
    must("notes" in text, text)
    same(authorization.forms("/device")[0]["resource"], resource.resource, "resource of the device request")
    works(broker, "notes")


@case
def pasted(scene):
    """`--manual`: the URL at which a browser ends is pasted."""
    authorization, resource = scene.pair()
    broker = scene.start()
    words = [broker.products / "grantctl", "--socket", broker.socket, "login", scene.url(resource), "notes", "--manual"]
    with subprocess.Popen(words, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=environment(broker.folder)) as login:
        scene.closing.callback(login.kill)
        lines = iter(login.stdout.readline, "")
        place = next(found for line in lines if (found := re.search(re.escape(authorization.url) + r"/authorize\S+", line)))[0]
        rest, _ = login.communicate(redirected(place) + "\n", timeout=LOGIN_SECONDS)
    same(login.returncode, 0, f"the status: {rest}")
    works(broker, "notes")


@case
def backup_and_restore(scene):
    """The account works from a backup, at another broker."""
    authorization, resource = scene.pair()
    second = scene.resource(authorization, "/second")
    broker = scene.start()
    broker.login(scene.url(resource), "notes")
    broker.login(scene.url(second), "second")
    shown = json.loads(broker.must("call", "provider.get", json.dumps({"provider": "127.0.0.1"})))
    same(shown["section"]["resource"], resource.resource, "resource of the section")
    secret = broker.folder / "secret"
    secret.write_text("a passphrase of enough characters\n")
    secret.chmod(0o600)
    backup = broker.folder / "backup"
    broker.must("backup", str(backup), "--passphrase-file", str(secret))
    for account in ("notes", "second"):
        broker.must("logout", account, "--no-revoke")
    broker.must("provider", "unregister", broker.providers()[1])
    broker.must("provider", "unregister", broker.providers()[0])
    broker.must("restore", str(backup), "--passphrase-file", str(secret), "--moved")
    works(broker, "notes")
    works(broker, "second", "/second")
