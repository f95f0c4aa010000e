"""A login as the user sees it in a terminal."""

import re
import signal
import subprocess

from answers import changed
from grantd_testing import wait_until
from home import lacks, must, shows
from server import Answer
from table import case

PENDING = Answer.error("authorization_pending")
CODE = "WDJB-MJHT"
PAGE_SECONDS = 60
QR = re.compile("[█▀▄ ]*[█▀▄]{8}")


def device(home, columns, rows):
    """The screen while a login on another device waits, and the terminal."""
    terminal = home.terminal("login", "demo", "work", "--device", columns=columns, rows=rows)
    terminal.until("Waiting")
    terminal.read_for(2)
    return terminal, terminal.screen


@case("device")
def device_page(home):
    """The URL and the code are the last lines of a small terminal, and the line that waits is one line."""
    fake = home.provider()
    complete = f"{fake.origin}/activate?user_code={CODE}"
    fake.always("device", changed(verification_uri_complete=complete))
    fake.always("poll", PENDING)
    home.start(demo=fake)
    for columns, rows in ((80, 24), (40, 24), (30, 24), (100, 50)):
        terminal, screen = device(home, columns, rows)
        shown = screen.visible(rows)
        # A URL that is longer than a row is whole again.
        text = "".join(shown)
        size = f"{columns}x{rows}"
        must(f"{fake.origin}/activate" in text, f"{size}: the URL is not visible:\n{text}")
        must(CODE in text, f"{size}: the code is not visible:\n{text}")
        must("Waiting" in shown[-1], f"{size}: the last line is {shown[-1]!r}")
        places = [text.rindex(part) for part in (f"{fake.origin}/activate", "enter this code", CODE, "Waiting")]
        must(places == sorted(places), f"{size}: the order is:\n{text}")
        must(len(shown[-1]) < columns, f"{size}: the waiting line fills the row: {shown[-1]!r}")
        must(text.count("Waiting") == 1, f"{size}: the waiting line is there {text.count('Waiting')} times:\n{text}")
        drawn = any(QR.search(line) for line in screen.rows[:-9])
        must(drawn == (rows == 50), f"{size}: a QR code is {'' if drawn else 'not '}drawn:\n" + "\n".join(screen.rows))
        if drawn:
            must(len(screen.rows) <= rows, f"{size}: the page has {len(screen.rows)} rows")
            shows(text, "Scan the URL with the code")
        terminal.type("\x03")
        shows(terminal.end(), "cancelled")
        must(terminal.status == 130, f"{size}: Ctrl-C ends it with {terminal.status}")


@case("interrupt-at-page")
def interrupt_at_page(home):
    """Ctrl-C while the browser opens ends the login at the broker, too."""
    home.start(demo=home.provider())
    page, browser = home.folder / "page", home.folder / "browser"
    second, over = home.folder / "second", home.folder / "over"
    # It fails, but not before the interrupt has had its effect.
    browser.write_text(f'#!/bin/sh\necho "$1" > "{page}"\nwhile ! [ -e "{over}" ]; do sleep 0.05; done\nexit 1\n')
    browser.chmod(0o755)
    other = home.folder / "other"
    other.write_text(f'#!/bin/sh\n: > "{second}"\nsleep 30\n')
    other.chmod(0o755)
    program = subprocess.Popen(
        [home.products / "grantctl", "login", "demo", "work"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, env=home.environment(BROWSER=f"{browser}:{other}"))
    wait_until(page.exists, PAGE_SECONDS, "the page opens")
    program.send_signal(signal.SIGINT)
    try:
        program.wait(PAGE_SECONDS)
    finally:
        over.touch()
    text, _ = program.communicate(timeout=PAGE_SECONDS)
    must(program.returncode == 130, f"it ends with {program.returncode}: {text}")
    shows(text, "the login is cancelled")
    must(home.call("login.list")["logins"] == [], "the login is still pending")
    must(not second.exists(), "another browser is opened after the interrupt")


@case("login-list")
def login_list(home):
    """Options may stand between the two words of a command."""
    home.start(demo=home.provider())
    login = home.call("login.start", provider="demo", account="work")
    for words in (("login", "list"), ("login", "--user", "list"), ("--user", "login", "list"),
                  ("login", "--socket", home.socket, "list"), ("login", f"--socket={home.socket}", "list")):
        shows(home.output(*words), "ID ACCOUNT PROVIDER", "work")
    shows(home.output("login", "--socket", home.socket, "cancel", login["login_id"]), "Cancelled.")
    shows(home.output("provider", "--user", "list"), "demo")


@case("login-unknown")
def login_unknown(home):
    """A login at a name that does not exist asks nothing, and names the next step."""
    home.start()
    shows(home.errors("login", "nosuch", status=7), "no provider and no account is called nosuch",
          "There are no providers yet.", "`grantctl list`", "`grantctl setup`")
    home.configure(demo=home.provider())
    home.output("reload")
    home.sign_in("demo", "work")
    terminal = home.terminal("login", "nosuch")
    text = terminal.end()
    must(terminal.status == 7, f"it ends with {terminal.status}: {text}")
    shows(text, "no provider and no account is called nosuch", "Providers: demo", "`grantctl setup`")
    lacks(text, "?")
    for words, meant in (("dmeo", "grantctl login demo"), ("dmeo mail", "grantctl login demo mail"),
                         ("lst", "grantctl login list"), ("wrok", "grantctl login demo work"),
                         ("gogle", "grantctl setup google")):
        shows(home.errors("login", *words.split(), status=7), f"Did you mean `{meant}`?")
    shows(home.errors("login", "work", status=7), "work is an account at provider demo", "`grantctl login demo work`")
