"""Errors at refreshes: of one user's grant, of a moment, of the client."""

import json
import time

from grantd_testing import Refused, wait_until
from answers import changed, raw_json
from rig import described, must, same
from server import Answer
from table import oidc, row

# Codes of RFC 6749 §5.2 and RFC 8707 §2 that concern one account until another account gets them too.
OTHER_CODES = (
    ("invalid_scope", 400), ("unsupported_grant_type", 400), ("invalid_target", 400), ("invalid_client", 401),
    ("unauthorized_client", 400))

RENEWAL_SECONDS, SHORT_SECONDS = 10, 2
# Refreshes of tokens that end sooner are limited.
ENDED_SECONDS, PAUSE_SECONDS = 6, 0.5


def refuse(site, name, answer):
    """That answer to the refreshes of one user, and the usual one to others."""
    def judge(request, usual):
        grant = site.fake.grants.get(request.form["refresh_token"])
        # Tokens of the other account go on being short-lived.
        return answer if grant and grant.subject == name else changed(expires_in=SHORT_SECONDS)(request, usual)
    site.fake.always("refresh", judge)


def short_lived(site, name):
    """An account whose tokens end after a short time, at each refresh too."""
    refuse(site, None, None)
    usual = site.fake.lifetime
    site.fake.lifetime = SHORT_SECONDS
    site.sign_in(name)
    site.fake.lifetime = usual


def renewed(site, name, old):
    """Whether callers get a token that is none of the old ones. Until then they are asked to wait, and nothing else."""
    try:
        return site.token(name) not in old
    except Refused as error:
        # On a busy machine such a token can end before it is stored.
        must(error.reason == "temporarily_unavailable", f"callers of {name} get {described(error)}")


def unharmed(site, name, what):
    """Callers of another account get new tokens: two, since one refresh could be under way already."""
    for _ in range(2):
        old = set(site.fake.tokens)
        wait_until(lambda: renewed(site, name, old), RENEWAL_SECONDS, f"a new token for {name} after {what} of another account")
    wait_until(lambda: site.account(name)["state"] in ("ok", "refreshing"), RENEWAL_SECONDS, f"{name} is ok after {what}")


@row("T07", "raycast/extensions#11836", oidc(), oidc(permanent_errors=["unauthorized_client"]),
     oidc(permanent_errors=["refresh_token is invalid"]), seconds=16)
def one_dead_token(scene, plain, by_code, by_words):
    """403 unauthorized_client for one user's dead refresh token stops the other users"""
    dead = Answer.error("unauthorized_client", 403, "refresh_token is invalid")
    for site in (by_code, by_words):
        site.sign_in(f"{site.name}-dead")
        short_lived(site, f"{site.name}-other")
        refuse(site, f"{site.name}-dead", dead)
        site.refresh(f"{site.name}-dead")
        unharmed(site, f"{site.name}-other", "a permanent error")
        same(site.account(f"{site.name}-dead")["state"], "login_required", "the state by permanent_errors")
    short_lived(plain, "t07-other")
    for code, status in (("dead", 403), *OTHER_CODES):
        name = f"t07-{code}"
        plain.sign_in(name)
        refuse(plain, name, dead if code == "dead" else Answer.error(code, status, f"{code} of this user"))
        must(plain.refresh(name) is not True, f"the refresh with {code} succeeds")
        unharmed(plain, "t07-other", code)
        must(plain.account(name)["state"] != "ok", f"the state after {code} is ok")
        hint = plain.account(name)["last_error"]["hint"]
        must(f"login {plain.name} {name}" in hint, f"the hint after {code} offers no login: {hint}")
        state = plain.broker.call("provider.get", provider=plain.name)["provider"]["state"]
        same(state, "ok", f"the state of the provider after {code}")
        oauth = plain.account(name)["last_error"].get("oauth", {})
        same(oauth.get("error"), "unauthorized_client" if code == "dead" else code, "the provider's error in last_error")


@row("T08", "keurcien/auxilia PR 327, FlowFuse/flowfuse PR 8547, metabase/metabase#80389",
     oidc(), oidc(permanent_errors=["invalid_request"]))
def invalid_request(scene, plain, permanent):
    """a dead refresh token is answered invalid_request, and tried for ever"""
    dead = Answer.error("invalid_request", 400, "The refresh token has expired.")
    for site in (plain, permanent):
        site.sign_in()
        site.fake.always("refresh", dead)
        must(site.refresh() is not True, "the refresh succeeds")
    same(permanent.account()["state"], "login_required", "the state by permanent_errors")
    before = plain.fake.count("refresh")
    for _ in range(20):
        plain.broker.call("token.get", account=plain.name)
    must(plain.fake.count("refresh") <= before + 2, f"{plain.fake.count('refresh') - before} refreshes for 20 questions")
    found = plain.account()
    same(found["state"], "degraded", "the state")
    same(found["last_error"]["oauth"]["error"], "invalid_request", "the provider's error")
    # The advice after ten minutes is tested with the broker's clock, not here.
    shown = scene.printed("show", plain.name)
    must("invalid_request" in shown and "expired" in shown, f"grantctl show does not give the provider's error: {shown}")


@row("T09", "simonrob/email-oauth2-proxy#123", oidc(), oidc({"lifetime": SHORT_SECONDS}), oidc({"lifetime": ENDED_SECONDS}),
     oidc({"lifetime": ENDED_SECONDS}), oidc({"lifetime": SHORT_SECONDS}), seconds=12)
def passing_invalid_grant(scene, early, passing, recovered, final, late):
    """an invalid_grant that passes by itself costs the refresh token"""
    refusal = Answer.error("invalid_grant", 400, "AADSTS50173: the provided grant has expired")
    # Before the access token's end: the token is still returned, and a later refresh succeeds.
    early.sign_in()
    early.fake.script("refresh", refusal)
    error = early.refresh()
    same(error.data["reason"], "temporarily_unavailable", "the reason of the refresh's error")
    must("until its end" in error.data["hint"] and "grantctl login" in error.data["hint"], f"the hint is {error.data}")
    must(early.token() in early.fake.tokens, "no token before its end")
    view = early.account()
    same((view["state"], view["last_error"]["reason"]), ("degraded", "temporarily_unavailable"), "state and error")
    must(not scene.broker.lines("needs a login", early.name), "a login is announced while the access token works")
    must("login_required" not in scene.ctl("status", early.name).stdout, "status announces a login")
    early.refreshed()
    # After the end the refresh token is tried once more.
    passing.sign_in()
    old = set(passing.fake.tokens)
    passing.fake.script("refresh", refusal)
    passing.refresh()
    wait_until(lambda: renewed(passing, passing.name, old), RENEWAL_SECONDS, "a new token after an invalid_grant that passed")
    # A first refusal after the end: the caller waits for the second attempt.
    late.sign_in()
    late.fake.always("refresh", Answer.error("slow_down", 429, "too many requests"))
    time.sleep(SHORT_SECONDS)
    late.fake.always("refresh", None)
    late.fake.script("refresh", refusal)
    late.refreshed(now=False)
    # A grant that has ended: `refresh --now` tries the kept refresh token once.
    for site in (recovered, final):
        site.sign_in()
        site.fake.always("refresh", refusal)
        wait_until(lambda: site.refresh() and site.account()["state"] == "login_required", RENEWAL_SECONDS, "login_required",
                   PAUSE_SECONDS)
        must(scene.broker.lines("needs a login", site.name), "the end of the grant is not announced")
    recovered.fake.lifetime = 3600
    recovered.fake.always("refresh", None)
    done = scene.ctl("refresh", recovered.name, "--now")
    must(done.returncode == 0, f"refresh --now does not try the kept refresh token: {done.stderr}")
    same(recovered.account()["state"], "ok", "the state after the recovery")
    same(scene.ctl("refresh", final.name, "--now").returncode, 3, "the exit status for a grant that stays refused")


@row("T12", "anthropics/claude-code#89862, Dolibarr PR 36950, oauth2-proxy#2514", oidc(), own=lambda scene: "")
def scope_at_refresh(scene, site):
    """a refresh without `scope` gives a token for other scopes, without a notice"""
    site.sign_in()

    def narrowed(request, usual):
        answer = usual()
        return answer if "b" in request.form.get("scope", "").split() else raw_json(answer.value | {"scope": "openid a"})

    site.fake.always("refresh", narrowed)
    site.refresh()
    checks = json.loads(scene.ctl("doctor", site.name, "--json").stdout)["checks"]
    lost = [check for check in checks if check["name"] == "granted_scopes" and check["result"] != "ok"]
    site.refresh()
    sent = [request.form.get("scope") for request in site.fake.of("refresh")]
    must(sent[-1] and "b" in sent[-1].split(), f"the refresh after the loss sends the scopes {sent}")
    same(sorted(site.account()["scopes"]), ["a", "b", "openid"], "the scopes after that refresh")
    must(lost, f"doctor does not report the lost scope: {checks[-3:]}")
    site.keys["refresh_parameters"] = {"scope": "openid a b"}
    scene.broker.configure("", scene.sites)
    scene.broker.call("broker.reload")
    site.fake.rules.clear()
    site.refreshed()
    same(site.fake.of("refresh")[-1].form.get("scope"), "openid a b", "the scope of a refresh with refresh_parameters")
