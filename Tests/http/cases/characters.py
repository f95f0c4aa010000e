"""Which characters of untrusted texts are shown: in the log, terminals, the page, hooks and errors of JSON-RPC."""

import contextlib
import fcntl
import html
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
import urllib.parse

import people
from cases.questions import ASKING, START_SECONDS, Deviations
from grantd_testing import BlockingClient, Program, temporary_folder, wait_until
from questions import CHARACTERS, HIDDEN
from rig import case, must
from wire import ask

# Characters in one text: the shortest limit is that of a program in a line of the audit trail.
IN_A_TEXT = 7
COLUMNS = 4000


def marked(kind, numbers):
    return "".join(f"[{kind}{number:02}{CHARACTERS[number][0]}]" for number in numbers)


def shown(text, kind, number):
    """How a text shows the character that was marked with this number."""
    found = set(re.findall(rf"\[{kind}{number:02}([^\[\]]*)\]", text))
    if any(character in HIDDEN for one in found for character in one):
        return "raw"
    return "missing" if not found else "shown" if found == {CHARACTERS[number][0]} else "replaced"


class Shower:
    """A system broker whose texts the case reads at every entry point."""

    def __init__(self, scene, broker, folder):
        self.scene, self.broker, self.folder, self.cookie = scene, broker, folder, None
        self.lines = folder / "lines"

    @staticmethod
    def sections(folder):
        """What a hook gets: its line, and its environment."""
        hook = folder / "hook"
        hook.write_text(f'#!/bin/sh\ncat >>{folder}/lines\nenv >>{folder}/environment\n')
        hook.chmod(0o755)
        return (f'[[on_event]]\ncommand = ["{hook}"]\n[[rule]]\nuid = {ASKING}\naccounts = ["*"]\naccess = ["use"]\n'
                'confirm = true\nconfirm_timeout = "5s"\n')

    def log(self):
        return self.broker.log.read_bytes().decode()

    def terminal(self, *words):
        """The output of grantctl in a terminal that is wide enough for all lines."""
        main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
        command = [self.broker.products / "grantctl", "--socket", self.broker.socket, *words]
        process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, start_new_session=True,
                                   env=self.broker.environment | {"TERM": "xterm", "LC_ALL": "C.UTF-8"})
        os.close(other)
        data = b""
        with contextlib.suppress(OSError), open(main, "rb", buffering=0) as output:
            while piece := output.read(1 << 16):
                data += piece
        process.wait()
        return data.decode()

    def page(self, path):
        if not self.cookie:
            link = urllib.parse.urlsplit(self.broker.must("ui", "--no-browser").strip())
            self.port = link.port
            self.cookie = ask(self.port, "GET", link.path).get("set-cookie").split(";")[0]
        answer = ask(self.port, "GET", path, fields=[("Cookie", self.cookie)])
        must(answer.status == 200, f"{path}: {answer.status} {answer.body[:500]}")
        return html.unescape(answer.body.decode())

    def call(self, method, **params):
        """A line of the socket: JSON escapes are those of the text."""
        client = BlockingClient(self.broker.socket)
        with contextlib.closing(client):
            client.send(method, **params)
            return texts(json.loads(client.line()))

    def hooked(self, name):
        return (self.folder / name).read_bytes().decode() if (self.folder / name).exists() else ""


def texts(value):
    """All texts of JSON."""
    if isinstance(value, dict):
        value = list(value.values())
    return " ".join(map(texts, value)) if isinstance(value, list) else str(value)


def of_provider(scene, shower, numbers):
    """The description of an error, at each entry point."""
    account = shower.broker.imported("p", f"told-{numbers[0]}")
    scene.provider.descriptions[account] = marked("e", numbers)
    scene.provider.faults[account] = "invalid_grant"
    try:
        shower.broker.lost(account)
    finally:
        del scene.provider.faults[account]
    first = f"[e{numbers[0]:02}"
    wait_until(lambda: first in shower.hooked("environment"), START_SECONDS, "the hook was run")
    return {
        "log": shower.log(), "grantctl show": shower.terminal("show", account),
        "grantctl show --json": shower.terminal("show", "--json", account), "grantctl token": shower.terminal("token", account),
        "page": shower.page("/"), "hook": shower.hooked("lines"),
        "hook's environment": shower.hooked("environment"),
        "JSON-RPC error": shower.call("token.get", account=account), "JSON-RPC": shower.call("account.get", account=account)}


def of_program(scene, shower, numbers):
    """The path of a program that waits for approval, at each entry point."""
    program = shower.folder / marked("p", [number for number in numbers if CHARACTERS[number][0] != "\0"])
    os.link(shower.folder / "grantctl", program)
    command = [*people.as_user(ASKING), program, "--socket", shower.broker.socket, "token", "work"]
    process = Program(command, shower.folder / "program.log")
    first = f"[p{numbers[0] + 1:02}"
    try:
        waiting = wait_until(lambda: shower.broker.json("approve").get("waiting"), START_SECONDS, "the program waits")
        found = {"grantctl approve": shower.terminal("approve"), "page of approvals": shower.page("/approvals")}
        shower.broker.must("approve", str(waiting[0]["id"]), "--deny")
    finally:
        process.wait()
    wait_until(lambda: first in shower.hooked("environment") and first in shower.log(), START_SECONDS,
               "the hook was run, and the log has the refusal")
    return found | {
        "log": shower.log(), "grantctl audit": shower.terminal("audit"), "page of activity": shower.page("/activity"),
        "grantctl audit --json": shower.terminal("audit", "--json"),
        "hook": shower.hooked("lines"), "hook's environment": shower.hooked("environment")}


@case("questions.characters", "setpriv")
def characters(scene):
    """Which characters of untrusted texts are shown: of a provider's error, and of a program's path."""
    deviations = Deviations()
    with temporary_folder("grantd-shown-") as folder:
        folder.chmod(0o755)
        shutil.copy(scene.programs / "grantctl", folder / "grantctl")
        with scene.another(scene.plain() + Shower.sections(folder), "system") as broker:
            broker.imported("p", "work")
            shower = Shower(scene, broker, folder)
            for kind, source in {"e": of_provider, "p": of_program}.items():
                for start in range(0, len(CHARACTERS), IN_A_TEXT):
                    numbers = range(start, min(start + IN_A_TEXT, len(CHARACTERS)))
                    for entry, text in source(scene, shower, numbers).items():
                        check_characters(deviations, f"{source.__name__}, {entry}", text, kind, numbers)
    deviations.end()


def check_characters(deviations, entry, text, kind, numbers):
    for number in numbers:
        character, is_shown = CHARACTERS[number]
        # No path can have it.
        if not (kind == "p" and character == "\0"):
            deviations.check(entry, ascii(character), shown(text, kind, number), "shown" if is_shown else "replaced")
