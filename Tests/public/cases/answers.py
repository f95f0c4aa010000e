"""Token answers in unusual forms: arrays, HTML, compressed, without members."""

import zlib

from grantd_testing import Refused, wait_until
from answers import HTML, changed, compressed, raw_json
from rig import described, must, same
from server import Answer
from table import oauth2, oidc, row

TOKEN_SECONDS = 6


def kept(site, name=None):
    """The grant goes on: the state asks nobody to sign in, and the next refresh succeeds."""
    state = site.account(name)["state"]
    must(state not in ("login_required", "action_required"), f"the state is {state}")
    site.refreshed(name)
    must(site.token(name) in site.fake.tokens, "the token is not one of the provider's")


@row("T02", "ramosbugs/oauth2-rs#86, ulrikstrid/ocaml-oidc#11", oauth2(), oidc())
def scope_array(scene, *sites):
    """`scope` is a JSON array"""
    for site in sites:
        site.fake.always("code", changed(scope=["a", "b"]))
        site.fake.always("refresh", changed(scope=["a", "b"]))
        same(sorted(site.sign_in()["scopes"]), ["a", "b"], "the scopes of the account")
        site.refreshed()
        same(sorted(site.account()["scopes"]), ["a", "b"], "the scopes after a refresh")


@row("T03", "epam/ai-dial-core#1493, lepture/flask-oauthlib#285, modelcontextprotocol/typescript-sdk#2408",
     oidc(), oidc(), oidc())
def compression(scene, *sites):
    """a provider compresses its answers although not asked"""
    *known, other = sites
    for site, coding in zip(known, ("gzip", "deflate")):
        for name in ("metadata", "jwks", "code", "refresh", "userinfo", "device"):
            site.fake.always(name, compressed(coding))
        site.sign_in()
        # A second refresh succeeds only with the refresh token of the first one's answer.
        for count in (1, 2):
            site.refreshed()
            same(site.fake.count("refresh"), count, f"the number of refreshes with {coding}")
        site.broker.call("account.userinfo", account=site.name)
        site.start(f"{site.name}-device", destinations=["device"])
        for name, request in site.fake.requests:
            # The browser asks for this one.
            if name != "authorize":
                same(request.fields.get("accept-encoding"), "identity", f"Accept-Encoding of the {name} request")
    other.fake.always("metadata", compressed("x-odd", lambda body: zlib.compress(body)[2:-4]))
    error = other.broker.refused("login.start", provider=other.name)
    must("x-odd" in described(error), f"the error does not name the coding: {described(error)}")


@row("T04", "golang/oauth2#802, PR 810", oidc())
def html(scene, site):
    """HTML with status 200 from the token endpoint"""
    site.sign_in()
    site.fake.script("refresh", Answer.text(HTML))
    error = site.refresh()
    must(error is not True and "html" in described(error).lower(), f"the error does not name HTML: {described(error)}")
    must("html" in site.account()["last_error"]["message"].lower(), f"the account's last error: {site.account()}")
    kept(site)


@row("T10", "anthropics/claude-code#83679", oidc())
def error_array(scene, site):
    """the body of an error is a JSON array"""
    site.sign_in()
    site.fake.script("refresh", raw_json([{"logref": "7b1c", "message": "Unauthorized"}], 401))
    error = site.refresh()
    must(error is not True and "401" in described(error), f"the error does not name 401: {described(error)}")
    kept(site)


@row("T11", "binarydev/ha-generac PR 296", oidc({"lifetime": 1}), seconds=2)
def forbidden_grant(scene, site):
    """`invalid_grant` with status 403"""
    site.sign_in()
    site.fake.always("refresh", Answer.error("invalid_grant", 403, "the refresh token is revoked"))
    wait_until(lambda: ended(site), TOKEN_SECONDS, "token.get is refused with login_required")
    same(site.account()["state"], "login_required", "the state")
    must(f"login {site.name}" in site.account()["last_error"]["hint"], f"the hint: {site.account()['last_error']}")
    same(scene.ctl("token", site.name).returncode, 3, "the exit status of grantctl token")


def ended(site):
    """Whether callers are told to sign in. Before that they get the token to its end, or are asked to wait."""
    try:
        site.token()
    except Refused as error:
        must(error.reason in ("login_required", "temporarily_unavailable"), f"the reason is {described(error)}")
        return error.reason == "login_required"


@row("T13", "Bdaya-Dev/oidc#170, damienbod/angular-auth-oidc-client#1338", oidc({"rotates": False}))
def no_refresh_token(scene, site):
    """a refresh's answer without a refresh token drops the stored one"""
    for name, answer in (("absent", changed("refresh_token")), ("empty", changed(refresh_token="")),
                         ("null", changed(refresh_token=None))):
        account = f"t13-{name}"
        site.sign_in(account)
        first = len(site.fake.of("refresh"))
        site.fake.script("refresh", answer, answer, None)
        for _ in range(3):
            site.refreshed(account)
        tokens = {request.form["refresh_token"] for request in site.fake.of("refresh")[first:]}
        same(len(tokens), 1, f"the number of different refresh tokens ({name})")


@row("T15", "Bdaya-Dev/oidc#306, damienbod/angular-auth-oidc-client#1408", oidc())
def id_token_at_refresh(scene, site):
    """a refresh's answer without an ID token, with the login's again, or with another audience"""
    issued = []

    def remembered(_, usual):
        answer = usual()
        issued.append(answer.value["id_token"])
        return answer

    def with_claims(**claims):
        def answer(request, usual):
            grant = site.fake.grants[request.form["refresh_token"]]
            return changed(id_token=site.fake.id_token(grant, **claims))(request, usual)
        return answer

    site.fake.always("code", remembered)
    site.sign_in()
    for name, answer in (("none", changed("id_token")),
                         ("the login's", lambda request, usual: changed(id_token=issued[-1])(request, usual)),
                         ("an expired one", with_claims(exp=1_700_000_000, iat=1_699_999_000)),
                         ("another aud", with_claims(aud=["grantd-test", "api"], azp="grantd-test")),
                         ("another azp", with_claims(azp="other"))):
        before = site.token()
        site.fake.script("refresh", answer)
        answer = site.refresh()
        must(answer is True, f"with {name} the refresh failed: {described(answer)}")
        must(site.token() != before, f"with {name} the token is the old one")
