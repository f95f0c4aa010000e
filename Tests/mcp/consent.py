"""`[step_up] ask`: a request whose server needs another sign-in waits for it; and challenges that survive a restart."""

import json
import threading
import time

from grantd_testing import wait_until
from logins import LIST, case
from scene import must, same

ASK = "[step_up]\nask = true\ntimeout = \"{}\"\n"
SECONDS = 20


def needs_more(scene, sections):
    authorization, resource = scene.pair()
    authorization.scopes = ["notes.read", "notes.write"]
    broker = scene.start(sections)
    broker.login(scene.url(resource), "notes")
    resource.needed = "notes.write"
    return resource, broker


def waits(broker):
    return broker.call("account.get", account="notes").get("required_scopes")


@case
def consent_while_it_waits(scene):
    """The request waits for the sign-in with the union of the scopes, and its answer is the server's; over both ways."""
    resource, broker = needs_more(scene, ASK.format("20s"))
    found = []
    caller = threading.Thread(target=lambda: found.append(broker.forward("notes/mcp", LIST)[:2]))
    caller.start()
    wait_until(lambda: waits(broker), SECONDS, "the challenge")
    same(found, [], "an answer before the sign-in")
    asked, _ = broker.login("127.0.0.1", "notes")
    same(asked["scope"], "notes.read notes.write", "the scope of the request")
    caller.join(SECONDS)
    same(found, [(200, {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "add"}]}})], "the answer")
    # RFC 9470, by the socket.
    resource.raw_challenge = 'Bearer error="insufficient_user_authentication", acr_values="mfa"'
    resource.authorization.tokens.clear()
    sent = []
    params = {"account": "notes", "method": "POST", "url": "/mcp", "body": json.dumps(LIST),
              "headers": {"Content-Type": "application/json"}}
    caller = threading.Thread(target=lambda: sent.append(
        json.loads(broker.must("call", "request.send", json.dumps(params)))["status"]))
    caller.start()
    wait_until(lambda: waits(broker) is not None, SECONDS, "the challenge")
    asked, _ = broker.login("127.0.0.1", "notes")
    same(asked["acr_values"], "mfa", "acr_values of the request")
    caller.join(SECONDS)
    same(sent, [200], "the answers of request.send")


@case
def consent_that_does_not_come(scene):
    """After the time the caller gets the reason; a sign-in without the scope is not asked for twice."""
    resource, broker = needs_more(scene, ASK.format("5s"))
    began = time.monotonic()
    status, answer, _ = broker.forward("notes/mcp", LIST)
    same((status, answer["error"]["data"]["reason"]), (200, "scope_not_granted"), "the answer")
    must(4 < time.monotonic() - began < 45, f"the wait is {time.monotonic() - began} s")
    found = []
    caller = threading.Thread(target=lambda: found.append(broker.forward("notes/mcp", LIST)[1]))
    caller.start()
    time.sleep(1)
    broker.login("127.0.0.1", "notes", "--scope", "notes.read")
    caller.join(SECONDS)
    same(found[0]["error"]["data"]["reason"], "scope_not_granted", "the answer after a sign-in that does not help")


@case
def challenge_after_a_restart(scene):
    """`status` and the next sign-in know the scopes that a server needs, also after a restart."""
    _, broker = needs_more(scene, "")
    broker.forward("notes/mcp", LIST)
    same(waits(broker), ["notes.write"], "the required scopes")
    time.sleep(0.5)
    broker.end(15)
    broker.start()
    same(waits(broker), ["notes.write"], "the required scopes after a restart")
    asked, _ = broker.login("127.0.0.1", "notes")
    same(asked["scope"], "notes.read notes.write", "the scope of the request")
    same(waits(broker) or [], [], "the required scopes after the sign-in")
