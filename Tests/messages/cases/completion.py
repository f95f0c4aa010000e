"""Completions in the real shells: commands, options, and names that the broker has."""

import pathlib
import shutil
import subprocess
import time

from home import must
from table import case

# An answer is to come within the time of a key press; a debug build on a busy machine gets more.
MOST_SECONDS, TRIES = 0.5, 3
WAIT_SECONDS = 30
# In which the shell shows nothing more.
QUIET_SECONDS = 0.6
LINES = (
    # The command line, some of its candidates, and some that are none.
    ("grantctl sta", ["status"], ["token"]),
    ("grantctl token ", ["work", "home"], ["demo", "status"]),
    ("grantctl --user token w", ["work"], ["home"]),
    ("grantctl login ", ["demo", "list", "cancel"], ["work"]),
    ("grantctl login demo --sc", ["--scope"], ["--system"]),
    ("grantctl provider ", ["list", "show", "register"], ["demo"]),
    ("grantctl provider show ", ["demo"], ["work"]),
    ("grantctl status --state log", ["login_required"], ["ok"]),
    ("grantctl configure ", ["git", "docker"], ["work"]),
    ("grantctl configure git ", ["work"], ["docker"]),
    ("grantctl sasl work x", ["xoauth2"], ["oauthbearer"]),
    ("grantctl events --event login", ["login.required"], ["store.failed"]),
    ("grantctl call token.", ["token.get"], ["account.get"]),
)


FOLDER = pathlib.Path(__file__).parents[3] / "docs" / "completion"


def script(shell):
    """The one that `make install` puts in place."""
    return FOLDER / ("_grantctl" if shell == "zsh" else f"grantctl.{shell}")


def judge(line, found, wanted, unwanted):
    for name in wanted:
        must(name in found, f"{line!r} offers {found}, not {name}")
    for name in unwanted:
        must(name not in found, f"{line!r} offers {name}: {found}")


def run(home, *arguments):
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, env=home.environment(),
                          stdin=subprocess.DEVNULL)
    must(done.returncode == 0 and not done.stderr, f"{arguments[0]}: {done.stderr}")
    return done.stdout.splitlines()


def timed(times, *arguments):
    """Some measurements, until one is good."""
    while True:
        began = time.monotonic()
        found = run(*arguments)
        times.append(time.monotonic() - began)
        if times[-1] < MOST_SECONDS * 4 or len(times) == TRIES:
            return found


def prepared(home):
    home.start(demo=home.provider())
    for name in ("work", "home"):
        home.sign_in("demo", name)


@case("completion-bash")
def bash(home):
    """bash completes commands, options and names."""
    prepared(home)
    path = script("bash")
    for line, wanted, unwanted in LINES:
        words = line.split(" ")
        times = []
        found = timed(times, home, "bash", "--norc", "-c", """
            . "$1"; shift
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
            _grantctl grantctl "${COMP_WORDS[COMP_CWORD]}"
            printf '%s\\n' "${COMPREPLY[@]}" """, "bash", path, *words)
        must(min(times) < MOST_SECONDS * 4, f"{line!r} takes {times} s")
        judge(line, found, wanted, unwanted)
    # The parameters of a method are those of its example.
    found = run(home, "bash", "--norc", "-c", """
        . "$1"; COMP_WORDS=(grantctl call account.get ""); COMP_CWORD=3; _grantctl grantctl ""
        eval "printf '%s\\n' ${COMPREPLY[0]}" """, "bash", path)
    must(found and found[0].startswith('{"account":'), f"the parameters are {found}")


@case("completion-fish")
def fish(home):
    """fish completes the same."""
    if not shutil.which("fish"):
        return
    prepared(home)
    path = script("fish")
    for line, wanted, unwanted in LINES:
        found = run(home, "fish", "--no-config", "-c", f"source {path}; complete -C '{line}'")
        judge(line, [one.split("\t")[0] for one in found], wanted, unwanted)


@case("completion-zsh")
def zsh(home):
    """zsh completes the same, in a terminal."""
    if not shutil.which("zsh"):
        return
    prepared(home)
    path = script("zsh")
    terminal = home.terminal("-f", "-i", program="/usr/bin/zsh", columns=200)
    terminal.type(f"PS1='> '; autoload -U compinit; compinit -D -u; . {path}; setopt no_beep; print rea''dy\n")
    terminal.until("ready")
    for line, wanted, unwanted in LINES:
        before = len(terminal.text)
        # The list of candidates, or the only one in the line. Ctrl-U clears the line.
        terminal.type(f"{line}\t\t")
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            length = len(terminal.text)
            terminal.read_for(QUIET_SECONDS)
            text = terminal.text[before:]
            if len(terminal.text) == length and all(name in text for name in wanted):
                break
        terminal.type("\x15")
        terminal.read_for(0.1)
        for name in wanted:
            must(name in text, f"{line!r} shows {text!r}, not {name}")
