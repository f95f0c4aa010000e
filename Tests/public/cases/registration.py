"""Dynamic client registration (RFC 7591)."""

import re

from grantd_testing import wait_until
from browser import browse
from rig import Login, must, same
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


WAIT_SECONDS = 20
# The broker tries the client's authentication with a refresh token that no server issued.
MADE_UP = "the refresh token is unknown"
# The section's own client is not used: a provider is registered at the same fake.
UNUSED = Section({"kind": "oauth2", "authorization_endpoint": "{issuer}/authorize", "token_endpoint": "{issuer}/token",
                  "client_id": "unused"})


@row("R02", "obot-platform/mcp-oauth-proxy#52", UNUSED, UNUSED, UNUSED)
def registered_method(scene, *sites):
    """the registration takes only the methods none and client_secret_post"""
    for site, methods in zip(sites, (("none", "client_secret_post"), ("none",), ("client_secret_post",))):
        strict(site, *methods)
        site.expected.append(MADE_UP)
        name = f"{site.name}-registered"
        made = site.broker.call("provider.register", issuer=site.fake.issuer, provider=name)
        asked = site.fake.of("register")[-1].json.get("token_endpoint_auth_method")
        must(asked in methods, f"the registration asks for {asked}, and not for one of {methods}")
        must(made["client_id"] in site.fake.clients, f"the client is {made}")
        login = Login(site, site.broker.call("login.start", provider=name))
        browse(login.callback())
        login.completed()


@row("R03", "obot-platform/mcp-oauth-proxy#52", UNUSED)
def other_authentication(scene, site):
    """the registered way to present the client's secret is refused with invalid_client"""
    fake = site.fake
    fake.extra = {"registration_endpoint": f"{fake.issuer}/register",
                  "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"]}

    def in_the_header(request, usual):
        return usual() if "authorization" in request.fields else Answer.error("invalid_client", 401, "no secret in the body")
    for name in ("code", "refresh"):
        fake.always(name, in_the_header)
    site.expected.append(MADE_UP)
    provider = f"{site.name}-registered"
    site.broker.call("provider.register", issuer=fake.issuer, provider=provider)
    probes = fake.of("refresh")
    same([("authorization" in probe.fields) for probe in probes], [False, True], "the tried methods")
    must(all("code" not in probe.form for probe in probes), "a probe carries a code")
    login = Login(site, site.broker.call("login.start", provider=provider))
    browse(login.callback())
    login.completed()


@row("R04", "a report to this project", UNUSED, own=lambda scene: "")
def followed_hint(scene, site):
    """a hint for a registered provider names a section that does not exist"""
    fake, broker, name = site.fake, site.broker, f"{site.name}.registered"
    fake.extra = {"registration_endpoint": f"{fake.issuer}/register", "token_endpoint_auth_methods_supported": ["none"]}
    fake.always("/api/me", Answer.json({"name": "ada"}))
    made = broker.call("provider.register", issuer=fake.issuer, provider=name)
    login = Login(site, broker.call("login.start", provider=name))
    browse(login.callback())
    account = login.completed()["account"]
    error = broker.refused("request.send", account=account, method="GET", url="/me")
    section = re.search(r'a new section (\[provider\."[^"]+"\]) with kind = ("\w+"), '
                        r'issuer = ("[^"]+") and client_id = ("[^"]+")',
                        error.data["hint"])
    must(section, f"the hint gives no section: {error.data['hint']}")
    must(made["client_id"] in section[4], f"the hint has another client: {section[4]}")
    broker.configure("\n".join([
        section[1], f"kind = {section[2]}", f"issuer = {section[3]}", f"client_id = {section[4]}",
        f'api_base = "{fake.origin}/api"', 'scopes = ["openid"]', ""]), scene.sites)
    broker.call("broker.reload")
    same(broker.call("request.send", account=account, method="GET", url="/me")["status"], 200, "the status of the request")


@row("R05", "a report to this project", UNUSED)
def registered_base(scene, site):
    """a registered provider has no address for requests, and no resource"""
    fake, name = site.fake, f"{site.name}-registered"
    fake.extra = {"registration_endpoint": f"{fake.issuer}/register", "token_endpoint_auth_methods_supported": ["none"]}
    fake.always("/api/me", Answer.json({"name": "ada"}))
    done = scene.ctl("provider", "register", fake.issuer, "--name", name, "--api-base", f"{fake.origin}/api",
                     "--resource", "https://api.example/", "--auth-method", "none", "--scope", "openid")
    must(done.returncode == 0, f"the registration fails: {done.stderr}")
    login = Login(site, site.broker.call("login.start", provider=name))
    browse(login.callback())
    account = login.completed()["account"]
    same(fake.of("authorize")[-1].query.get("resource"), "https://api.example/", "the requested resource")
    same(site.broker.call("request.send", account=account, method="GET", url="/me")["status"], 200, "the status")


@row("R06", "a report to this project", UNUSED)
def later_change(scene, site):
    """a registered client whose server takes its secret in another way later is refused until it is registered again"""
    fake, provider = site.fake, f"{site.name}-registered"
    fake.extra = {"registration_endpoint": f"{fake.issuer}/register",
                  "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"]}
    site.expected.append(MADE_UP)
    site.broker.call("provider.register", issuer=fake.issuer, provider=provider)

    def sign_in(account):
        login = Login(site, site.broker.call("login.start", provider=provider, account=account, login_hint=account))
        browse(login.callback())
        return login

    def only(in_header):
        def judged(request, usual):
            right = ("authorization" in request.fields) == in_header
            return usual() if right else Answer.error("invalid_client", 401, "the secret is elsewhere")
        for name in ("code", "refresh"):
            fake.always(name, judged)

    def made_up():
        return [request for request in fake.of("refresh") if request.form["refresh_token"] not in known]

    sign_in("r06").completed()
    # A refresh: the account goes on without a sign-in.
    only(in_header=True)
    known = set(fake.grants)
    site.refresh("r06")
    wait_until(lambda: site.refresh("r06") is True, WAIT_SECONDS, "a refresh by the other way")
    known |= set(fake.grants)
    same(site.account("r06")["state"], "ok", "the state")
    must(all("code" not in probe.form for probe in made_up()), "a probe carries a code")
    # A login: its code is spent, and the next one works.
    only(in_header=False)
    error = sign_in("r06-other").failed()
    must("start again" in error.data["hint"] and "another way" in error.data["hint"], f"the hint is {error.data}")
    codes = [request.form["code"] for request in fake.of("code")]
    sign_in("r06-other").completed()
    same(len(codes), len(set(codes)), "each code is sent once")
    # Without any way that works there is no storm of probes.
    for name in ("code", "refresh"):
        fake.always(name, Answer.error("invalid_client", 401))
    before = fake.count("refresh")
    for _ in range(3):
        site.refresh("r06")
    must(fake.count("refresh") - before <= 3 + 3, f"{fake.count('refresh') - before} requests")
