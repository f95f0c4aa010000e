"""`token.get` with kind = "id_token": what is released, and each error with its next step."""

import concurrent.futures
import time

from issuer import SUBJECT, verified
from scene import case, has, must, same

CALLERS = 8


def token(scene, account="work", **params):
    return scene.broker.call("token.get", account=account, kind="id_token", **params)


def fails(scene, reason, account="work", **params):
    return scene.broker.fails(reason, "token.get", account=account, kind="id_token", **params)


@case("socket.release")
def release(scene):
    """The login's ID token, verified by a relying party; the access token's answer is as before."""
    provider = scene.provider()
    scene.start("work")
    answer = token(scene)
    claims = verified(answer["id_token"], provider.issuer)
    same(claims["sub"], SUBJECT, "sub")
    same(answer["expires_at"], claims["exp"], "expires_at")
    same((answer["kind"], answer["issuer"], answer["scope"]), ("id_token", provider.issuer, []), "the answer")
    must("access_token" not in answer and "token_type" not in answer, f"an access token came with it: {answer}")
    plain = scene.broker.call("token.get", account="work")
    must("id_token" not in plain and plain["access_token"].startswith("at-"), f"the access token: {plain}")
    same(len(provider.refreshes()), 0, "the refreshes")
    secret = answer["id_token"].rpartition(".")[2]
    must(secret not in scene.broker.log_text(), "the ID token is in the log")


@case("socket.sealed")
def sealed(scene):
    """The stored ID token is sealed, and is released after a restart without a refresh."""
    provider = scene.provider()
    scene.start("work")
    before = token(scene)["id_token"]
    scene.broker.end(15)
    for path in scene.broker.state.rglob("*"):
        if path.is_file():
            must(before.encode() not in path.read_bytes(), f"the ID token is readable in {path.name}")
    scene.broker.start()
    same(token(scene)["id_token"], before, "the ID token after a restart")
    same(len(provider.refreshes()), 0, "the refreshes")


@case("socket.shared")
def shared(scene):
    """Callers that want more time than is left share one refresh."""
    provider = scene.provider()
    provider.id_ttl = 60
    scene.start("work")
    first = token(scene)["id_token"]
    provider.id_ttl, provider.delay = 3600, 0.5
    with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
        tokens = set(pool.map(lambda _: token(scene, min_ttl=600)["id_token"], range(CALLERS)))
    must(len(tokens) == 1 and first not in tokens, f"{len(tokens)} ID tokens")
    same(len(provider.refreshes()), 1, "the refreshes")
    verified(tokens.pop(), provider.issuer)


@case("socket.none_at_refresh")
def none_at_refresh(scene):
    """No ID token at a refresh: the reason and the setting, no expired token, and no refresh for each call."""
    provider = scene.provider()
    provider.id_ttl, provider.at_refresh = 10, "none"
    scene.start("work")
    token(scene)
    time.sleep(10.2)
    text = fails(scene, "unsupported_by_provider")
    for word in ("returned no ID token at the refresh", "refresh_scope = true", "grantctl login p work", "has expired"):
        has(text, word)
    for _ in range(3):
        fails(scene, "unsupported_by_provider")
    same(len(provider.refreshes()), 1, "the refreshes")


@case("socket.old_at_refresh")
def old_at_refresh(scene):
    """The login's ID token again at each refresh: served while it is valid, and never afterwards."""
    provider = scene.provider()
    provider.id_ttl, provider.at_refresh = 12, "old"
    scene.start("work")
    before = token(scene)["id_token"]
    scene.broker.must("refresh", "work")
    same(token(scene)["id_token"], before, "the ID token after a refresh")
    time.sleep(12.2)
    has(fails(scene, "unsupported_by_provider"), "the login's old ID token")
    count = len(provider.refreshes())
    fails(scene, "unsupported_by_provider")
    same(len(provider.refreshes()), count, "the refreshes")


@case("socket.too_short")
def too_short(scene):
    """A fresh ID token with less than min_ttl: an error with the longest time, and no refresh loop."""
    provider = scene.provider()
    provider.id_ttl = 60
    scene.start("work")
    for _ in range(4):
        text = fails(scene, "unsupported_by_provider", min_ttl=300)
        for word in ("min_ttl is 300 s", "at most 54 s", "`min_ttl` of at most 54"):
            has(text, word)
    same(len(provider.refreshes()), 1, "the refreshes")
    token(scene, min_ttl=20)


@case("socket.verified")
def verified_at_refresh(scene):
    """OpenID Connect Core §12.2: what does not hold is not released."""
    wrong = {"iss": "is from", "aud": "client", "azp": "azp", "iat": "before the previous one (iat)", "future": "future",
             "expired": "expired", "signature": "signature", "unsigned": "signature", "encrypted": "encrypted (JWE)"}
    provider = scene.provider()
    provider.id_ttl = 2
    scene.start()
    for number, (how, word) in enumerate(wrong.items()):
        provider.at_refresh = how
        account = f"work-{number}"
        scene.signed_in(account)
        time.sleep(2.1)
        text = fails(scene, "unsupported_by_provider", account)
        must(word in text.partition("was not taken:")[2], f"{how}: {text}")


@case("socket.other_user")
def other_user(scene):
    """Another `sub` ends the grant."""
    provider = scene.provider()
    provider.id_ttl, provider.at_refresh = 2, "sub"
    scene.start("work")
    time.sleep(2.1)
    has(fails(scene, "login_required"), "grantctl login p work")


@case("socket.without_openid")
def without_openid(scene):
    scene.provider()
    scene.provider("plain", scopes='["api"]', kind="oauth2")
    secret = scene.folder / "secret"
    secret.write_text("s")
    secret.chmod(0o600)
    scene.provider("machine", f'client_secret_file = "{secret}"', scopes='["api"]', kind="oauth2")
    scene.provider("narrow", scopes='["email"]')
    scene.start("work", sections='[account.robot]\nprovider = "machine"\ngrant = "client_credentials"\n')
    scene.signed_in("data", "plain")
    has(fails(scene, "unsupported_by_provider", "data"), 'change `kind` and `issuer`')
    has(fails(scene, "unsupported_by_provider", "robot"), "has no user")
    scene.signed_in("mail", "narrow")
    has(fails(scene, "scope_not_granted", "mail"), "without the scope openid")
    has(fails(scene, "unknown_account", "nobody"), "nobody")
    for params in ({"scopes": ["openid"]}, {"resource": "https://a.example/"}):
        has(fails(scene, None, **params), "kind = id_token")
    has(fails(scene, None, min_ttl=-1), "min_ttl")


@case("socket.encrypted")
def encrypted(scene):
    """A login with an encrypted ID token fails with the setting of the client at the provider."""
    provider = scene.provider()
    provider.at_login = "encrypted"
    scene.start()
    status, text = scene.broker.login("p", "work")
    must(status != 0, "the login succeeded")
    has(text, "id_token_encrypted_response_alg")


@case("socket.outage")
def outage(scene):
    """A provider that does not answer: a valid ID token is released, an expired one is not."""
    provider = scene.provider()
    provider.id_ttl = 12
    scene.start("work")
    scene.issuer.providers["p"] = None
    token(scene)
    # Without a wish, less time than usual is better than an error.
    time.sleep(7)
    token(scene)
    time.sleep(5.2)
    has(fails(scene, "temporarily_unavailable", timeout=10), "work")


@case("socket.reports")
def reports(scene):
    """An ID token that its audience refused: one refresh, and the same one never again for that caller."""
    provider = scene.provider()
    scene.start("work")
    first = token(scene)
    answer = scene.broker.call("token.report_rejected", account="work", generation=first["generation"], kind="id_token")
    must(answer["refreshed"], f"the report: {answer}")
    second = token(scene)
    must(second["id_token"] != first["id_token"] and second["generation"] > first["generation"], "the same ID token")
    provider.at_refresh = "none"
    scene.broker.call("token.report_rejected", account="work", generation=second["generation"], kind="id_token")
    has(fails(scene, "unsupported_by_provider"), "no ID token at the refresh")


@case("socket.expired_often")
def expired_often(scene):
    """Renewing an expired ID token is free, however long the access token lives; a wish for more time is charged."""
    provider = scene.provider()
    provider.id_ttl = 6
    scene.start("work")
    for _ in range(6):
        token(scene)
        time.sleep(5)
    must(len(provider.refreshes()) > 3, f"{len(provider.refreshes())} refreshes")
