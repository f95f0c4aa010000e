"""grantctl accepts each command on the pages: it is run where there is no broker, and may fail for every other reason."""

import getpass
import re
import shlex
import subprocess

from pages_of_tree import FENCED, commands

SECONDS = 20
# sysexits(3): the arguments are wrong.
USAGE = 64
BEGIN = re.compile(r"""(?:^|[\s;|&(!'"`])grantctl (?=[a-z-])""")
END = re.compile(r"[;|&()<>]+")
INLINE = re.compile(r"`(?:sudo )?grantctl ([a-z-][^`]*)`")
# In prose, a command may leave out arguments.
OMITTED = re.compile(r"…|\[|\||\bNAME$")
MISSING = re.compile(r"Missing (?:expected argument|value)")
VALUES = {"SECONDS": "10", "NUMBER": "10", "PORT": "10", "URL": "https://example.com/", "ISSUER": "https://example.com/"}
FILE = re.compile(r"@([\w-]+\.\w+)")
# Users of other machines.
USERS = ("--uid", "--browser-uid")


def words(text):
    """The arguments of the command that begins the text."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found = []
    try:
        for word in lexer:
            if END.fullmatch(word):
                break
            found.append(word)
    except ValueError:  # a quote of the surrounding command
        return text.split("'")[0].split('"')[0].split()
    return found


def commands_of(page):
    """Its commands, and whether they are in prose."""
    for line in commands(page):
        for found in BEGIN.finditer(line):
            yield words(line[found.end():]), False
    for found in INLINE.finditer(FENCED.sub("", page.read_text())):
        text = " ".join(found[1].split())
        if not OMITTED.search(text):
            yield words(text), True


class Grantctl:
    """grantctl where there is no broker, no file and no other program."""

    def __init__(self, programs, folder):
        self.program, self.folder, self.known = programs / "grantctl", folder, {}
        folder.mkdir()
        self.environment = {
            "HOME": str(folder), "PATH": str(folder), "XDG_RUNTIME_DIR": str(folder), "GRANTD_SOCKET": str(folder / "none")}

    def isolated(self, arguments):
        """Without the broker of this machine, and with its users."""
        made = [VALUES.get(word, word) for word in arguments if word not in ("--system", "--user")]
        for place, word in enumerate(made):
            if found := FILE.fullmatch(word):
                (self.folder / found[1]).touch()
            if place and made[place - 1] in USERS and not word.isdigit():
                made[place] = getpass.getuser()
        return tuple(made)

    def complaint(self, arguments, is_in_prose=False):
        """The reason why it does not parse them, or none."""
        key = self.isolated(arguments)
        if is_in_prose and not any(word.startswith("-") for word in key):
            key = (*(word for word in key if word.islower()), "--help")
        if key not in self.known:
            # In a session of its own it cannot ask on the terminal.
            self.known[key] = subprocess.run(
                [self.program, *key], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
                cwd=self.folder, env=self.environment, start_new_session=True)
        done = self.known[key]
        said = " ".join(done.stderr.split())
        if done.returncode != USAGE or "Usage: " not in said or is_in_prose and MISSING.search(said):
            return None
        return said.partition(" Usage: ")[0]


def wrong_commands(programs, folder, pages, name_of):
    """The number of commands, and a line for each that grantctl does not parse."""
    grantctl = Grantctl(programs, folder / "commands")
    count, wrong = 0, []
    for made_up in (["token", "work", "--no-such-option"], ["nosuchcommand"], ["token"]):
        if not grantctl.complaint(made_up):
            wrong.append(f"this check does not find grantctl {shlex.join(made_up)}")
    for page in pages:
        for arguments, is_in_prose in commands_of(page):
            count += 1
            if said := grantctl.complaint(arguments, is_in_prose):
                wrong.append(f"{name_of(page)}: grantctl {shlex.join(arguments)}: {said}")
    return count, wrong
