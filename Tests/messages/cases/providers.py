"""Providers that are mistyped, hang, or need an account's attention."""

import socket
import threading
import time

from grantd_testing import free_ports
from home import lacks, must, shows
from server import Answer
from table import case

# In which a line comes on the screen with all of the program's start, at best of two.
LINE_SECONDS = 2.5
HANG_SECONDS = 100


@case("mistyped-issuer")
def mistyped_issuer(home):
    """An unknown host, a refused connection, a 404 and a pasted discovery URL: each with the fix."""
    fake = home.provider()
    fake.always("metadata", Answer.text("not found", 404))
    fake.always("oauth-metadata", Answer.text("not found", 404))
    pasted, port = f"{fake.issuer}/.well-known/openid-configuration", free_ports()[0]

    def section(issuer):
        return f'issuer = "{issuer}"\nclient_id = "grantd-test"'
    home.start(unknown=section("https://login.exmaple.invalid"), refused=section(f"http://127.0.0.1:{port}"),
               gone=section(fake.issuer), pasted=section(pasted))
    wanted = {
        "unknown": ("https://login.exmaple.invalid", ["Correct login.exmaple.invalid", "getent hosts"]),
        "refused": (f"http://127.0.0.1:{port}", [f"Nothing listens at port {port} of 127.0.0.1: correct the URL"]),
        "gone": (fake.issuer, ["(HTTP 404)", "orrect "]),
        "pasted": (pasted, ["(HTTP 404)", "before `/.well-known/`"]),
    }
    for name, (issuer, parts) in wanted.items():
        # In the login's error, in the report of doctor, and when a client is registered there.
        done = home.ctl("login", name, "work", "--no-browser")
        must(done.returncode not in (0, 64), f"login {name} ends with {done.returncode}")
        shows(done.stderr, f"provider {name}: ", *parts)
        shows(done.stderr, f"[provider.{name}]")
        shows(home.output("doctor", name, status=1), *parts[-1:])
        done = home.ctl("provider", "register", issuer, "--name", "new")
        must(done.returncode not in (0, 64), f"the registration of {name} ends with {done.returncode}")
        shows(done.stderr, *parts)
        lacks(done.stderr, "[provider.new]")
    shows(home.ctl("login", "pasted", "work", "--no-browser").stderr, f'Set `issuer = "{fake.issuer}"` in [provider.pasted]')
    shows(home.ctl("provider", "register", pasted, "--name", "new").stderr, f"`grantctl provider register {fake.issuer}`")


@case("slow-provider")
def slow_provider(home):
    """While a provider hangs, login and doctor show within a second whom they ask."""
    fake, going = home.provider(), threading.Event()

    def hang(request, usual):
        going.wait(HANG_SECONDS)
        return usual()
    fake.always("metadata", hang)
    home.start(demo=fake)
    host = fake.issuer.removeprefix("http://")
    for words in (["login", "demo", "work", "--no-browser"], ["doctor", "demo"]):
        times = []
        for columns in (80, 40):
            began = time.monotonic()
            terminal = home.terminal(*words, columns=columns)
            terminal.until(f"Asking {host}")
            times.append(time.monotonic() - began)
            terminal.until(r"… ([3-9]|\d\d) s")
            screen = terminal.screen
            must(screen.wraps == 0, f"{words[0]}: the line wraps: {screen.rows}")
            must(sum("Asking" in row for row in screen.rows) == 1, f"{words[0]}: {screen.rows}")
            terminal.close_by("\x03")
        must(min(times) < LINE_SECONDS, f"{words[0]}: the line comes after {times} s")
    going.set()
    terminal = home.terminal("doctor", "demo")
    lacks("\n".join(terminal.finished().rows), "Asking")


@case("no-needless-advice")
def needless_advice(home):
    """Metadata without refresh_token are no warning for accounts that refresh."""
    fake = home.provider(extra={"grant_types_supported": ["authorization_code"]})
    home.start(demo=fake)
    home.sign_in("demo", "work")
    shows(home.output("doctor", "demo", status=0), "warn", "grant types", "refresh_token")
    for _ in range(3):
        home.call("account.refresh", account="work", now=True)
        time.sleep(0.1)
    # A check serves for some seconds.
    time.sleep(5.5)
    text = home.output("doctor", "demo", status=0)
    shows(text, "ok grant types: authorization_code; refreshes succeed although the metadata do not name refresh_token")
    lacks(text, "warn grant types")


@case("changed-port")
def changed_port(home):
    """A registered client whose port another program has is reported, with the port."""
    fake = home.provider()
    fake.extra["registration_endpoint"] = f"{fake.issuer}/register"
    home.start("")
    home.output("provider", "register", fake.issuer, "--name", "made")
    shows(home.output("doctor", "made", status=0), "ok redirect URI")
    home.stop()
    before, port = home.port, free_ports()[0]
    home.configure(port=port)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", before))
        other.listen()
        home.start()
        shows(home.output("doctor", "made", status=1), "FAIL redirect URI",
              f"port {before} of http://127.0.0.1:{before}/callback is not the broker's: another program has it",
              f"ss -ltnp 'sport = :{before}'")
        home.stop()
    home.start()
    shows(home.output("doctor", "made", status=0), "ok redirect URI", f"http://127.0.0.1:{before}/callback is answered")


@case("kept-redirect-uri")
def kept_redirect_uri(home):
    """A registered provider keeps its redirect URI when the callback port changes, and its sign-in ends there."""
    fake = home.provider()
    fake.extra["registration_endpoint"] = f"{fake.issuer}/register"
    home.start("")
    home.ctl("provider", "register", fake.issuer, "--name", "made", status=0)
    before, port = home.port, free_ports()[0]
    home.stop()
    home.configure(port=port)
    home.start()
    registered = f"http://127.0.0.1:{before}/callback"
    for _ in range(2):
        login = home.call("login.start", provider="made", account="work")
        uris = {one["redirect_uri"] for one in login["destinations"]}
        must(uris == {registered}, f"the redirect URIs are {uris}, not {registered}")
        shows(home.output("provider", "show", "made"), registered)
        home.call("login.cancel", login_id=login["login_id"])
        home.stop()
        home.start()
    home.sign_in("made", "work")
    must(home.output("token", "work").strip(), "no token")


@case("error-page")
def error_page(home):
    """After 20 seconds the terminal says what an error page in the browser means, and at Ctrl-C."""
    fake = home.provider()
    home.start(demo=f'issuer = "{fake.issuer}"\nclient_id = "nobody"\nscopes = ["openid"]', good=fake)
    fake.always("poll", Answer.error("authorization_pending"))
    uri = f"http://127.0.0.1:{home.port}/callback"
    text = f"Error page in the browser? Register {uri} for client ID nobody, or check the client ID."
    for columns in (80, 40):
        began = time.monotonic()
        terminal = home.terminal("login", "demo", "work", "--no-browser", columns=columns)
        terminal.until(r"http://\S+/")
        terminal.until(r"Error\s+page[^.]*")
        must(time.monotonic() - began > 15, "it is said at once")
        terminal.until(r"check\s+the\s+client\s+ID\.")
        terminal.read_for(1)
        said = terminal.text[terminal.text.index("Error page"):].replace("\r", "").split("\n")
        must(all(len(line) <= columns for line in said if not line.startswith("http")), f"{columns}: too long: {said}")
        shows("\n".join(said), text)
        terminal.type("\x03")
        shows(terminal.end().split("interrupted")[1], text)
        must(terminal.status == 130, f"Ctrl-C ends it with {terminal.status}")
    # Not on another device, whose page has no redirect URI.
    terminal = home.terminal("login", "good", "work", "--device")
    terminal.until("Waiting")
    terminal.type("\x03")
    lacks(terminal.end(), "Error page")
