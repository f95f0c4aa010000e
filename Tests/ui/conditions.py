"""What happens to an open page: a clock that jumps, many requests, a whole day."""

import contextlib
import os
import re
import shutil
import struct
import subprocess
import time

from attacks import OTHER_USER, as_visitor, system
from grantd_testing import BlockingClient, environment, line, message, wait_until
from views import CONFIRM, memory, press, shown, sign_in
from world import ANSWER_SECONDS, HERE, Skip

PAGE_SECONDS = 90
JUMP_SECONDS = 2 * 86400
# The broker looks at the clock every 30 seconds if nothing else happens.
CLOCK_SECONDS = 90
REQUESTS, AT_ONCE = 1000, 50
LARGEST_VIEW = 200_000
ACCOUNTS, OPEN_SECONDS, SETTLE_SECONDS = 10, 10, 5
# A page shows a refresh after 20 seconds, with all that came in this time.
SHOWN_SECONDS, LATER_SECONDS = 20, 30
DAY_SECONDS, CPU_SECONDS = 86400, 1.0
LOADS, GROWN_KIB = 25, 1024


class Clock:
    """The clocks of a world's broker."""

    def __init__(self, world):
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not compiler:
            raise Skip("there is no C compiler")
        self.file, library = world.folder / "shift", world.folder / "clock.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / "clock.c"], check=True)
        self.file.write_bytes(struct.pack("qq", 0, 0))
        world.broker.more = {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(self.file)}
        self.world, self.jumps = world, 0

    def add(self, wall, uptime):
        with self.file.open("r+b") as file:
            before = struct.unpack("qq", file.read())
            file.seek(0)
            file.write(struct.pack("qq", before[0] + wall, before[1] + uptime))

    def jump(self, seconds):
        """The wall clock is set. Returns when the broker knows."""
        self.add(seconds, 0)
        self.jumps += 1
        wait_until(lambda: len(self.world.broker.lines("this machine's clock was set")) == self.jumps, CLOCK_SECONDS,
                   "the broker sees its clock", 0.2)

    def pass_by(self, seconds):
        """Time passes, as while the machine is suspended."""
        self.add(seconds, seconds)


def clock(stage):
    """The clock jumps by two days while pages are open: accounts and approvals stay, and a sign-in ends or says why not."""
    clocks = []
    world = stage.world(sections=CONFIRM, accounts=["work", "bank"], before=lambda world: clocks.append(Clock(world)))
    page, waiting, approvals = world.open(), world.open("/add"), world.open("/approvals")
    waiting.fill("#account-demo", "mail")
    press(waiting, "Sign in")
    waiting.await_heading("Sign in to mail")
    program = subprocess.Popen(
        [world.products / "grantctl", "--socket", world.broker.socket, "token", "bank"], stdout=subprocess.DEVNULL)
    shown(approvals, "Allow once")
    for seconds in (JUMP_SECONDS, -JUMP_SECONDS):
        clocks[0].jump(seconds)
        page.browser.settle(2)
        text = page.text()
        assert "2 accounts" in text and "Sign-in needed" not in text and "This page has ended" not in text, text
        assert "Allow once" in approvals.text(), approvals.text()
        assert waiting.heading() == "Sign in to mail", waiting.text()
        assert world.state("work") == "ok"
        if seconds > 0:
            far(world, page, waiting)
            press(waiting, "Sign in again")
            waiting.await_heading("Sign in to mail")
    sign_in(world, waiting)
    waiting.await_heading("Signed in")
    press(approvals, "Allow once")
    assert program.wait(PAGE_SECONDS) == 0
    assert world.state("mail") == "ok" and not world.socket.call("login.list")["logins"]


def far(world, page, waiting):
    """The ID token of a provider whose clock is two days behind is refused: the page says why, and nothing is half done."""
    second = world.page()
    second.open(waiting.evaluate("document.getElementById('go').href"))
    second.fill("#username", "alice")
    second.press("button[value=allow]")
    for shows in (second, waiting):
        text = shown(shows, "the provider's: set it (timedatectl)")
        assert "Signed in" not in text.split("\n")[0], text
    assert not world.socket.call("login.list")["logins"]
    assert [one["account"] for one in world.socket.call("account.list")["accounts"]] == ["bank", "work"]


def crowd(stage):
    """1,000 requests that need an approval: the view shows those that wait, and the others were refused with a hint."""
    world = stage.world(sections=CONFIRM, accounts=["bank"])
    page = world.open("/approvals")
    with contextlib.ExitStack() as clients:
        for number in range(AT_ONCE):
            client = clients.enter_context(contextlib.closing(BlockingClient(world.broker.socket, ANSWER_SECONDS)))
            for request in range(REQUESTS // AT_ONCE):
                client.socket.sendall(line(message("token.get", {"account": "bank", "timeout": 60}, request)))
        shown(page, "Allow once")
        cookie = "; ".join(f"{one['name']}={one['value']}" for one in page.call("Network.getCookies")["cookies"])
        answer = world.request("/approvals", cookie=cookie)
        waits = answer.text.count("Allow once")
        assert answer.status == 200 and 0 < waits <= 256 and len(answer.text) < LARGEST_VIEW, (waits, len(answer.text))
        print(f"# {REQUESTS} requests: {waits} wait, {len(answer.text)} characters")
        press(page, "Deny")
        page.await_heading("Approvals")
        left = world.request("/approvals", cookie=cookie).text.count("Allow once")
        assert left <= waits, (left, waits)


def over_ssh(stage):
    """Over ssh: the command for the machine with the browser, and the link, which works."""
    world = stage.world(accounts=["work"])
    connection = {"SSH_CONNECTION": "192.0.2.7 50000 192.0.2.9 22", "USER": "ada"}
    done = subprocess.run(
        [world.products / "grantctl", "--socket", world.broker.socket, "ui"], capture_output=True, text=True,
        timeout=ANSWER_SECONDS, env=environment(world.folder, **connection))
    link = re.search(r"http://127\.0\.0\.1:(\d+)/open/\S+", done.stdout + done.stderr)
    assert f"ssh -N -L {link[1]}:127.0.0.1:{link[1]} ada@192.0.2.9" in done.stderr, (done.stdout, done.stderr)
    page = world.page()
    page.open(link[0])
    page.await_heading("Accounts")


def quiet(stage):
    """The views of a user with few rights leave no administrator's action in the audit trail."""
    rule = f'[[rule]]\nuid = {OTHER_USER}\naccounts = ["mail"]\naccess = ["observe"]\n'
    world = system(stage, rule)
    views = ("/", "/add", "/access", "/access?account=mail&uid=0", "/activity", "/approvals", "/health", "/use?account=mail")
    assert all(status == 200 for status, _ in as_visitor(world, *views))
    records = [record for record in world.socket.call("audit.list", uid=OTHER_USER)["records"]]
    assert "policy.rules" not in {record["method"] for record in records}, records
    assert "admin" not in {record["action"] for record in records}, records


def cpu(process):
    """Seconds that the process has used, with its threads that ended (clock_getcpuclockid(3))."""
    return time.clock_gettime(~process << 3 | 2)


def used(process, work):
    before = cpu(process)
    work()
    return cpu(process) - before


def views(world, cookie):
    for _ in range(LOADS):
        world.request("/", cookie=cookie)


def fetched(page):
    return [request for request in page.requests if request["kind"] == "Fetch"]


def lasting(stage):
    """A page that stays open: few requests, no growth, and what a day of it costs the broker, computed from its parts."""
    world = stage.world(accounts=[f"account-{number}" for number in range(ACCOUNTS)])
    pid, seconds = world.broker.process.pid, float(os.environ.get("GRANTD_TEST_OPEN", OPEN_SECONDS))
    time.sleep(SETTLE_SECONDS)
    without = used(pid, lambda: time.sleep(seconds))
    cookie = world.visit()
    load = used(pid, lambda: views(world, cookie)) / LOADS
    # After some of them nothing is loaded for the first time.
    views(world, cookie)
    before = memory(pid)
    for _ in range(5):
        views(world, cookie)
    grown = memory(pid) - before
    assert grown < GROWN_KIB, f"{grown} KiB more after {5 * LOADS} views"
    page = world.open()
    page.until(lambda: any(request["url"].endswith("/live") for request in page.requests), "the page listens for events")
    page.browser.settle(2)
    page.forget()
    open_page = used(pid, lambda: page.browser.settle(seconds))
    assert not page.requests, f"requests without an event: {page.requests}"
    began = time.monotonic()
    for number in range(ACCOUNTS):
        world.broker.ctl("refresh", f"account-{number}")
    page.until(lambda: fetched(page), "the page shows the refreshes")
    page.browser.settle(LATER_SECONDS)
    loads, took = len(fetched(page)), time.monotonic() - began
    assert loads <= 2 + took // SHOWN_SECONDS, f"{loads} loads after {ACCOUNTS} refreshes in {took:.0f} s"
    # Tokens of an hour: each refresh by itself, and so a load of the page.
    day = max(0, open_page - without) / seconds * DAY_SECONDS + 24 * ACCOUNTS * load
    print(f"# an open page, {ACCOUNTS} accounts: {day:.2f} s of CPU a day ({load * 1000:.2f} ms for each load, {grown} KiB, "
          f"{open_page / seconds * 1e6:.0f} µs a second, without a page {without / seconds * 1e6:.0f})")
    if os.environ.get("BUILD") == "release":
        assert day < CPU_SECONDS, f"{day:.2f} s a day"


CASES = {
    "clock": clock, "crowd": crowd, "over-ssh": over_ssh, "quiet": quiet,
    "lasting": lasting,
}
