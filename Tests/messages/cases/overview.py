"""Many accounts, several callers: status, audit, approvals, explain."""

import os
import pwd
import re
import socket
import subprocess
import sys

from grantd_testing import wait_until
from home import lacks, must, shows
from server import Answer
from table import case

USER = pwd.getpwuid(os.getuid()).pw_name
ACCOUNTS = 51


@case("status-of-many")
def status_of_many(home):
    """Problems come first, and accounts without one are one line."""
    fake, down = home.provider(), home.provider()
    home.start(demo=fake, other=down)
    for number in range(1, ACCOUNTS - 2):
        home.sign_in("demo", f"account-{number}")
    long = "a-name-that-is-longer-than-its-column-by-some-letters-1"
    for name in ("other-10", "other-9", long):
        home.sign_in("other", name)
    down.always("refresh", Answer.error("invalid_grant", 400, "revoked"))
    for name in ("other-10", "other-9", long):
        for _ in range(2):
            home.ctl("refresh", name, "--now")
    wait_until(lambda: home.call("broker.status")["accounts"]["login_required"] == 3, 60, "three accounts need a login")
    for columns in (80, 40):
        screen = home.terminal("status", columns=columns, rows=60).finished()
        text = "\n".join(screen.rows)
        # The long name in a hint is wider than 40 columns.
        must(screen.wraps <= (columns == 40), f"{columns}: a row is too long:\n{text}")
        shows(text, "48 ok (grantctl list)")
        lacks(text, "account-1 ")
        places = [text.index(part) for part in ("a-name", "other-9", "other-10", "48 ok (")]
        must(places == sorted(places), f"{columns}: the order is:\n{text}")
        if columns == 80:
            must(re.search(r"a-name\S+…\S+-1 ", text), f"the long name is not shortened in the middle:\n{text}")
    wide = home.output("status", "--wide")
    must(long in wide and "account-48" in wide, f"--wide leaves something out:\n{wide}")
    must(wide.index("account-9 ") < wide.index("account-10 "), f"the order is not natural:\n{wide}")
    text = home.output("status", "--state", "login_required", "--provider", "demo")
    shows(text, "No account matches")
    shows(home.output("status", "--provider", "other"), "other-9", "other-10")
    lacks(home.output("status", "--provider", "other"), "48 ok (")
    shows(home.errors("status", "--state", "well", status=64), "login_required")


@case("taken-port")
def taken_port(home):
    """A callback port that another program has is in the status, with what to do."""
    taken = home.keep(socket.socket())
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    home.port = taken.getsockname()[1]
    home.start(demo=home.provider())
    shows(home.output("status"), f"port {home.port}", "failed", f"the callback port {home.port} is taken", "--manual")
    shows(home.output("doctor", status=1), f"the callback port {home.port} is taken")


@case("names-of-users")
def names_of_users(home):
    """Callers are users by their names, in the audit trail, in approvals and in explanations."""
    home.start(f"""[[rule]]
uid = {os.getuid()}
accounts = ["bank"]
access = ["use"]
confirm = true
confirm_timeout = "120s"
""", demo=home.provider())
    home.sign_in("demo", "bank")
    shell = home.terminal("-c", f"'{home.products}/grantctl' token bank; true", program="/bin/bash")
    shell.until("Waiting for approval")
    shows(home.output("status"), "approvals 1 pending: grantctl approve")
    for columns in (80, 40):
        terminal = home.terminal("approve", columns=columns)
        terminal.until(re.escape(USER))
        screen = terminal.read_for(1)
        shows(screen, USER)
        lacks(screen, f"uid {os.getuid()}")
    shown = home.output("approve")
    must(re.search(r"\S+ →\s+\S*grantctl", shown), f"the program that called grantctl is missing: {shown}")
    shows(home.output("approve", home.json("approve")["waiting"][0]["id"]), "Allowed")
    shell.end()
    text = home.output("audit")
    shows(text, "LAST USER CALLER METHOD", "release.approve")
    lacks(text, f"uid {os.getuid()}")
    rows = [line for line in text.splitlines() if re.match(r"\d\d-\d\d \d\d:\d\d:\d\d ", line)]
    must(rows and rows == sorted(rows, key=lambda line: line[:14]), f"the newest record is not the last:\n{text}")
    must(any(f"  {USER}  " in line for line in rows), f"no record names {USER}:\n{text}")
    other = next(user for user in pwd.getpwall() if user.pw_uid != os.getuid())
    text = home.output("explain", "bank", "--uid", other.pw_uid, status=4)
    lacks(text, f"uid is {other.pw_uid}", f"uid {other.pw_uid}")


@case("explain-all")
def explain_all(home):
    """Every rule of an account, with callers by name, limits, approval and last use."""
    other = next(user for user in pwd.getpwall() if user.pw_uid != os.getuid())
    home.start(f"""[[rule]]
name = "mail"
uid = {other.pw_uid}
unit = "mail-sync.service"
accounts = ["work"]
access = ["use"]
scopes = ["a"]
confirm = true
confirm_timeout = "20s"

[[rule]]
name = "elsewhere"
uid = {other.pw_uid}
accounts = ["play"]
access = ["use"]
""", demo=home.provider())
    home.sign_in("demo", "work")
    home.output("token", "work")
    wait_until(lambda: any(row["action"] == "release" for row in home.call("audit.list")["records"]), 60, "a release")
    for columns in (80, 40):
        screen = home.terminal("explain", "work", "--all", columns=columns).finished()
        text = "\n".join(screen.rows)
        must(screen.wraps == 0, f"{columns}: a row is too long:\n{text}")
        shows(text, "CALLER", "MAY", "needs no rule", "rule mail (", "scopes: a")
        lacks(text, "elsewhere", "uid ")
        must(columns == 40 or re.search("everything .*(just now|ago)", text), f"the last use is missing:\n{text}")
        if columns == 80:
            shows(text, "CALLER", "MAY", "APPROVAL", "LAST USE")
            shows(text, f"{other.pw_name}, mail-sync.service", "use", "within 20 s", "-")
    must(len(home.json("explain", "work", "--all")["rules"]) == 1, "the rules as JSON are others")


@case("program-behind-the-helper")
def program_behind_the_helper(home):
    """The audit trail names the program that executed grantctl."""
    home.start(demo=home.provider())
    home.sign_in("demo", "work")
    program = home.folder / "mbsync"
    program.symlink_to(sys.executable if os.path.realpath(sys.executable) != sys.executable else "/usr/bin/python3")
    source = ("import subprocess, sys\nopen('/proc/self/comm', 'w').write('mbsync')\n"
              "sys.exit(subprocess.run(sys.argv[1:]).returncode)\n")

    def run(*words):
        # A shell between the two is passed over.
        command = [program, "-c", source, "sh", "-c", '"$@"; exit $?', "sh", home.products / "grantctl", *words]
        return subprocess.Popen(command, env=home.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    must(run("token", "work").wait(30) == 0, "no token")
    records = [one for one in home.json("audit", "--account", "work")["records"] if one["method"] == "token.get"]
    must([one.get("parent") for one in records] == ["mbsync"], f"the records are {records}")
    shows(home.output("audit", "--account", "work"), "mbsync → grantctl")
    home.ctl("token", "work", status=0)
    parents = {one.get("parent") for one in home.json("audit", "--account", "work")["records"]
               if one["method"] == "token.get"}
    must("mbsync" in parents and len(parents) == 2, f"the programs share a record: {parents}")
