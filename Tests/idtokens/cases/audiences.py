"""Tokens for an audience: by a parameter, by RFC 8707, and by a token exchange."""

from issuer import CLIENT, verified
from scene import case, has, must, same

API, OTHER = "https://api.example.com", "https://other.example.com"


def token(scene, **params):
    return scene.broker.call("token.get", account="work", **params)


def audience_of(provider, answer):
    return provider.access_tokens[answer["access_token"]][0]


@case("audience.login")
def login(scene):
    """The audience of the configuration and of a login, which is the account's own."""
    provider = scene.provider("p", 'audience_parameter = "audience"', f'audience = "{API}"')
    scene.start("work")
    same(audience_of(provider, token(scene)), API, "the audience of the login's token")
    same(token(scene, audience=API)["access_token"], token(scene)["access_token"], "the token for the same audience")
    scene.signed_in("other", "p", "--audience", OTHER)
    same(audience_of(provider, scene.broker.call("token.get", account="other")), OTHER, "the audience of --audience")
    # After a restart it is known which audience the account has.
    scene.broker.end(15)
    scene.broker.start()
    same(token(scene, audience=API)["access_token"], token(scene)["access_token"], "the token after a restart")
    same(len(provider.refreshes()), 0, "the refreshes")


@case("audience.rotation")
def rotation(scene):
    """A rotating refresh token is not narrowed for an audience unless an administrator vouches for the server."""
    provider = scene.provider("p", 'audience_parameter = "audience"', f'audience = "{API}"')
    scene.start("work")
    text = scene.broker.fails("scope_not_granted", "token.get", account="work", audience=OTHER)
    has(text, "rotates refresh tokens")
    has(text, "--audience")
    same(len(provider.refreshes()), 0, "the refreshes")


@case("audience.verified")
def by_parameter(scene):
    """Each audience is a separate token under one grant, kept and renewed on its own."""
    provider = scene.provider("p", 'audience_parameter = "audience"', f'audience = "{API}"', 'narrow_tokens = "verified"')
    provider.refused = ("https://refused.example.com",)
    scene.start("work")
    first = token(scene, audience=OTHER)
    same(audience_of(provider, first), OTHER, "the audience")
    same(provider.refreshes()[-1]["audience"], OTHER, "the parameter of the refresh")
    same(audience_of(provider, token(scene)), API, "the audience of the account's own token")
    same(token(scene, audience=OTHER)["access_token"], first["access_token"], "the same token again")
    scene.broker.end(15)
    scene.broker.start()
    same(token(scene, audience=OTHER)["access_token"], first["access_token"], "the token after a restart")
    same(len(provider.refreshes()), 1, "the refreshes")
    text = scene.broker.fails("scope_not_granted", "token.get", account="work", audience="https://refused.example.com")
    has(text, "this audience is not registered")
    must(token(scene)["access_token"], "the grant ended")
    has(scene.broker.fails(None, "token.get", account="work", audience="a b"), "params.audience")
    has(scene.broker.must("show", "work"), OTHER)


@case("audience.resource")
def by_resource(scene):
    """RFC 8707: the audience is sent as `resource`."""
    provider = scene.provider("p", 'audience_parameter = "resource"', f'audience = "{API}"', 'narrow_tokens = "verified"')
    scene.start("work")
    same(audience_of(provider, token(scene)), API, "the audience of the login's token")
    same(audience_of(provider, token(scene, audience=OTHER)), OTHER, "the audience")
    same(provider.refreshes()[-1].get("resource"), OTHER, "the parameter of the refresh")
    has(scene.broker.fails(None, "token.get", account="work", audience="api"), "absolute URI")


@case("audience.exchange")
def by_exchange(scene):
    """RFC 8693: an access token and an ID token for other audiences; the refresh token is not presented."""
    provider = scene.provider()
    provider.exchanges, provider.refused = True, ("refused",)
    scene.start("work", sections='[[cloud]]\nkind = "gcp"\naccount = "work"\n')
    same(audience_of(provider, token(scene, audience="backend")), "backend", "the audience")
    identity = token(scene, audience="https://run.example.com", kind="id_token")
    claims = verified(identity["id_token"], provider.issuer, "https://run.example.com")
    same(claims["azp"], CLIENT, "azp")
    same(token(scene, audience="https://run.example.com", kind="id_token")["id_token"], identity["id_token"], "the second")
    same(token(scene, audience=CLIENT, kind="id_token")["id_token"], token(scene, kind="id_token")["id_token"], "the own")
    same((len(provider.refreshes()), len(provider.exchanged())), (0, 2), "refreshes and exchanges")
    status, _, body = scene.broker.http(
        "GET", "/computeMetadata/v1/instance/service-accounts/default/identity?audience=https://run.example.com",
        headers={"Metadata-Flavor": "Google"})
    same((status, body), (200, identity["id_token"]), "the metadata server")
    has(scene.broker.fails("scope_not_granted", "token.get", account="work", audience="refused"), "not registered")
    for kind in ("aud", "iss", "signature", "expired"):
        provider.at_refresh = kind
        text = scene.broker.fails("scope_not_granted", "token.get", account="work", audience=f"x-{kind}", kind="id_token")
        has(text, "ID token")
    must(token(scene)["access_token"], "the grant ended")


@case("audience.declared")
def declared(scene):
    """An account without a user, by client credentials."""
    secret = scene.folder / "secret"
    secret.write_text("s")
    secret.chmod(0o600)
    provider = scene.provider("p", 'audience_parameter = "audience"', f'client_secret_file = "{secret}"', scopes='["api"]',
                              kind="oauth2")
    scene.start(sections=f'[account.work]\nprovider = "p"\ngrant = "client_credentials"\naudience = "{API}"\n')
    same(audience_of(provider, token(scene)), API, "the audience")
    same(audience_of(provider, token(scene, audience=OTHER)), OTHER, "another audience")
    same(audience_of(provider, token(scene)), API, "the audience of the account's own token")


@case("audience.unsupported")
def unsupported(scene):
    scene.provider()
    scene.start("work")
    text = scene.broker.fails("unsupported_by_provider", "token.get", account="work", audience=API)
    has(text, "audience_parameter")
    text = scene.broker.fails("unsupported_by_provider", "token.get", account="work", audience=API, kind="id_token")
    has(text, "no ID token for the audience")
    status, text = scene.broker.login("p", "other", "--audience", API)
    must(status != 0, "the login succeeded")
    has(text, "audience_parameter")
