"""What the page writes: a tool's files, and the provider of a template, by `grantctl` as the broker's own user."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse

from attacks import OTHER_USER, system
from conditions import Clock
from grantd_testing import wait_until
from grantd_testing.places import ROOT
from views import WAIT_SECONDS, clean, press, shown
from world import ANSWER_SECONDS, Skip

# The first argument is the socket, the second one the way: the process enters a namespace after it has connected, or it
# ends and leaves the connection to its child.
LEAVING = """
import ctypes, os, socket, sys
CLONE_NEWNS = 0x20000
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
if sys.argv[2] == "enters":
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS): sys.exit("unshare: " + os.strerror(ctypes.get_errno()))
else:
    parent = os.getpid()
    if os.fork(): os._exit(0)
    while os.getppid() == parent: pass
connection.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ui.open"}\\n')
print(connection.makefile().readline(), flush=True)
"""
OLD = "[user]\n\tname = Ada\n"
GIT = "/use?account=work&tool=git&server=git.example.com"
DOCKER = "/use?account=work&tool=docker&server=registry.example.com"
SECRET = "s3cret-of-the-client"
# Longer than the page waits for a program.
PATIENCE_SECONDS = 60
# Beside grantd instead of grantctl, which it runs, except to write files while a file says that it hangs.
HANGING = """#!/bin/sh
case " $* " in *" --write "*) if [ -e {folder}/hangs ]; then
  echo $$ > {folder}/begun
  while :; do echo; sleep 0.1; done
fi ;; esac
exec {grantctl} "$@"
"""


def configuration(page):
    return page.evaluate("document.getElementById('configuration').innerText")


def files(world):
    """The tool's files in the broker's home, by name."""
    names = (".gitconfig", ".gitconfig.grantd-backup", ".docker/config.json", ".docker/config.json.grantd-backup",
             ".config/grantd/helper.toml")
    return {name: (world.folder / name).read_text() for name in names if (world.folder / name).exists()}


def write(stage):
    """Use in …: the exact diff; Write does what `grantctl configure --write` does, and Undo brings the file back."""
    world = stage.world(accounts=["work"])
    config = world.folder / ".gitconfig"
    config.write_text(OLD)
    page = world.open(GIT)
    diff = page.evaluate("document.querySelector('pre.diff').textContent")
    assert files(world) == {".gitconfig": OLD}
    clean(page)
    press(page, "Write")
    page.await_heading("Use work in git")
    assert "The files are written" in configuration(page), page.text()
    new = config.read_text()
    added = [line[1:] for line in diff.splitlines()[2:] if line.startswith("+")]
    assert new == OLD + "".join(f"{line}\n" for line in added), (diff, new)
    assert files(world) == {".gitconfig": new, ".gitconfig.grantd-backup": OLD}
    printed = world.broker.ctl("configure", "git", "work", "git.example.com").stdout
    assert printed in new, (printed, new)
    page.open(world.origin + GIT)
    assert "Write" not in page.evaluate("[...document.querySelectorAll('#configuration button')].map(e => e.textContent)")
    press(page, "Undo")
    assert "The configuration is removed" in shown(page, "is removed")
    assert config.read_text() == OLD
    clean(page)


def changed(stage):
    """A file that changed after the page was loaded is not written until its user has seen the changes."""
    world = stage.world(accounts=["work"])
    page = world.open(GIT)
    (world.folder / ".gitconfig").write_text(OLD)
    other = world.open(GIT)
    press(other, "Write")
    shown(other, "The files are written")
    before = files(world)
    press(page, "Write")
    assert "nothing was written" in shown(page, "have changed since")
    assert files(world) == before


def refused(stage):
    """A file that cannot be written: why, the command as the next step, and no other file is changed."""
    world = stage.world(accounts=["work"])
    old = json.dumps({"credHelpers": {"other.example.com": "pass"}})
    (world.folder / ".docker").mkdir()
    (world.folder / ".docker/config.json").write_text(old)
    page = world.open(DOCKER)
    assert "pass" not in configuration(page), "the diff shows another entry"
    with (world.folder / ".config").open("w"):
        press(page, "Write")
        text = shown(page, "cannot be written")
    assert "grantctl configure docker work registry.example.com --write" in text, text
    assert files(world) == {".docker/config.json": old}
    clean(page)


def beside_grantd(world):
    """Another program as the broker's own `grantctl`."""
    folder, products = world.folder / "products", world.products
    folder.mkdir()
    try:
        os.link(products / "grantd", folder / "grantd")
    except OSError:
        shutil.copy2(products / "grantd", folder / "grantd")
    program = folder / "grantctl"
    program.write_text(HANGING.format(folder=folder, grantctl=products / "grantctl"))
    program.chmod(0o755)
    world.broker.products = folder
    return program


def hangs(stage):
    """A program that does not end is stopped: the page says that files may have changed, and shows them; and one that does
    not start has changed none."""
    parts = []
    world = stage.world(accounts=["work"], before=lambda world: parts.extend([Clock(world), beside_grantd(world)]))
    (clock, program), page = parts, world.open(GIT)
    begun = program.parent / "begun"
    (program.parent / "hangs").touch()
    page.evaluate("void setTimeout(() => [...document.querySelectorAll('button')].find("
                  "e => e.textContent === 'Write').click(), 50)")
    wait_until(lambda: page.browser.settle(0.1) or begun.exists() and begun.read_text(), WAIT_SECONDS, "the program hangs")
    clock.pass_by(PATIENCE_SECONDS)
    text = shown(page, "did not end within")
    assert "files may have changed" in text and "grantctl configure git work git.example.com --diff" in text, text
    assert not os.path.exists(f"/proc/{int(begun.read_text())}"), "the program still runs"
    (program.parent / "hangs").unlink()
    press(page, "Look at the files")
    assert "git.example.com" in page.evaluate("document.querySelector('pre.diff').textContent")
    program.chmod(0o644)
    press(page, "Write")
    text = shown(page, "could not be started")
    assert "nothing was changed" in text and "did not end" not in text, text
    assert files(world) == {}
    clean(page)


def conflict(stage):
    """A file that contradicts it: the page says so, and offers no button that would fail."""
    world = stage.world(accounts=["work"])
    (world.folder / ".docker").mkdir()
    (world.folder / ".docker/config.json").write_text('{"credHelpers": {"registry.example.com": "ecr-login"}}')
    page = world.open(DOCKER)
    assert "ecr-login" in configuration(page) and "by hand" not in page.heading()
    assert "Write" not in page.evaluate("[...document.querySelectorAll('#configuration button')].map(e => e.textContent)")


def forged(stage):
    """The form of Write without its token, from another page, and with text that is no name: nothing is written."""
    world = stage.world(accounts=["work"])
    cookie = world.visit()
    token = world.form_token(cookie)
    seen = re.search(r'name="seen" value="([^"]+)"', world.request(GIT, cookie=cookie).text)[1]
    fields = {"account": "work", "tool": "git", "server": "git.example.com", "change": "write", "seen": seen}

    def post(origin=world.origin, **more):
        return world.request("/use", urllib.parse.urlencode(fields | more), cookie=cookie, Origin=origin).status

    assert post() == 403 and post("http://127.0.0.1:1", form_token=token) == 403
    for more in ({"account": "--write"}, {"server": "git.example.com\n[core]"}, {"tool": "sh"}, {"change": "x"}, {"seen": "x"}):
        assert post(form_token=token, **more) in (200, 400, 409), more
        assert files(world) == {}, more
    assert post(form_token=token) == 200 and ".gitconfig" in files(world)


def of_system(stage):
    """The system's broker writes into no home: it shows the command."""
    world = system(stage, f'[[rule]]\nuid = {OTHER_USER}\naccounts = ["mail"]\naccess = ["observe"]\n')
    page = world.open("/use?account=mail&tool=git&server=git.example.com")
    assert "grantctl configure git mail git.example.com --write" in configuration(page)
    assert not page.evaluate("document.querySelectorAll('#configuration button').length")
    page.open(world.origin + "/add?template=google")
    assert "grantctl setup google" in page.text() and not page.evaluate("Boolean(document.querySelector('#client'))")
    cookie = world.visit()
    token = world.form_token(cookie)
    forms = {"/use": {"account": "mail", "tool": "git", "server": "git.example.com", "change": "write", "seen": "x"},
             "/add": {"template": "spotify", "client_id": "x"}}
    for path, fields in forms.items():
        body = urllib.parse.urlencode(fields | {"form_token": token})
        assert world.request(path, body, cookie=cookie, Origin=world.origin).status == 403, path
    assert files(world) == {}


def in_sandbox(stage):
    """A program in a mount namespace of its own opens the page: it has the commands, and nothing is written outside."""
    world = stage.world(accounts=["work"])
    kinds = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-current-user", "--mount"]
    opens = ["unshare", *kinds, world.products / "grantctl", "--socket", world.broker.socket, "ui", "--no-browser"]
    writes_nothing(world, opens)


def from_sandbox(stage):
    """The files that count are those of the process that connected, as it is when it asks for the page."""
    world = stage.world(accounts=["work"])
    writes_nothing(world, [sys.executable, "-c", LEAVING, world.broker.socket, "enters"])


def of_ended(stage):
    """The process that connected has ended, and another one asks: the pid says nothing of its files."""
    world = stage.world(accounts=["work"])
    writes_nothing(world, [sys.executable, "-c", LEAVING, world.broker.socket, "ends"])


def writes_nothing(world, opens):
    done = subprocess.run(opens, capture_output=True, text=True, timeout=ANSWER_SECONDS)
    if "unshare" in done.stderr:
        raise Skip("this machine makes no namespaces")
    link = re.search(r"(http://127\.0\.0\.1:\d+)(/open/[^\s\"]+)", done.stdout)
    world.origin = link[1]
    cookie = world.request(link[2]).headers["Set-Cookie"].split(";")[0]
    for path, command in ((GIT, "configure git work git.example.com"), ("/add?template=google", "setup google")):
        text = world.request(path, cookie=cookie).text
        assert f"grantctl {command}" in text and ">Write<" not in text and 'id="client"' not in text, text[-900:]
    token = world.form_token(cookie)
    forms = {"/use": {"account": "work", "tool": "git", "server": "git.example.com", "change": "write", "seen": "x"},
             "/add": {"template": "spotify", "client_id": "x"}}
    for path, fields in forms.items():
        body = urllib.parse.urlencode(fields | {"form_token": token})
        assert world.request(path, body, cookie=cookie, Origin=world.origin).status == 403, path
    assert files(world) == {} and not world.broker.config.with_suffix(".d").exists()


def with_templates(world):
    world.broker.options = (*world.broker.options, "--templates", ROOT / "config" / "providers.d")


def template(stage):
    """A template with a client by clicks: the provider's file, its secret, the checks; and what is missing."""
    world = stage.world(before=with_templates)
    page = world.open("/add?template=gitlab")
    page.fill("#set-host", "127.0.0.1:1")
    page.fill("#client", "s6BhdRkqt3")
    page.fill("#secret", SECRET)
    press(page, "Continue")
    page.await_heading("Sign in at gitlab")
    assert "Failed" in page.text(), page.text()
    written = world.broker.config.with_suffix(".d") / "gitlab.toml"
    text = written.read_text()
    assert 'profile = "gitlab"' in text and 'host = "127.0.0.1:1"' in text and SECRET not in text, text
    secret = world.broker.config.parent / "gitlab.secret"
    assert secret.read_text().strip() == SECRET and os.stat(secret).st_mode & 0o77 == 0
    assert SECRET not in page.markup() and SECRET not in world.broker.log.read_text()
    page.open(world.origin + "/add")
    assert "gitlab" in page.text()
    clean(page)
    cookie = world.visit()
    token = world.form_token(cookie)
    for fields in ({"template": "google", "client_id": "x"}, {"template": "keycloak", "client_id": "x"}):
        body = urllib.parse.urlencode(fields | {"form_token": token})
        answer = world.request("/add", body, cookie=cookie, Origin=world.origin)
        assert answer.status == 400 and "is empty" in answer.text, answer.text[:900]
    assert [one["provider"] for one in world.socket.call("provider.list")["providers"]] == ["demo", "gitlab"]
    with contextlib.suppress(FileNotFoundError):
        assert not (written.parent / "google.toml").exists()


CASES = {
    "write": write, "write-changed": changed, "write-refused": refused, "write-hangs": hangs, "write-conflict": conflict,
    "write-forged": forged, "write-system": of_system, "write-sandbox": in_sandbox, "write-from-sandbox": from_sandbox,
    "write-of-ended": of_ended,
    "template": template,
}
