"""Programs of other users, in Python: what they run, they print as JSON."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

from rig import Skip, need

RUN_SECONDS = 120
HERE = pathlib.Path(__file__).resolve().parent
SYSTEM_PYTHON = "/usr/bin/python3"


def as_user(uid):
    if os.getuid() != 0:
        raise Skip("only root can start programs as other users")
    need("setpriv")
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


def command(uid, source, *arguments, inside=()):
    """Where the suite's folder cannot be entered by others, the program comes by the command line."""
    program = SYSTEM_PYTHON if os.access(SYSTEM_PYTHON, os.X_OK) else sys.executable
    wire = (HERE / "wire.py").read_text()
    start = "import sys, types\nwire = types.ModuleType('wire')\nsys.modules['wire'] = wire\n"
    start += f"exec({wire!r}, wire.__dict__)\n"
    return [*as_user(uid), *inside, program, "-c", start + source, *map(str, arguments)]


def run(uid, source, *arguments, inside=(), seconds=RUN_SECONDS):
    done = subprocess.run(command(uid, source, *arguments, inside=inside), capture_output=True, text=True,
                          timeout=seconds,
                          cwd="/", env={"PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError(f"as {uid}: {done.stderr[-600:]}")
    return json.loads(done.stdout)


ASK = """
import json, sys
place, method, target, body, fields = json.loads(sys.argv[1])
answer = wire.ask(place, method, target, body, fields)
print(json.dumps([answer.status, answer.fields, answer.body.decode("latin-1")]))
"""


def ask(uid, place, method, target, body=None, fields=(), inside=()):
    """Status and body of one request of that user."""
    place = place if isinstance(place, int) else str(place)
    status, _, text = run(uid, ASK, json.dumps([place, method, target, body, list(fields)]), inside=inside)
    return status, text


def curl(uid, *arguments, inside=()):
    """Status and body, by curl."""
    done = subprocess.run(
        [*as_user(uid), *inside, shutil.which("curl", path="/usr/bin:/bin"), "-q", "-sS", "--noproxy", "*", "-m", "60",
         "-w",
         "\n%{http_code}", *map(str, arguments)], capture_output=True, text=True, timeout=RUN_SECONDS, cwd="/",
        env={"PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL)
    text, _, status = done.stdout.rpartition("\n")
    return int(status or 0), text + done.stderr
