"""The lock: no token leaves the broker, and no secret stays in its memory."""

import http.client
import os
import pwd
import subprocess
import time
import urllib.parse

from grantd_testing import BlockingClient, Program, Refused, Wrong, free_ports, wait_until
from home import lacks, must, shows
from table import case

PASSPHRASE = "eleven small 7 boats"
USER = pwd.getpwuid(os.getuid()).pw_name
STATE = ".local/state/grantd"
LOCK_SECONDS = 60


def memory(pid):
    """The memory of a process as root reads it: what a core file would contain."""
    found = bytearray()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            place, rights = line.split()[:2]
            if "r" not in rights or line.rstrip().endswith(("[vvar]", "[vsyscall]", "[vvar_vclock]")):
                continue
            start, end = (int(part, 16) for part in place.split("-"))
            try:
                mem.seek(start)
                found += mem.read(end - start)
            except OSError:
                continue
    return bytes(found)


def secrets_of(home, account):
    token = home.output("token", account).strip()
    key = (home.folder / STATE / "grantd.key").read_text().strip()
    return {"the access token": token.encode(), "the key": key.encode(), "the passphrase": PASSPHRASE.encode()}


def locks(home, *options, text=PASSPHRASE + "\n"):
    return home.ctl("lock", "--passphrase-file", "-", *options, text=text, status=0)


def unlock(home):
    return home.ctl("unlock", "--passphrase-file", "-", text=PASSPHRASE + "\n", status=0)


@case("lock")
def lock(home):
    """A locked broker returns nothing, has no secret in memory, and is as before after the unlock."""
    fake = home.provider()
    home.start(demo=fake)
    home.sign_in("demo", "work")
    secrets = secrets_of(home, "work")
    pid = home.call("broker.status")["pid"]
    must(os.geteuid() or all(value in memory(pid) for name, value in secrets.items() if "token" in name),
         "the running broker does not have its token in memory: the test finds nothing")
    shows(locks(home).stdout, "Locked. Unlock: grantctl unlock")
    status = home.call("broker.status")
    must(status["state"] == "locked" and status["pid"] == pid, f"the status is {status}")
    if os.geteuid() == 0:
        held = memory(pid)
        for name, value in secrets.items():
            must(value not in held, f"{name} is in the memory of the locked broker")
    must(not (home.folder / STATE / "grantd.key").exists(), "the key file is still there")
    shows(home.output("status"), "locked", "grantctl unlock")
    done = home.ctl("token", "work", status=5)
    shows(done.stderr, "the broker is locked", "grantctl unlock")
    must(not done.stdout, "something is on standard output")
    must('"reason": "locked"' in home.errors("token", "work", "--json", status=5).replace('":"', '": "'), "the reason")
    for command in (("login", "demo", "work"), ("setup", fake.issuer), ("list",), ("refresh", "work")):
        shows(home.errors(*command, status=5), "the broker is locked", "grantctl unlock")
    wrong = home.ctl("unlock", "--passphrase-file", "-", text="another passphrase\n", status=1)
    shows(wrong.stderr, "the passphrase is wrong", "grantctl unlock", "docs/lock.md")
    done = unlock(home)
    shows(done.stdout, "Unlocked.")
    must(home.output("token", "work").strip().encode() == secrets["the access token"], "it is another token")
    # The passphrase is known from the first lock.
    shows(home.output("lock"), "Locked.", "that of the previous lock", "grantctl lock --new-passphrase")
    shows(home.output("lock"), "Already locked. Unlock: grantctl unlock")
    again = home.ctl("lock", "--passphrase-file", "-", text=PASSPHRASE + "\n", status=5)
    shows(again.stderr, "already locked, and its passphrase is unchanged", "grantctl lock --passphrase-file FILE")
    must(home.json("lock") == {"state": "locked", "warnings": []}, "another answer in JSON")
    shows(home.errors("lock", "--new-passphrase", status=5), "its passphrase is unchanged", "grantctl unlock")
    unlock(home)
    lacks(locks(home).stdout, "previous lock")
    unlock(home)


@case("lock-doctor")
def lock_doctor(home):
    """doctor checks what needs no key, such as the broker's own configuration, and the lock is one of its findings."""
    home.configure(demo=home.provider())
    other = home.config.rename(home.folder / "other.toml")
    home.launch("--config", str(other))
    wait_until(home.connect, LOCK_SECONDS, "grantd listens").close()
    home.sign_in("demo", "work")
    locks(home)
    text = home.output("doctor", status=5)
    shows(text, "ok socket:", "ok version:", "FAIL lock: the broker is locked", "grantctl unlock", "ok configuration:",
          str(other), "ok key:", "ok disk:", "providers, accounts: checked after the unlock", "1 failure")
    lacks(text, "warn callback", "warn credentials", "warn policy")
    report = home.json("doctor", status=5)
    must(report["failures"] == 1 and not report["ok"], f"the report is {report}")
    key = next(check["message"] for check in report["checks"] if check["name"] == "key")
    must(f"{STATE}/grantd.key.locked, mode 0600" in key, f"the key is reported as {key}")
    unlock(home)
    lacks(home.output("doctor", status=0), " lock:")


@case("lock-completes-exchanges")
def lock_completes(home):
    """A refresh that is under way at the lock is saved; its caller gets no token."""
    fake = home.provider()
    home.start(demo=fake)
    home.sign_in("demo", "work")
    locks(home)
    unlock(home)
    generation = home.json("list")["accounts"][0]["generation"]

    def slow(_, usual):
        wait_until(lambda: home.log.read_text().count("exchanges are completed first") == 2, LOCK_SECONDS, "the lock")
        return usual()

    fake.always("refresh", slow)
    waiting = subprocess.Popen([home.products / "grantctl", "refresh", "work", "--now"], env=home.environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: fake.count("refresh"), LOCK_SECONDS, "the refresh has begun")
    home.ctl("lock", status=0)
    output, errors = waiting.communicate(timeout=LOCK_SECONDS)
    must(waiting.returncode != 0, f"the caller got an answer: {output} {errors}")
    unlock(home)
    must(home.json("list")["accounts"][0]["generation"] == generation + 1, "the refresh of before was lost")


@case("lock-over-restart")
def lock_over_restart(home):
    """A locked broker that is started again is locked, also if the key file was still there."""
    home.start(demo=home.provider())
    home.sign_in("demo", "work")
    key = (home.folder / STATE / "grantd.key").read_bytes()
    locks(home)
    home.stop()
    file = home.folder / STATE / "grantd.key"
    file.write_bytes(key)
    os.chmod(file, 0o600)
    home.start()
    must(home.call("broker.status")["state"] == "locked", "it is not locked after a restart")
    wait_until(lambda: not file.exists(), LOCK_SECONDS, "the key file is removed")
    unlock(home)
    must(file.read_bytes() == key and file.stat().st_mode & 0o777 == 0o600, "the key file is not as before")


@case("lock-token-file")
def lock_token_file(home):
    """Token files are removed by the lock, and written again after the unlock."""
    home.start(f'[[file]]\naccount = "work"\npath = "token"\nuser = "{USER}"\n', demo=home.provider())
    home.sign_in("demo", "work")
    file = home.folder / "run/grantd/files/token"
    wait_until(file.exists, LOCK_SECONDS, "the token file is written")
    locks(home)
    must(not file.exists(), "the token file is there after the lock")
    unlock(home)
    wait_until(file.exists, LOCK_SECONDS, "the token file is written again")


@case("lock-asks")
def lock_asks(home):
    """The first lock asks for a passphrase twice; it is not shown."""
    home.start(demo=home.provider())
    for columns in (80, 40):
        terminal = home.terminal("lock", "--new-passphrase", columns=columns, echo=True)
        terminal.until(r"is not\s+shown")
        terminal.type(PASSPHRASE + "\n")
        terminal.until(r"same\s+again")
        terminal.type(PASSPHRASE + "\n")
        text = terminal.end()
        shows(text, "Locked.")
        lacks(text, PASSPHRASE)
        terminal = home.terminal("unlock", columns=columns, echo=True)
        terminal.until(r"is not\s+shown")
        began = time.monotonic()
        terminal.type(PASSPHRASE + "\n")
        text = terminal.end()
        shows(text, "Unlocked.")
        lacks(text, PASSPHRASE)
        must(time.monotonic() - began < LOCK_SECONDS, "the unlock takes long")


@case("lock-refused-passphrases")
def refused_passphrases(home):
    """Each refusal of a passphrase has the next step."""
    home.start(demo=home.provider())
    for typed, problem in (("short\n", "shorter than 8 characters"), (PASSPHRASE + "\n" + "another one\n", "not the same")):
        terminal = home.terminal("lock", echo=True)
        for line in typed.splitlines():
            terminal.until(r"is not\s+shown" if line == typed.splitlines()[0] else r"same\s+again")
            terminal.type(line + "\n")
        shows(terminal.end(), problem, "Run the command again")
        must(terminal.status == 64, f"{problem}: {terminal.status}")
    shows(home.errors("lock", status=64), "there is no terminal", "Give it with --passphrase-file FILE")
    missing = home.folder / "none"
    shows(home.errors("lock", "--passphrase-file", missing, status=64), "cannot be read", "Give the path of a file")
    for command in (["lock"], ["backup", home.folder / "copy"]):
        text = home.errors(*command, "--passphrase-file", "-", text="short\n", status=64)
        shows(text, "the passphrase is shorter than 8 characters", "Try again with")
        text = home.errors(*command, "--passphrase-file", "-", text="\n", status=64)
        shows(text, "no passphrase was given", "Give one line of printable ASCII")
    must(home.call("broker.status")["state"] == "running", "it is locked")


@case("stopped-prompt")
def stopped_prompt(home):
    """A shell that stops a prompt for a secret, and continues it, shows nothing of the secret."""
    home.start(demo=home.provider())
    shell = home.terminal("--norc", "--noprofile", "-i", program="/bin/bash", echo=True)
    shell.type(f"{home.products}/grantctl lock --new-passphrase\n")
    shell.until(r"is not\s+shown")
    for _ in range(2):
        shell.type("\x1a")
        shell.until("Stopped")
        shell.text = ""
        shell.type("fg\n")
        shell.until("grantctl lock")
        # The shell has shown the command before it continues the program.
        wait_until(lambda: not shell.echoes, LOCK_SECONDS, "the echo is off")
    shell.type(PASSPHRASE + "\n")
    shell.until(r"same\s+again")
    shell.type(PASSPHRASE + "\n")
    # What is typed before the shell's prompt is discarded.
    shell.until(r"Locked\.[^#$]*[#$] ")
    lacks(shell.text, PASSPHRASE)
    shell.text = ""
    shell.type("stty -a; echo end:$?\n")
    shell.until("end:0")
    shows(shell.text, " echo ")


@case("hold")
def hold(home):
    """The system instance holds all releases, also of cached tokens and over a restart, and records it."""
    fake, port = home.provider(), free_ports()[0]
    section = f'issuer = "{fake.issuer}"\napi_base = "{fake.issuer}"\nclient_id = "grantd-test"\nscopes = ["openid", "a", "b"]'
    home.configure(f'[http]\nlisten = "127.0.0.1:{port}"\n', demo=section)
    options = ("--system", "--config", home.config, "--state", home.folder / "state", "--socket", home.socket)

    def start():
        home.process = Program([home.products / "grantd", *map(str, options)], home.log, env=home.environment())
        wait_until(home.connect, LOCK_SECONDS, "grantd listens").close()

    start()
    home.sign_in("demo", "work")
    kept = home.keep(BlockingClient(home.socket))
    must(kept.call("token.get", account="work")["access_token"], "no token")
    must(kept.call("token.get", account="work", scopes=["a"])["access_token"], "no token of fewer scopes")
    web = home.keep(http.client.HTTPConnection("127.0.0.1", port, timeout=LOCK_SECONDS))

    def over_http(method, path, **form):
        web.request(method, path, urllib.parse.urlencode(form) or None,
                    {"Content-Type": "application/x-www-form-urlencoded"} if form else {"Grantd-Request": "1"})
        answer = web.getresponse()
        return answer.status, answer.read().decode()

    requests = [("POST", "/token", {"grant_type": "client_credentials", "client_id": "work"}),
                ("GET", "/forward/work/userinfo", {})]
    for _ in range(2):
        for method, path, form in requests:
            status, body = over_http(method, path, **form)
            must(status == 200, f"{path} before: {status} {body}")
    shows(home.output("lock"), "All releases are held.", "grantctl unlock")
    for method, path, form in requests:
        status, body = over_http(method, path, **form)
        must(status == 503, f"{path} on a connection of before: {status} {body}")
    shows(home.output("lock"), "All releases are held.")
    for params in ({}, {"scopes": ["a"]}):
        try:
            kept.call("token.get", account="work", **params)
            raise Wrong(f"a connection of before still gets the token: {params}")
        except Refused as error:
            must(error.reason == "locked", f"the error is {error}")
    for command in (("token", "work"), ("request", "work", "GET", fake.issuer + "/userinfo"), ("userinfo", "work")):
        shows(home.errors(*command, status=5), "all releases of tokens are held", "grantctl unlock")
    shows(home.output("status"), "held", f"by {USER}", "grantctl unlock")
    home.stop()
    start()
    shows(home.errors("token", "work", status=5), "all releases of tokens are held")
    shows(home.output("unlock"), "Releases are no longer held.")
    must(home.output("token", "work").strip(), "no token after the hold")
    methods = [record["method"] for record in home.json("audit")["records"]]
    must("broker.lock" in methods and "broker.unlock" in methods, f"the audit trail has {methods}")
