"""Health: each fact and each problem of the broker, its machine and its providers."""

import contextlib
import os
import subprocess
import sys

from attacks import OTHER_USER
from grantd_testing import wait_until
from views import WAIT_SECONDS, clean, reload, shown
from world import Skip

# Takes a port as another user, and holds it.
HOLDER = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
with socket.socket() as port:
    port.bind(("127.0.0.1", int(sys.argv[1])))
    port.listen()
    print("taken", flush=True)
    sys.stdin.read()
"""
FILES = ('[[file]]\naccount = "work"\npath = "work/token"\n\n'
         '[[file]]\naccount = "mail"\npath = "/nonexistent/token"\n')


def facts(page):
    return dict(page.evaluate(
        "[...document.querySelectorAll('main dl div')].map(e => [...e.children].map(e => e.textContent))"))


def problems(page):
    return page.evaluate("[...document.querySelectorAll('main .message')].map(e => e.innerText)")


def machine(stage):
    """Token files, the last backup, the age of the key, and the clock, before and after something happens to them."""
    world = stage.world(sections=FILES, accounts=["work", "mail"])
    page = world.open("/health")
    wait_until(lambda: reload(page) and facts(page)["Token files"] == "2, 1 not up to date", WAIT_SECONDS,
               "the token file is written", 0.2)
    before = facts(page)
    assert before["Last backup"] == "none in the audit trail", before
    assert before["Key age"] == "no new key in the audit trail", before
    assert before["Clock"] == "as the providers'", before
    assert before["Callback port"].startswith(f"http://127.0.0.1:{world.port}, "), before
    assert before["Callback port"].endswith(f"of grantd (pid {world.broker.process.pid})"), before
    (file,) = problems(page)
    assert "/nonexistent/token" in file and "No such file" in file and "Make the folder" in file, file
    passphrase = world.folder / "passphrase"
    passphrase.write_text("a passphrase that is long enough")
    passphrase.chmod(0o600)
    for command in (("backup", world.folder / "backup", "--passphrase-file", passphrase), ("key", "rotate")):
        done = world.broker.ctl(*command)
        assert done.returncode == 0, done.stderr
    world.demo.control("fault", endpoint="token.refresh", kind="clock_offset", seconds=600, times=1)
    world.broker.ctl("refresh", "work")
    reload(page)
    after = facts(page)
    assert after["Last backup"] != before["Last backup"] and after["Key age"].endswith(" s"), after
    assert after["Clock"] == "10 min from a provider's", after
    assert any("clock is 10 min behind provider demo" in text and "timedatectl" in text for text in problems(page))
    clean(page)


def callback(stage):
    """Another user's program has the callback port: its uid, and what to do; and once it has ended."""
    if os.geteuid() != 0:
        raise Skip("needs root to be another user")
    with contextlib.ExitStack() as programs:
        def take(world):
            command = [sys.executable, "-c", HOLDER, str(world.port), str(OTHER_USER)]
            world.holder = programs.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            assert world.holder.stdout.readline() == "taken\n"

        world = stage.world(before=take)
        page = world.open("/health")
        (problem,) = problems(page)
        for words in (f"callback port {world.port} is taken on 127.0.0.1 by a program of uid {OTHER_USER}",
                      "tries the port again", "--manual"):
            assert words in problem, (words, problem)
        assert facts(page)["Callback port"] == "not available, see above", facts(page)
        world.holder.communicate("")
        world.broker.ctl("reload")
        reload(page)
        assert shown(page, "Nothing needs your attention") and "not available" not in facts(page)["Callback port"]
    clean(page)


CASES = {"health-machine": machine, "health-callback": callback}
