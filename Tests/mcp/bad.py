"""Documents that cannot be used: the error names the document and the next step, and nothing is stored."""

import contextlib

from grantd_testing import free_ports, redirected, wait_until
from logins import case, works
from scene import LOGIN_SECONDS, Login, must, same, visit
from servers import RESOURCE, SERVER

LARGE = 10 << 20


def refused(scene, broker, resource, *words):
    """The login fails with these words, and stores nothing."""
    text = broker.refused("login", scene.url(resource), "notes")
    for word in words:
        must(word in text, f"“{word}” is missing: {text}")
    must("hint" in text.lower() or "grantctl" in text or "Report" in text, f"no next step: {text}")
    must(all(ord(character) >= 0x20 or character == "\n" for character in text), f"control characters: {text!r}")
    same(broker.providers(), [], "the providers")
    same(broker.call("account.list")["accounts"], [], "the accounts")


def redirect(place):
    return lambda request: request.answer(302, Location=place)


@case
def bad_resource_metadata(scene):
    """Other origins, plain http, other resources, no or too many servers."""
    authorization, resource = scene.pair()
    other = scene.resource(authorization)
    broker = scene.start()
    place = resource.url + RESOURCE + resource.path
    resource.challenge_metadata = other.challenge_metadata
    refused(scene, broker, resource, other.challenge_metadata, "same origin")
    resource.challenge_metadata = "http://mcp.example.com/.well-known/oauth-protected-resource"
    refused(scene, broker, resource, "mcp.example.com", "same origin")
    resource.challenge_metadata = place
    for changes, words in (
            ({"resource": other.resource}, (place, other.resource)),
            ({"resource": resource.url + "/mcp/more"}, (place, "another resource")),
            ({"authorization_servers": []}, (place, "no authorization server")),
            ({"authorization_servers": ["http://login.example.com"]}, (place, "not https")),
            ({"authorization_servers": [f"https://as{number}.example.com" for number in range(50)]}, (place, "50")),
            ({"authorization_servers": 7}, (place, "authorization_servers")),
            ({"authorization_servers": ["https://169.254.169.254"]}, ("169.254.169.254", "link-local"))):
        resource.changes = changes
        refused(scene, broker, resource, *words)
    same(other.requests, [], "requests to the other server")
    resource.changes = {}
    for given, words in (
            (redirect(other.challenge_metadata), (place, "redirect")), (redirect(place), (place, "redirected")),
            (lambda request: request.answer(404), (place, "404")),
            (lambda request: request.answer(200, b"<html>", Content_Type="text/html"), (place, "JSON")),
            (lambda request: request.answer(200, b" " * LARGE), (place,)),
            (lambda request: request.answer(500), (place, "500"))):
        resource.documents[RESOURCE + resource.path] = given
        refused(scene, broker, resource, *words)
    same(authorization.requests, [], "requests to the authorization server")


@case
def bad_server_metadata(scene):
    """An issuer that is another one, and endpoints that cannot be used."""
    authorization, resource = scene.pair()
    broker = scene.start()
    place = authorization.url + SERVER
    for changes, words in (
            ({"issuer": "https://other.example.com"}, (place, "other.example.com", authorization.issuer)),
            ({"issuer": authorization.issuer + "/"}, (place, "of the issuer")),
            ({"token_endpoint": None}, (place, "token_endpoint")),
            ({"token_endpoint": "http://login.example.com/token"}, (place, "token_endpoint", "https")),
            ({"token_endpoint": "https://169.254.169.254/token"}, (place, "link-local")),
            ({"code_challenge_methods_supported": ["plain"]}, (place, "S256"))):
        authorization.changes = changes
        refused(scene, broker, resource, *words)
    authorization.changes, authorization.documents = {}, []
    refused(scene, broker, resource, authorization.issuer, place)
    same(authorization.asked("/register"), [], "registrations")


@case
def refused_registration(scene):
    authorization, resource = scene.pair()
    authorization.refused_registration = "an account of the portal is required"
    broker = scene.start()
    refused(scene, broker, resource, authorization.issuer, "an account of the portal is required", "--client-id")


@case
def mix_up(scene):
    """An authorization response of another issuer (RFC 9207): the code is not sent, and there is no account."""
    authorization, resource = scene.pair()
    authorization.responds_as = "https://other.example.com"
    broker = scene.start()
    with contextlib.closing(Login(broker, [scene.url(resource), "notes"], broker.folder / "login.log")) as login:
        wait_until(login.url, LOGIN_SECONDS, "the URL")
        same(visit(redirected(redirected(login.url()[0]))), 400, "the status of the callback")
    same([form for form in authorization.forms("/token") if "code_verifier" in form], [], "codes that were sent")
    same(broker.call("account.list")["accounts"], [], "the accounts")


@case
def bad_challenges(scene):
    """Control characters, and a challenge without metadata."""
    authorization, resource = scene.pair()
    broker = scene.start()
    resource.raw_challenge = f'Bearer resource_metadata="{resource.challenge_metadata}", scope="a\t\\"b"'
    refused(scene, broker, resource, "scope", "WWW-Authenticate")
    resource.raw_challenge = f'Bearer resource_metadata="{resource.challenge_metadata}", scope="caf\xe9"'
    refused(scene, broker, resource, "scope", "WWW-Authenticate")
    resource.raw_challenge, resource.documents = "Bearer", {}
    refused(scene, broker, resource, RESOURCE + resource.path, "--issuer")
    broker.login(scene.url(resource), "notes", "--issuer", authorization.issuer, "--scope", "notes.read")
    works(broker, "notes")


@case
def no_resource(scene):
    """A URL that needs no token, one that nobody serves, and none at all."""
    authorization, resource = scene.pair()
    broker = scene.start()
    resource.is_open, resource.documents = True, {}
    refused(scene, broker, resource, "without a token", "RFC 9728")
    must("https" in broker.refused("login", "http://mcp.example.com/mcp"), "plain http")
    resource.url = f"http://127.0.0.1:{free_ports()[0]}"
    refused(scene, broker, resource, "connection refused", "Check the address", "setup")


@case
def changed_issuer(scene):
    """A resource that names another server later: refused, and the old grant still works."""
    authorization, resource = scene.pair()
    broker = scene.start()
    broker.login(scene.url(resource), "notes")
    other = scene.authorization()
    resource.issuers = [other.issuer]
    text = broker.refused("login", scene.url(resource), "notes")
    for word in (other.issuer, authorization.issuer, RESOURCE, "--name"):
        must(word in text, f"“{word}” is missing: {text}")
    same(other.requests, [], "requests to the new server")
    works(broker, "notes")
    broker.must("refresh", "notes")
    works(broker, "notes")
    # The server itself is another one, by its own document.
    resource.issuers, authorization.changes = [authorization.issuer], {"issuer": other.issuer}
    broker.end(15)
    broker.start()
    works(broker, "notes")
    text = broker.refused("login", scene.url(resource), "notes")
    for word in (other.issuer, authorization.issuer, "/.well-known/", "discovery_url"):
        must(word in text, f"“{word}” is missing: {text}")
    same(broker.call("account.get", account="notes")["state"], "ok", "the old grant")
    same(other.requests, [], "requests to the new server")
    works(broker, "notes")
