"""Dynamic client registration (RFC 7591)."""

from browser import browse
from rig import Login, must
from server import Answer
from table import Section, row


def strict(site, *methods):
    """The fake registers clients only with one of these methods, and its metadata list them."""
    fake = site.fake
    fake.extra = {"registration_endpoint": f"{fake.issuer}/register", "token_endpoint_auth_methods_supported": methods}

    def register(request, usual):
        method = request.json.get("token_endpoint_auth_method", "client_secret_basic")
        return usual() if method in methods else Answer.error("invalid_client_metadata", 400, f"no method {method}")
    fake.always("register", register)

    def authenticated(request, usual):
        if "authorization" in request.fields:
            return Answer.error("invalid_client", 401, "no Basic authentication here")
        return usual()
    fake.always("code", authenticated)


# The section's own client is not used: a provider is registered at the same fake.
UNUSED = Section({"kind": "oauth2", "authorization_endpoint": "{issuer}/authorize", "token_endpoint": "{issuer}/token",
                  "client_id": "unused"})


@row("R02", "obot-platform/mcp-oauth-proxy#52", UNUSED, UNUSED, UNUSED)
def registered_method(scene, *sites):
    """the registration takes only the methods none and client_secret_post"""
    for site, methods in zip(sites, (("none", "client_secret_post"), ("none",), ("client_secret_post",))):
        strict(site, *methods)
        name = f"{site.name}-registered"
        made = site.broker.call("provider.register", issuer=site.fake.issuer, provider=name)
        asked = site.fake.of("register")[-1].json.get("token_endpoint_auth_method")
        must(asked in methods, f"the registration asks for {asked}, and not for one of {methods}")
        must(made["client_id"] in site.fake.clients, f"the client is {made}")
        login = Login(site, site.broker.call("login.start", provider=name))
        browse(login.callback())
        login.completed()
