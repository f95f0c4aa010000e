"""The generated manual pages: one for each command, none with a warning of man(1), and the reasons of errors are found."""

import json
import shutil
import subprocess

from pages_of_tree import ROOT

SECONDS = 60
# Words that users look for, and a page that has them.
FOUND = {"login_required": "grantd-rpc.7", "client_secret_file": "grantd.toml.5", "--min-ttl": "grantctl-token.1"}


def commands_of(help_text, path=""):
    """The names of a command's page and of the pages of its subcommands."""
    name = (f"{path}-" if path else "") + help_text["commandName"].replace(" ", "-")
    yield name
    for child in help_text.get("subcommands", []):
        if child["commandName"] != "help" and child.get("shouldDisplay", True):
            yield from commands_of(child, name)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)


def wrong_manual_pages(programs, folder):
    """The number of pages, and a line for each that is missing or wrong."""
    folder = folder / "generated"
    folder.mkdir()
    done = run(ROOT / "scripts" / "package" / "manual", "--write", programs, folder)
    if done.returncode != 0:
        return 0, [f"scripts/package/manual: {done.stderr}"]
    there = {path.name: path for path in (folder / "man").iterdir()}
    names = commands_of(json.loads(run(programs / "grantctl", "--experimental-dump-help").stdout)["command"])
    wrong = [f"{name}(1) is missing" for name in names if f"{name}.1" not in there]
    for word, page in FOUND.items():
        if page not in there or word not in there[page].read_text().replace("\\-", "-"):
            wrong.append(f"{page}: {word} is not found")
    if shutil.which("man"):
        for name, path in sorted(there.items()):
            if said := run("man", "--warnings", "-E", "UTF-8", "-l", path).stderr.strip():
                wrong.append(f"{name}: {said}")
    return len(there), wrong
