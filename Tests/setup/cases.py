"""The cases, each with a new home."""

import os
import re
import shutil
import stat
import time

import chromium
from grantd_testing import Wrong
from grantd_testing.places import ROOT
from person import Skip, visit

CASES = {}
SIGN_IN = r"browser[^\n]*:\n(https?://\S+)\n"
# Of the issue: one command, under two minutes.
LONGEST_SECONDS = 120


def case(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


def same(found, wanted, what):
    if found != wanted:
        raise Wrong(f"{what}: {found!r}, not {wanted!r}")


def shows(shown, *words):
    text = " ".join(shown.text.split()) if hasattr(shown, "text") else " ".join(shown.split())
    for word in words:
        if word not in text:
            raise Wrong(f"“{word}” is not shown: {text[-1200:]}")


def sign_in(shown, visits=visit):
    visits(shown.until(SIGN_IN)[1])


def finish(shown, visits=visit):
    """From the sign-in to the end."""
    sign_in(shown, visits)
    shown.answer(r"Program, or none", "none")
    same(shown.end(), 0, "the exit status")
    shows(shown, "✓ Signed in: as alice@", "✓ Refresh: works", "Get a token: grantctl token ")
    same(shown.too_wide(), [], "lines that are too wide")


def account(person):
    accounts = person.json("list")["accounts"]
    same(len(accounts), 1, "the accounts")
    return accounts[0]


def whole(stage, person, columns):
    began = time.monotonic()
    shown = person.setup(stage.demo.issuer + "/.well-known/openid-configuration", columns=columns)
    finish(shown)
    shows(shown, "grantd --user", "✓ Broker: started", "✓ Client: registered", "✓ Request: 127.0.0.1 accepts",
          f"It runs in the background: `kill {person.json('status')['pid']}` stops it")
    person.token(account(person)["account"])
    same(person.files(), [], "files of the configuration")
    if time.monotonic() - began > LONGEST_SECONDS:
        raise Wrong("it took more than two minutes")


@case
def registration_80(stage, person):
    whole(stage, person, 80)


@case
def registration_40(stage, person):
    whole(stage, person, 40)


@case
def again_changes_nothing(stage, person):
    finish(person.setup(stage.demo.issuer))
    before = account(person)
    shown = person.setup(stage.demo.issuer)
    shown.answer(r"Program, or none", "")
    same(shown.end(), 0, "the exit status")
    shows(shown, ", as before", "✓ Signed in: as alice@demo.example, as before")
    after = account(person)
    same([after[name] for name in ("account", "logged_in_at")], [before[name] for name in ("account", "logged_in_at")],
         "the account")
    same(len(person.json("provider", "list")["providers"]), 1, "the providers")


def by_hand(stage, person, columns, client="hand", secret="s3cret"):
    shown = person.setup(stage.closed.issuer, columns=columns)
    shown.answer("Client ID:", client)
    shown.answer("Client secret", secret)
    return shown


@case
def by_hand_80(stage, person):
    shown = by_hand(stage, person, 80)
    finish(shown)
    shows(shown, "does not register clients", "Redirect URI: http://127.0.0.1:", "✓ Client: added, hand")
    if "s3cret" in shown.text:
        raise Wrong("the secret is shown")
    person.token(account(person)["account"])
    section = person.run("provider", "show", account(person)["provider"], "--toml").stdout
    shows(section, 'client_id = "hand"', "client_secret_file = ")
    if "s3cret" in section:
        raise Wrong("the secret is printed")


@case
def by_hand_40(stage, person):
    finish(by_hand(stage, person, 40))


@case
def wrong_client(stage, person):
    shown = by_hand(stage, person, 80, client="nobody", secret="")
    shown.answer("Sign in anyway", "n")
    same(shown.end(), 78, "the exit status")
    shows(shown, "✗ Request: 127.0.0.1 answers the authorization request with HTTP 400", "client ID nobody",
          "Client ID nobody was not kept")
    if "open this URL" in shown.text:
        raise Wrong("the browser was opened")
    finish(by_hand(stage, person, 80))


@case
def wrong_secret(stage, person):
    shown = by_hand(stage, person, 80, secret="other")
    same(shown.end(), 1, "the exit status")
    shows(shown, "refuses the client ID and secret")
    same(person.json("provider", "list")["providers"], [], "the providers")
    finish(by_hand(stage, person, 80))


@case
def refused_registration(stage, person):
    answer = person.run("setup", stage.refusing.issuer)
    same(answer.returncode, 9, "the exit status")
    shows(answer.stderr, "For the administrator of 127.0.0.1: please register a native OAuth client “grantd” with redirect URI "
          "http://127.0.0.1:", "--client-id ID")
    shown = person.setup(stage.refusing.issuer, columns=40)
    shown.answer("Client ID:", "demo")
    shown.answer("Client secret", "")
    finish(shown)
    shows(shown, "✗ Client: ")


@case
def window_closed(stage, person):
    shown = person.setup(stage.closed.issuer)
    shown.until("Client ID:")
    shown.hang_up()
    shown = by_hand(stage, person, 80)
    shown.until(SIGN_IN)
    shown.hang_up()
    shown = person.setup(stage.closed.issuer)
    finish(shown)
    shows(shown, ", as before")
    person.token(account(person)["account"])


@case
def interrupted(stage, person):
    shown = person.setup(stage.closed.issuer)
    shown.until("Client ID:")
    os.write(shown.master, b"\x03")
    same(shown.end(), 130, "the exit status")
    shows(shown, "The same command continues")
    finish(by_hand(stage, person, 80))


@case
def two_at_once(stage, person):
    both = [person.setup(stage.demo.issuer) for _ in range(2)]
    urls = [shown.until(SIGN_IN)[1] for shown in both]
    for url in urls:
        visit(url)
    for shown in both:
        shown.answer(r"Program, or none", "none")
        same(shown.end(), 0, f"the exit status of {shown.text}")
    same(len(person.json("provider", "list")["providers"]), 1, "the providers")
    person.token(account(person)["account"])


@case
def secrets_of_editors(stage, person):
    file = person.home / "secret"
    for content, status in ((b"\xef\xbb\xbfs3cret\r\n", 0), (b"s3c\nret\n", 64), (b"\n\n", 64)):
        file.write_bytes(content)
        file.chmod(0o600)
        words = ["--name", "other"] if status else []
        shown = person.setup(stage.closed.issuer, "--client-id", "hand", "--client-secret-file", file, *words)
        if status:
            same(shown.end(), status, f"the exit status of {content}")
            shows(shown, "client secret")
        else:
            finish(shown)


@case
def pasted_secret(stage, person):
    shown = person.setup(stage.closed.issuer)
    shown.answer("Client ID:", "hand")
    shown.answer("Client secret", "s3c\nret")
    shown.until("several lines")
    shown.answer("several lines[^$]*Client secret", "\ufeffs3cret")
    finish(shown)


@case
def over_ssh(stage, person):
    shown = person.setup(stage.demo.issuer, SSH_CONNECTION="192.0.2.1 50000 192.0.2.2 2222", USER="ada")
    line = shown.until(r"\n  (ssh -L [^\n]+)\n")[1]
    finish(shown)
    callback = person.json("status")["callback"][0]
    port = re.search(r":(\d+)$", callback)[1]
    same(line, f"ssh -L {port}:127.0.0.1:{port} -p 2222 ada@192.0.2.2", "the line")


@case
def without_terminal(stage, person):
    answer = person.run("setup")
    same(answer.returncode, 64, "the exit status")
    shows(answer.stderr, "without a terminal nothing is asked", "grantctl setup https://ISSUER")
    answer = person.run("setup", "nothing")
    same(answer.returncode, 7, "the exit status")
    shows(answer.stderr, "is not a provider, a template or an issuer URL")
    shows(person.run("setup", "gogle").stderr, "Did you mean `grantctl setup google`?")
    shows(person.run("setup", "uber").stderr, "the section of the template uber is written by hand", "docs/providers.md")
    answer = person.run("setup", "http://login.example.com", "work", "--name", "mine")
    same(answer.returncode, 64, "the exit status of plain http")
    shows(answer.stderr, "http://login.example.com is not https",
          "Use https: `grantctl setup https://login.example.com work --name mine`")
    answer = person.run("setup", stage.closed.issuer, "--client-id", "nobody")
    same(answer.returncode, 78, "the exit status")
    shows(answer.stderr, "refuses the authorization request", "client ID nobody")


@case
def login_leads_here(stage, person):
    same(person.run("setup", "nothing").returncode, 7, "the exit status of an unknown name")
    for word in ("google", stage.demo.issuer):
        answer = person.run("login", word)
        same(answer.returncode, 7, f"the exit status of {word}")
        shows(answer.stderr, f"grantctl setup {word}")
    shown = person.setup(stage.demo.issuer, command="login")
    shown.answer("Set it up now", "")
    finish(shown)
    person.token(account(person)["account"])


@case
def template(stage, person):
    """A file beside the configuration; the server of this one does not exist."""
    shutil.copytree(ROOT / "config" / "providers.d", person.home / ".config" / "grantd" / "providers.d")
    secret = person.home / "secret"
    secret.write_text("keycloak-secret\n")
    secret.chmod(0o600)
    words = ["setup", "keycloak", "--set", "host=127.0.0.1:1", "--set", "realm=r", "--client-id", "mine"]
    answer = person.run(*words[:2], *words[4:])
    same(answer.returncode, 64, "the exit status without a required variable")
    shows(answer.stderr, "--set host=VALUE")
    answer = person.run(*words, "--client-secret-file", secret)
    same(answer.returncode, 78, f"the exit status: {answer.stdout} {answer.stderr}")
    shows(answer.stdout, "✓ Provider: keycloak, written to ")
    shows(answer.stderr, "127.0.0.1")
    folder = person.home / ".config" / "grantd"
    section = (folder / "grantd.d" / "keycloak.toml").read_text()
    shows(section, '[provider.keycloak] profile = "keycloak" client_id = "mine"',
          f'client_secret_file = "{folder}/keycloak.secret"')
    kept = folder / "keycloak.secret"
    same((kept.read_text(), stat.S_IMODE(kept.stat().st_mode)), ("keycloak-secret\n", 0o600), "the secret's file")
    if "keycloak-secret" in section + answer.stdout + answer.stderr:
        raise Wrong("the secret is shown")


@case
def unwritable(stage, person):
    """The section is printed, and nothing is left."""
    shutil.copytree(ROOT / "config" / "providers.d", person.home / ".config" / "grantd" / "providers.d")
    same(person.run("setup", "nothing").returncode, 7, "the exit status of an unknown name, with which the broker starts")
    (person.home / ".config" / "grantd" / "grantd.d").symlink_to("/proc/none")
    answer = person.run("setup", "spotify", "--client-id", "mine")
    same(answer.returncode, 9, f"the exit status: {answer.stdout} {answer.stderr}")
    shows(answer.stdout, '[provider.spotify] profile = "spotify" client_id = "mine"')
    shows(answer.stderr, "cannot be written", "grantctl reload")


@case
def program_configured(stage, person):
    shown = person.setup(stage.demo.issuer, "work", "--tool", "git", "--server", "git.example.com", "--yes")
    sign_in(shown)
    same(shown.end(), 0, "the exit status")
    shows(shown, "✓ Program: git")
    shows((person.home / ".gitconfig").read_text(), 'credential "https://git.example.com"', "--account work")


@case
def glewlwyd(stage, person):
    began = time.monotonic()
    shown = person.setup(stage.glewlwyd().info["issuer"])
    finish(shown, lambda url: stage.signs_in(url))
    person.token(account(person)["account"])
    same(person.files(), [], "files of the configuration")
    if time.monotonic() - began > LONGEST_SECONDS:
        raise Wrong("it took more than two minutes")


@case
def glewlwyd_wrong_client(stage, person):
    shown = person.setup(stage.glewlwyd().info["issuer"], "--client-id", "nobody", columns=40)
    shown.answer("Sign in anyway", "n")
    same(shown.end(), 78, "the exit status")
    shows(shown, "answers the authorization request with HTTP 403", "client ID nobody")


@case
def glewlwyd_error_page(stage, person):
    """What a user sees of a wrong client: an error page in a real browser, and its meaning in the terminal."""
    server = stage.glewlwyd()
    if not chromium.program():
        raise Skip("Chromium is not installed")
    shown = person.setup(server.info["issuer"], "--client-id", "nobody", "--skip-probe")
    url = shown.until(SIGN_IN)[1]
    folder = person.home / "chromium"
    folder.mkdir()
    browser = chromium.Browser(folder)
    try:
        browser.page().call("Page.navigate", url=url)
        text = r"Error page in the browser\? Register\s+(http://127\.0\.0\.1:\d+/callback)\s+for\s+client\s+ID\s+nobody,"
        uri = shown.until(text)[1]
    finally:
        browser.close()
    same(uri, person.json("status")["callback"][0] + "/callback", "the redirect URI")
    os.write(shown.master, b"\x03")
    same(shown.end(), 130, "the exit status")


@case
def replaced_client(stage, person):
    """A client is replaced when the provider has accepted the new one, and not before."""
    person.run("setup", stage.closed.issuer, "--client-id", "nobody", "--skip-probe", "--timeout", "1")
    same([one["client_id"] for one in person.json("provider", "list")["providers"]], ["nobody"], "the client")
    answer = person.run("setup", stage.closed.issuer, "--client-id", "another")
    same(answer.returncode, 78, f"the exit status: {answer.stdout} {answer.stderr}")
    shows(answer.stderr, "keeps client ID nobody: another is refused")
    providers = person.json("provider", "list")["providers"]
    same([one["client_id"] for one in providers], ["nobody"], "the client after a refused one")
    secret = person.home / "secret"
    secret.write_text("s3cret")
    secret.chmod(0o600)
    shown = person.setup(stage.closed.issuer, "--client-id", "hand", "--client-secret-file", secret)
    finish(shown)
    after = person.json("provider", "list")["providers"]
    same([(one["provider"], one["client_id"]) for one in after], [(providers[0]["provider"], "hand")], "the new client")


@case
def missing_secret(stage, person):
    """A confidential client without its secret: it is refused after the sign-in, and the same command asks again."""
    shown = by_hand(stage, person, 80, secret="")
    sign_in(shown)
    if shown.end() == 0:
        raise Wrong("a client without its secret was accepted")
    shows(shown, "Client ID hand was not kept", f"Set up another client: `grantctl setup {stage.closed.issuer} --name ")
    finish(by_hand(stage, person, 80))


@case
def secret_given_later(stage, person):
    person.run("setup", stage.closed.issuer, "--client-id", "hand", "--skip-probe", "--timeout", "1")
    secret = person.home / "secret"
    secret.write_text("s3cret")
    secret.chmod(0o600)
    options = ["--client-id", "hand", "--client-secret-file", secret]
    shown = person.setup(stage.closed.issuer, *options)
    finish(shown)
    section = person.run("provider", "show", account(person)["provider"], "--toml").stdout
    shows(section, "client_secret_file = ")
    answer = person.run("setup", stage.closed.issuer, *options)
    same(answer.returncode, 0, f"the exit status: {answer.stdout} {answer.stderr}")
    shows(answer.stdout, "! Client: hand, as before. --client-secret-file has no effect: accounts use this client",
          "✓ Provider: ", ", as before")
    person.token(account(person)["account"])


@case
def settings_of_the_replaced(stage, person):
    """A client that replaces another has its scopes and its API."""
    # With it the broker starts.
    person.run("setup", "nothing")
    answer = person.run("provider", "register", stage.closed.issuer, "--client-id", "hand", "--name", "demo", "--scope",
                        "openid", "--scope", "email", "--api-base", "https://api.example.com/v1")
    same(answer.returncode, 0, f"the exit status: {answer.stderr}")
    secret = person.home / "secret"
    secret.write_text("s3cret")
    secret.chmod(0o600)
    finish(person.setup(stage.closed.issuer, "--client-id", "hand", "--client-secret-file", secret))
    section = person.run("provider", "show", "demo", "--toml").stdout
    shows(section, 'scopes = ["openid", "email"]', 'api_base = "https://api.example.com/v1"', "client_secret_file = ")


@case
def wrong_client_of_before(stage, person):
    person.run("setup", stage.closed.issuer, "--client-id", "nobody", "--skip-probe", "--timeout", "1")
    answer = person.run("setup", stage.closed.issuer)
    same(answer.returncode, 78, "the exit status without a terminal")
    shows(answer.stderr, "Another client: `grantctl setup", "--client-id ID`")
    same([one["client_id"] for one in person.json("provider", "list")["providers"]], ["nobody"], "the client")
    shown = person.setup(stage.closed.issuer)
    shown.answer("Sign in anyway", "n")
    shown.answer("Remove client ID nobody", "y")
    same(shown.end(), 78, "the exit status")
    shows(shown, "Client ID nobody was not kept")
    finish(by_hand(stage, person, 80))


@case
def interrupted_sign_in(stage, person):
    shown = person.setup(stage.demo.issuer)
    shown.until(SIGN_IN)
    os.write(shown.master, b"\x03")
    same(shown.end(), 130, "the exit status")
    shows(shown, "interrupted: the login is cancelled The same command continues from here.")
    if "Error page" in shown.text:
        raise Wrong("an error page of a client that the provider accepts")
    finish(person.setup(stage.demo.issuer))


@case
def broker_does_not_start(stage, person):
    """The failure is of this start: an older one in the log, or an error that a running broker reports, is not."""
    log = person.home / ".local" / "state" / "grantd" / "grantd.log"
    log.parent.mkdir(parents=True)
    log.write_text("grantd: a failure of last week\n")
    config = person.home / ".config" / "grantd" / "grantd.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[callback]\nprot = 1\n")
    answer = person.run("setup", stage.demo.issuer)
    same(answer.returncode, 6, f"the exit status: {answer.stdout} {answer.stderr}")
    shows(answer.stderr, "the broker was started and does not answer", "grantd.toml:2", "grantd.log")
    if "last week" in answer.stderr:
        raise Wrong("an older failure is shown")
    config.unlink()
    finish(person.setup(stage.demo.issuer))
