"""Metadata and keys (OpenID Connect Discovery, RFC 8414, RFC 7517) at unusual URLs and with unusual content."""

import json
import re

from answers import moved
from browser import browse
from keys import base64url, key
from provider import WELL_KNOWN, Provider
from rig import described, must, same
from server import Answer
from table import Section, oidc, row

UNKNOWN_KEYS = [
    {"kty": "AKP", "alg": "ML-DSA-44", "kid": "pq", "pub": "AAAA"},
    {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": base64url(b"\1" * 32)},
    {"kty": "OKP", "crv": "X25519", "kid": "x", "use": "enc", "x": base64url(b"\2" * 32)},
    {"kty": "RSA", "kid": "broken", "n": "!!", "e": "AQAB"},
    {"kty": "RSA", "kid": "k0", "e": "AQAB"},
    {"kty": "EC", "crv": "P-999", "kid": "ec", "x": "AA", "y": "AA"},
    {"kid": "no type"}, None, "a string", [], 7]


@row("M01", "Timshel/vaultwarden#58, H2CK/oidc#482, nextcloud-mcp-server PR 744, directus/directus#23872",
     oidc(), oidc(), oidc(), oidc())
def redirected_metadata(scene, nextcloud, long, elsewhere, secret):
    """the well-known URL redirects"""
    nextcloud.fake.always(f"/index.php{WELL_KNOWN}", lambda request, usual: nextcloud.fake.answer_metadata(request))
    nextcloud.fake.always("metadata", moved(f"/index.php{WELL_KNOWN}"))
    nextcloud.fake.always("jwks", moved(f"{nextcloud.fake.origin}/index.php/jwks"))
    nextcloud.fake.always("/index.php/jwks", lambda request, usual: nextcloud.fake.answer_jwks(request))
    nextcloud.sign_in()
    # At most three redirects.
    for number in range(1, 5):
        long.fake.always(f"/{number}", moved(f"/{number + 1}"))
    long.fake.always("metadata", moved("/1"))
    error = long.broker.refused("login.start", provider=long.name)
    must("redirect" in described(error).lower(), f"the error does not name the redirect: {described(error)}")
    same(long.fake.count("/4"), 0, "the number of requests after the third redirect")
    # Not to another origin.
    other = scene.keep(Provider())
    elsewhere.fake.always("metadata", moved(f"{other.origin}{WELL_KNOWN}"))
    elsewhere.broker.refused("login.start", provider=elsewhere.name)
    same(len(other.requests), 0, "the number of requests to another origin")
    # Never with a secret: the code is not sent to a second URL.
    secret.fake.always("code", moved("/token2", 307))
    login = secret.start()
    browse(login.callback())
    login.failed()
    same(secret.fake.count("/token2"), 0, "the number of codes that followed a redirect")


def azure(scene):
    """The issuer is TENANT/v2.0/, and the metadata are at TENANT/POLICY/v2.0/ (Azure AD B2C)."""
    site = scene.sites[0]
    site.keys["issuer"] = site.fake.issuer = f"{site.fake.origin}/tenant/v2.0/"
    site.keys["discovery_url"] = f"{site.fake.origin}/tenant/policy/v2.0{WELL_KNOWN}"
    return ""


def metadata(site):
    """The metadata of an issuer with a path and a trailing slash; the endpoints are directly below the origin."""
    def answer(request, _):
        found = site.fake.answer_metadata(request).value
        ends = {name: value.replace(site.fake.issuer, site.fake.origin) for name, value in found.items()
                if isinstance(value, str) and name != "issuer"}
        return Answer.json(found | ends)
    return answer


@row("M02", "ory/kratos#4536, panva/openid-client#718, coreos/go-oidc#121, quarkusio/quarkus#13265",
     oidc(), own=azure)
def other_issuer(scene, site):
    """the issuer of the metadata is not the URL that they are at"""
    site.fake.always(f"/tenant/policy/v2.0{WELL_KNOWN}", metadata(site))
    site.sign_in()
    # Without the key: the hint leads to it.
    del site.keys["discovery_url"]
    site.keys["issuer"] = f"{site.fake.origin}/tenant/policy/v2.0"
    scene.broker.configure("", scene.sites)
    scene.broker.call("broker.reload")
    error = site.broker.refused("login.start", provider=site.name)
    must("discovery_url" in described(error), f"the error does not name discovery_url: {described(error)}")


@row("M03", "Freika/dawarich#2925, PrintStash PR 71, daggerhart/openid-connect-generic#633", oidc(), own=lambda scene: "")
def trailing_slash(scene, site):
    """the issuer has a trailing slash, and the configuration has none"""
    right = site.fake.issuer + "/"
    site.fake.always("metadata", lambda request, usual: Answer.json(usual().value | {"issuer": right}))
    error = site.broker.refused("login.start", provider=site.name)
    must(right in described(error), f"the error does not give the issuer: {described(error)}")
    site.keys["issuer"] = site.fake.issuer = right
    site.fake.always("metadata", metadata(site))
    scene.broker.configure("", scene.sites)
    scene.broker.call("broker.reload")
    site.sign_in()


@row("M04", "vapor/jwt-kit#246, PrefectHQ/fastmcp#4515, coreos/go-oidc#499", oidc())
def unknown_keys(scene, site):
    """one unknown key in the JWKS makes all unusable"""
    good = key("one").jwk("k1")
    site.fake.always("jwks", Answer.json({"keys": [*UNKNOWN_KEYS, key("two").jwk(5), good, *UNKNOWN_KEYS]}))
    site.sign_in()


@row("M08", "DataZooDE/quack-oauth PR 15, thorstenboettger/oidcproxydotnet#242", oidc())
def same_kid(scene, site):
    """keys are replaced under the same kid, and logins fail until a restart"""
    site.sign_in()
    fetched = site.fake.count("jwks")
    site.fake.seed = "two"
    site.sign_in("m08-second")
    same(site.fake.count("jwks"), fetched + 1, "the number of fetches of the keys")
    # A signature that no published key made: refused, without more than one fetch in a minute.
    site.fake.always("jwks", Answer.json({"keys": [key("two").jwk("k1")]}))
    site.fake.seed = "one"
    for number in range(3):
        login = site.start(f"m08-forged-{number}")
        browse(login.callback())
        login.failed()
    must(site.fake.count("jwks") <= fetched + 2, f"the keys were fetched {site.fake.count('jwks') - fetched} times")


PLAIN = Section({"profile": "oauth2", "issuer": "{issuer}", "client_id": "grantd-test", "scopes": ["a"]})
GENERIC = Section({"profile": "oidc", "issuer": "{issuer}", "client_id": "grantd-test"})


@row("M09", "a report to this project", PLAIN, PLAIN, oidc(), oidc(), oidc(), own=lambda scene: "")
def followed_hints(scene, openid, endpoints, oauth, redirected, elsewhere):
    """the hint for missing metadata does not lead to a provider that works"""
    for site in (endpoints, oauth):
        site.fake.always("metadata", Answer.text("no such path", 404))
    oauth.fake.always("oauth-metadata", lambda request, usual: oauth.fake.answer_metadata(request))
    redirected.fake.always("metadata", moved(f"{redirected.fake.origin}/1"))
    for number in range(1, 5):
        redirected.fake.always(f"/{number}", moved(f"/{number + 1}"))
    redirected.fake.always("/5", lambda request, usual: redirected.fake.answer_metadata(request))
    other = elsewhere.fake.origin + "/tenant/"
    elsewhere.fake.always("metadata", lambda request, usual: Answer.json(
        elsewhere.fake.answer_metadata(request).value | {"issuer": other}))
    issuer = endpoints.fake.issuer
    fixes = {
        openid: ('`discovery = "openid"`', {"discovery": "openid"}),
        endpoints: ("`authorization_endpoint` and `token_endpoint`", {
            "authorization_endpoint": f"{issuer}/authorize", "token_endpoint": f"{issuer}/token"}),
        oauth: ('`discovery = "oauth"`', {"discovery": "oauth"}),
        redirected: ("discovery_url", {"discovery_url": f"{redirected.fake.origin}/5"}),
    }
    for site, (words, keys) in fixes.items():
        error = site.broker.refused("login.start", provider=site.name)
        text = f"{error} {error.data['hint']}"
        must(words in text, f"the error does not lead to {words}: {text}")
        must(f"[provider.{site.name}]" in text, f"the error names another section: {text}")
        site.keys |= keys
    # The hint of doctor has both keys: at its own well-known URL that issuer has no metadata.
    checks = json.loads(scene.ctl("doctor", elsewhere.name, "--json").stdout)["checks"]
    hint = next(check["hint"] for check in checks if check["name"] == "issuer")
    written = dict(re.findall(r'(issuer|discovery_url) = "([^"]+)"', hint))
    same(sorted(written), ["discovery_url", "issuer"], "the keys of the hint")
    elsewhere.keys |= written
    elsewhere.fake.issuer = other
    ends = {f"{name}_endpoint": f"{elsewhere.fake.origin}/{path}" for name, path in
            {"authorization": "authorize", "token": "token"}.items()}
    elsewhere.fake.always("metadata", lambda request, usual: Answer.json(
        elsewhere.fake.answer_metadata(request).value | ends | {"jwks_uri": f"{elsewhere.fake.origin}/jwks"}))
    scene.broker.configure("", scene.sites)
    scene.broker.call("broker.reload")
    for site in (*fixes, elsewhere):
        site.sign_in()


@row("M10", "a report to this project", GENERIC, GENERIC, GENERIC, GENERIC)
def optional_scope(scene, listed, unlisted, silent, prompts):
    """offline_access and prompt=consent are sent to providers that do not list them"""
    unlisted.fake.extra = {"scopes_supported": ["openid"]}
    silent.fake.extra = {"scopes_supported": None}
    prompts.fake.extra = {"prompt_values_supported": ["none", "login"]}
    for site, scope, prompt in ((listed, True, "consent"), (unlisted, False, None), (silent, False, None),
                                (prompts, True, None)):
        browse(site.start().callback())
        asked = site.fake.of("authorize")[-1].query
        same("offline_access" in asked["scope"].split(), scope, f"whether {site.name} is asked for offline_access")
        same(asked.get("prompt"), prompt, f"the prompt at {site.name}")
