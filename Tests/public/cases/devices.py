"""Logins on another device (RFC 8628): answers without optional members, and polls that go wrong."""

from concurrent.futures import ThreadPoolExecutor

from grantd_testing import wait_until
from answers import HTML, changed, raw_json
from browser import browse
from rig import must, same
from server import CLOSE, RESET, Answer
from table import oidc, row

DEFAULT_INTERVAL = 5
SLOW_DOWN = 5
# A poll may be early by this much; it may be late by any time.
EARLY = 0.3
PENDING = Answer.error("authorization_pending")
LOGIN_SECONDS = 40


def start(site):
    login = site.start(destinations=["device"])
    return login, login.result["destinations"][0]


def gaps(site):
    """The seconds before each poll, from the device answer or the poll before it."""
    times = [site.fake.of("device")[0].at, *(request.at for request in site.fake.of("poll"))]
    return [round(later - earlier, 1) for earlier, later in zip(times, times[1:])]


def polled(site, *answers):
    """A login whose polls get these answers and then the token; the gaps between the polls."""
    site.fake.script("poll", *answers)
    login, _ = start(site)
    login.completed(LOGIN_SECONDS)
    found = gaps(site)
    same(len(found), len(answers) + 1, "the number of polls")
    return found


@row("D01", "UNIkeEN/SJMCL#874, SecureAuthCorp/oauth2c PR 133", oidc(), oidc(), seconds=11)
def no_interval(scene, *sites):
    """the device answer has no `interval`, or names `verification_url`"""
    first, second = sites
    first.fake.always("device", changed("interval"))

    def google(request, usual):
        value = dict(usual().value)
        value["verification_url"] = value.pop("verification_uri")
        del value["interval"]
        return raw_json(value)
    second.fake.always("device", google)

    def attempt(site):
        login, destination = start(site)
        must(destination["verification_uri"].endswith("/activate"), f"the destination is {destination}")
        site.fake.script("poll", PENDING)
        login.completed(LOGIN_SECONDS)
        for gap in gaps(site):
            must(gap >= DEFAULT_INTERVAL - EARLY, f"the gaps between polls are {gaps(site)}")

    with ThreadPoolExecutor() as pool:
        list(pool.map(attempt, sites))


@row("D02", "heygen-com/hyperframes PR 2836", oidc(), seconds=8)
def too_many_requests(scene, site):
    """429 without an OAuth body ends the login"""
    limit = Answer.text("rate limit exceeded", 429, "text/plain", [("Retry-After", "3")])
    found = polled(site, limit, PENDING)
    must(found[1] >= 3 - EARLY, f"the poll after Retry-After: 3 comes too early: {found}")


@row("D03", "KiroCrew PR 10860, hermes-agent PR 114756, BaseIntelligence/bounty-challenge#12788",
     oidc(), oidc(), oidc(), seconds=15)
def broken_polls(scene, *sites):
    """one reset connection or 503 page ends the login"""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda site, answers: polled(site, *answers), sites, (
            (RESET, PENDING), (CLOSE, Answer.text(HTML, 500)), (Answer.text(HTML, 503), PENDING))))


@row("D06", "H2CK/oidc PR 716", oidc(), oidc(), seconds=20)
def slow_down(scene, once, twice):
    """slow_down never ends since the interval does not grow"""
    slower = Answer.error("slow_down")
    with ThreadPoolExecutor() as pool:
        # The longer interval stays, and a second slow_down adds to it.
        stays = pool.submit(polled, once, slower, PENDING)
        grows = pool.submit(polled, twice, slower, slower)
        for found, wanted in ((stays.result(), (1, 1 + SLOW_DOWN, 1 + SLOW_DOWN)),
                              (grows.result(), (1, 1 + SLOW_DOWN, 1 + 2 * SLOW_DOWN))):
            must(all(gap >= least - EARLY for gap, least in zip(found, wanted)), f"the gaps are {found}, not {wanted}")


@row("D07", "a report to this project", oidc(), seconds=6)
def failing_polls(scene, site):
    """a login on another device whose polls meet a 500 ends without a reason"""
    site.fake.always("device", changed(expires_in=5))
    site.fake.always("poll", Answer.text("no database", 500))
    login, _ = start(site)
    wait_until(lambda: site.fake.count("poll"), LOGIN_SECONDS, "a poll")
    shown = wait_until(lambda: login.wait(0).get("warnings"), LOGIN_SECONDS, "a warning of the pending login")
    must("HTTP 500" in shown[0], f"the warning is {shown}")
    error = login.failed(LOGIN_SECONDS)
    same(error.data["reason"], "login_expired", "the reason of the error")
    must("HTTP 500" in str(error), f"the error does not give the provider's answer: {error}")
    must(site.fake.count("poll") >= 2, f"{site.fake.count('poll')} polls")


@row("D08", "a report to this project", oidc())
def missing_parts(scene, site):
    """a login does not report scopes that were not granted, and a missing refresh token"""
    site.fake.script("code", changed("refresh_token", scope="openid a", expires_in=600))
    login = site.start("ada")
    browse(login.callback())
    warnings = login.wait()["warnings"]
    must(len(warnings) == 2 and "not grant b" in warnings[0], f"the warnings are {warnings}")
    must("no refresh token" in warnings[1] and "in 9 min" in warnings[1], f"the warnings are {warnings}")
    whole = site.start("bob")
    browse(whole.callback())
    must("warnings" not in whole.wait(), "a complete login has warnings")
