"""Who gets an ID token: rules, approvals, the audit trail."""

import json
import os
import threading

from grantd_testing import wait_until
from scene import OTHER, USER, Skip, case, has, must, same

WAIT_SECONDS = 60


def system(scene, rules):
    """The system's broker, with rules for users who are not root."""
    if os.getuid() != 0:
        raise Skip("only root can start programs as other users")
    scene.broker.instance = "system"
    scene.provider()
    scene.start("work", sections=rules)
    return scene.broker


def rule(uid, *lines):
    return "\n".join(["[[rule]]", f"uid = {uid}", 'accounts = ["work"]', *lines, ""])


@case("policy.rules")
def rules(scene):
    """`use` and `methods` do not include ID tokens, and `id_token` does not include access tokens."""
    broker = system(scene, rule(USER, 'access = ["id_token"]') + rule(OTHER, 'access = ["use"]', 'methods = ["token.get"]'))
    words = ("token", "work", "--id-token")
    must(broker.must(*words, user=USER, group=USER).count(".") == 2, "no JWT")
    has(broker.refused("token", "work", user=USER, group=USER), 'access = ["use"]')
    broker.must("token", "work", user=OTHER, group=OTHER)
    text = broker.refused(*words, user=OTHER, group=OTHER)
    has(text, 'access = ["id_token"]')
    has(broker.must("explain", "work", "--uid", USER, "--id-token"), "allowed")
    has(broker.run("explain", "work", "--uid", OTHER, "--id-token").stdout, "not allowed")
    has(broker.run("explain", "work", "--uid", USER).stdout, "not allowed")
    # A caller with `id_token` alone can report, and learns what is wrong with its parameters.
    generation = json.loads(broker.must(*words, "--json", user=USER, group=USER))["generation"]
    report = {"account": "work", "generation": generation, "kind": "id_token"}
    broker.must("call", "token.report_rejected", json.dumps(report), user=USER, group=USER)
    has(broker.refused("call", "token.get", '{"account":"work","kind":"x"}', user=USER, group=USER), "kind")


@case("policy.scopes")
def scopes(scene):
    """A rule that caps the scopes gives ID tokens with `openid` alone."""
    broker = system(scene, rule(USER, 'access = ["id_token"]', 'scopes = ["openid"]')
                    + rule(OTHER, 'access = ["id_token"]', 'scopes = ["email"]'))
    broker.must("token", "work", "--id-token", user=USER, group=USER)
    has(broker.refused("token", "work", "--id-token", user=OTHER, group=OTHER), "openid")


@case("policy.confirm")
def confirm(scene):
    """An approval of an access token is none of an ID token."""
    scene.provider()
    scene.start("work", sections=f'[[rule]]\nuid = {os.getuid()}\naccounts = ["work"]\naccess = ["use", "id_token"]\n'
                'confirm = true\nconfirm_timeout = "20s"\n')
    broker = scene.broker

    def waiting():
        return json.loads(broker.must("call", "release.list"))["waiting"]
    for words, kind in ((("token", "work"), None), (("token", "work", "--id-token"), "id_token")):
        result = []
        thread = threading.Thread(target=lambda words=words, result=result: result.append(broker.run(*words)))
        thread.start()
        wait_until(waiting, WAIT_SECONDS, "the release waits")
        one = waiting()[0]
        same(one.get("kind"), kind, "the kind of the waiting release")
        has(broker.must("approve"), "ID token" if kind else "token.get")
        broker.must("approve", one["id"], "--for", "5m")
        thread.join()
        same(result[0].returncode, 0, f"the status of {words}: {result[0].stderr}")
    same(len(broker.call("release.list")["standing"]), 2, "the approvals that hold")


@case("policy.audit")
def audit(scene):
    """ID tokens have their own kind in the audit trail, refusals as well."""
    broker = system(scene, rule(USER, 'access = ["id_token"]') + rule(OTHER, 'access = ["use"]'))
    broker.must("token", "work", "--id-token", user=USER, group=USER)
    broker.must("token", "work", user=OTHER, group=OTHER)
    broker.refused("token", "work", "--id-token", user=OTHER, group=OTHER)
    records = broker.call("audit.list", account="work", action="id_token")["records"]
    found = {(one["uid"], one["method"], one["result"]) for one in records}
    same(found, {(USER, "token.get", "ok"), (OTHER, "token.get", "not_permitted")}, "the records")
    must(next(one for one in records if one["uid"] == USER).get("generation"), "no generation")
    released = broker.call("audit.list", account="work", action="release")["records"]
    same([one["uid"] for one in released], [OTHER], "the releases of access tokens")
    has(broker.must("audit", "--action", "id_token"), "ID token")


@case("policy.rates")
def rates(scene):
    """A caller that has ID tokens replaced uses up its budget of the account."""
    broker = system(scene, rule(USER, 'access = ["id_token"]'))
    scene.issuer.providers["p"].id_ttl = 3600

    def report():
        held = json.loads(broker.must("token", "work", "--id-token", "--json", user=USER, group=USER))
        params = {"account": "work", "generation": held["generation"], "kind": "id_token", "timeout": 5}
        return broker.run("call", "token.report_rejected", json.dumps(params), user=USER, group=USER)
    statuses = [report().returncode for _ in range(3)]
    same(statuses, [0, 0, 0], "the first reports")
    has(report().stderr, "too often")
