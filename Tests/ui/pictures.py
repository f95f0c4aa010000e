"""How every view looks: a tour of all views, and images."""

import base64

from views import CONFIRM, asks, kill, press, sign_in, shown
from world import Skip

NARROW = 360
LARGEST = 60_000
SLOW_SECONDS = 60
RULES = ('[[rule]]\nname = "backup"\nuid = 990\nunit = "backup.service"\naccounts = ["w*"]\naccess = ["use"]\n\n'
         '[[rule]]\nname = "reports"\nuid = 1200\naccounts = ["work", "mail"]\naccess = ["use", "observe"]\n'
         'scopes = ["openid"]\n\n')


def emulate(page, scheme, width=1200, height=800):
    page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
    page.call("Emulation.setEmulatedMedia", features=[
        {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}])


def usual_socket(world):
    """Where a user's broker listens: the tools' configurations do not name it."""
    (world.folder / "grantd").mkdir(mode=0o700)
    world.broker.socket = world.folder / "grantd" / "grantd.sock"


def world(stage):
    """Accounts with and without a problem, approvals, and some activity."""
    scene = stage.world(sections=RULES + CONFIRM, accounts=["bank", "mail", "work"], before=usual_socket)
    scene.sign_in("calendar", user="bob")
    for account, times in (("mail", 9), ("work", 4), ("calendar", 2)):
        for _ in range(times):
            scene.broker.token(account)
    kill(scene, "work")
    return scene


class Tour:
    """Every view of one world, one after the other."""

    def __init__(self, stage):
        self.stage, self.scene = stage, world(stage)
        self.page = self.scene.open()

    def views(self):
        page, origin, scene = self.page, self.scene.origin, self.scene
        yield "accounts"
        for name, path in (("add", "/add"), ("template", "/add?template=google"), ("provider", "/add?provider=demo"),
                           ("access", "/access?account=work&uid=990&unit=backup.service"),
                           ("activity", "/activity?span=hour"), ("health", "/health"),
                           ("use", "/use?account=mail&tool=git&server=git.example.com"), ("sign-out", "/logout?account=mail"),
                           ("not-found", "/nothing")):
            page.open(origin + path)
            yield name
        programs = [asks(scene) for _ in range(2)]
        page.open(origin + "/approvals")
        shown(page, "2 requests wait")
        press(page, "Allow for 10 minutes")
        programs += [asks(scene, "--scope", "openid", "--scope", "nothing-like-it")]
        shown(page, "Active approvals")
        yield "approvals"
        for program in programs:
            program.kill()
            program.communicate()
        page.open(origin + "/")
        press(page, "Sign in again", "article")
        page.await_heading("Sign in to work")
        yield "sign-in"
        second = sign_in(scene, page)
        page.await_heading("Signed in")
        yield "signed-in"
        self.page = second
        yield "callback-signed-in"
        self.page = page
        page.open(origin + "/")
        press(page, "Sign in again", "article")
        page.await_heading("Sign in to bank")
        press(page, "Use another device")
        page.await_heading("Sign in to bank")
        yield "device"
        page.open(origin + "/logout?account=calendar")
        press(page, "Sign out")
        page.await_heading("Signed out of calendar")
        yield "signed-out"
        other = self.stage.demo(scene, "other", registration=True)
        other.control("fault", endpoint="jwks", kind="delay", seconds=SLOW_SECONDS, times=1)
        page.open(origin + "/add")
        page.fill("#issuer", other.issuer)
        press(page, "Continue")
        shown(page, "Running")
        yield "adding"
        other.control("release")


def pictures(stage):
    """Images of every view: light, dark, and 360 pixels wide."""
    if not stage.pictures:
        raise Skip("only with --pictures")
    stage.pictures.mkdir(parents=True, exist_ok=True)
    tour = Tour(stage)
    for name in tour.views():
        for suffix, scheme, width, height in (("", "light", 1200, 800), ("-dark", "dark", 1200, 800),
                                              ("-360", "light", NARROW, 760)):
            emulate(tour.page, scheme, width, height)
            tour.page.browser.settle(0.1)
            for quality in (80, 60, 40):
                data = base64.b64decode(
                    tour.page.call("Page.captureScreenshot", format="webp", quality=quality)["data"])
                if len(data) <= LARGEST:
                    break
            assert len(data) <= LARGEST, f"{name}{suffix} has {len(data)} bytes"
            (stage.pictures / f"{name}{suffix}.webp").write_bytes(data)
        emulate(tour.page, "light")


CASES = {"pictures": pictures}
