"""Access tokens whose lifetime the provider does not state, or states once."""

import time

from answers import changed
from rig import must, same
from table import oidc, row

TOLERANCE = 30
HOUR = 3600


def near(found, wanted, what):
    must(found is not None and abs(found - wanted) <= TOLERANCE, f"{what} is {found}, not about {wanted}")


@row("T05", "NangoHQ/nango#6775, PR 1780, airbytehq/airbyte#54198", oidc({"jwt": True}), oidc(), oidc({"jwt": True}))
def no_lifetime(scene, jwt, opaque, ended):
    """without expires_in a token is never refreshed"""
    now = time.time()
    for site in (jwt, opaque, ended):
        site.fake.always("code", changed("expires_in"))
        site.fake.always("refresh", changed("expires_in"))
    jwt.fake.lifetime = 1200
    found = jwt.sign_in()
    near(found.get("expires_at"), now + 1200, "the end of a JWT")
    must(found.get("next_refresh_at", now + 9999) < now + 1200, f"the next refresh of a JWT: {found}")
    found = opaque.sign_in()
    must(found.get("next_refresh_at"), f"an opaque token is never refreshed: {found}")
    must(found["next_refresh_at"] <= now + HOUR + TOLERANCE, f"the next refresh is later than in an hour: {found}")
    for command in (("status",), ("doctor", opaque.name)):
        shown = scene.ctl(*command).stdout
        must("access_token_lifetime" in shown, f"grantctl {command[0]} does not name access_token_lifetime")
    ended.fake.lifetime = -10
    ended.sign_in()
    first = list(ended.fake.tokens)
    ended.fake.lifetime = HOUR
    must(ended.token() not in first, "a JWT that has ended is returned")


@row("T14", "onyx-dot-app/onyx PR 11735, dimagi/commcare-connect PR 1344", oidc({"lifetime": 1200}))
def lifetime_once(scene, site):
    """a refresh's answer without expires_in causes a refresh at each call, or none again"""
    site.sign_in()
    site.fake.always("refresh", changed("expires_in"))
    site.refreshed()
    now = time.time()
    for _ in range(20):
        site.token()
    same(site.fake.count("refresh"), 1, "the number of refreshes")
    found = site.account()
    near(found.get("expires_at"), now + 1200, "the end of the token")
    must(now < found.get("next_refresh_at", 0) < now + 1200, f"the next refresh: {found}")
