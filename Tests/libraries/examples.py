"""The examples, each as it is in examples/, and the pages that have them."""

import contextlib
import json
import mailbox
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

from adapters import IMAP, mail_server, refuse
from grantd_testing import environment, free_ports
from grantd_testing.places import ROOT
from languages import CLIENTS, SYSTEM_PYTHON, built
from rig import DOWN, PROVIDER, Handler, SecureServer, Skip, certificate, must, need, wait_until

CASES = {}
EXAMPLES = ROOT / "examples"
WITH_SYSTEMD = ROOT / "Tests" / "Support" / "with-systemd"
# Exit status of a suite that this machine cannot run.
NOT_HERE = 77
# A page need not have them: how a language finds its library in a clone.
NOT_ON_PAGES = {"go.mod", "Package.swift", "README.md"}
MESSAGES = {1: b"Subject: first\r\n\r\nread\r\n", 2: b"Subject: second\r\n\r\ntext\r\n", 3: b"Subject: third\r\n\r\ntext\r\n"}
WATCHED = "watched"


def case(name):
    def register(action):
        CASES[f"examples/{name}"] = action
        return action
    return register


def folder(stage, name):
    made = stage.folder / f"example-{name}"
    made.mkdir()
    return made


def variables(stage, home, **more):
    return environment(home) | {
        "GRANTD_SOCKET": str(stage.daemon.socket), "PYTHONPATH": str(CLIENTS / "python" / "src"),
        "PYTHONDONTWRITEBYTECODE": "1", **more}


def run(command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, **options)


@case("pages")
def pages(stage):
    """Each example is a block of a page of the documentation, as it is."""
    blocks = set()
    for page in (ROOT / "docs").rglob("*.md"):
        blocks |= set(re.findall(r"(?m)^```\w*\n((?s:.*?))^```$", page.read_text()))
    files = [path for path in EXAMPLES.rglob("*") if path.is_file() and path.name not in NOT_ON_PAGES]
    missing = [str(path.relative_to(ROOT)) for path in files if path.read_text() not in blocks]
    must(len(files) > 5 and not missing, f"no page has {', '.join(missing)}")


# ---- mail

class Inbox(IMAP):
    """A mailbox in which the first message is read."""

    def perform(self, verb, words):
        with self.server.stage.lock:
            if verb == "UID" and words[0] == "SEARCH":
                unread = sorted(MESSAGES.keys() - self.server.stage.inbox_read)
                self.send(f"* SEARCH {' '.join(map(str, unread))}")
            elif verb == "UID" and words[0] == "FETCH":
                text = MESSAGES[int(words[1])].decode()
                self.send(f"* {words[1]} FETCH (UID {words[1]} BODY[] {{{len(text)}}}\r\n{text})")
            elif verb == "UID" and words[0] == "STORE":
                self.server.stage.inbox_read.add(int(words[1]))
            elif verb == "SELECT":
                self.send(f"* {len(MESSAGES)} EXISTS")
            elif verb == "LOGOUT":
                self.send("* BYE")


@case("mail-fetcher")
def mail_fetcher(stage):
    home = folder(stage, "mail")
    certificate(home)
    stage.inbox_read = {1}
    with mail_server(stage, Inbox, home) as port:
        def fetch(account):
            words = [f"localhost:{port}", "ada@example.com", home / "mail"]
            own = variables(stage, home, ACCOUNT=account, SSL_CERT_FILE=str(home / "cert.pem"))
            return run([SYSTEM_PYTHON, EXAMPLES / "mail-fetcher" / "fetch.py", *words], env=own)
        refused = refuse(stage, "example-mail")
        done = fetch("example-mail")
        must(done.returncode == 0 and done.stdout == "2 messages\n", f"{done}")
        must(stage.seen.count(refused) == 1, "the refused token was not sent once")
        subjects = sorted(message["Subject"] for message in mailbox.Maildir(home / "mail"))
        must(subjects == ["second", "third"] and stage.inbox_read == set(MESSAGES), subjects)
        must(fetch("example-mail").stdout == "0 messages\n", "a message is fetched twice")
        done = fetch("ended")
        must(done.returncode == 1 and f"grantctl login {PROVIDER} ended" in done.stderr, f"{done}")
        must(fetch("off").returncode == os.EX_TEMPFAIL, "no token for some time")


# ---- cron, units

def jobs(text):
    """The settings and the jobs of a crontab: crontab(5)."""
    settings, commands = {}, []
    for line in text.splitlines():
        setting = re.fullmatch(r"(\w+)=(.*)", line)
        if setting:
            settings[setting[1]] = setting[2]
        elif line and not line.startswith("#"):
            commands.append(line.split(None, 5)[5])
    return settings, commands


@case("cron")
def cron(stage):
    """The line as cron runs it: by sh in the home folder, with the settings of the crontab. curl finds the test's server by
    its own file in that folder."""
    home = folder(stage, "cron")
    certificate(home)
    server = SecureServer(Handler, stage, home)
    (home / ".curlrc").write_text(
        f'connect-to = "api.example.com:443:127.0.0.1:{server.server_port}"\ncacert = "{home / "cert.pem"}"\nnoproxy = "*"\n')
    settings, (command,) = jobs((EXAMPLES / "cron" / "contacts.crontab").read_text())
    path = f"{stage.programs}:{settings['PATH']}"
    try:
        done = run([need("sh"), "-c", command], cwd=home, env=variables(stage, home, **settings) | {"PATH": path})
    finally:
        server.shutdown()
        server.server_close()
    must(done.returncode == 0 and not done.stdout and not done.stderr, f"{done}")
    must(json.loads((home / "contacts.json").read_text()) == {"body": ""}, "the file of the job")


@case("unit")
def unit(stage):
    """With a real systemd, the real service, and the name of the API in the unit."""
    done = run([WITH_SYSTEMD, "--check"])
    if done.returncode == NOT_HERE:
        raise Skip(done.stderr.strip())
    home = folder(stage, "unit")
    certificate(home)
    libraries = run(["ldd", stage.programs / "grantd"]).stdout
    runtime = {os.path.dirname(os.path.realpath(path)) for path in re.findall(r"=> (/\S+)", libraries)
               if not path.startswith(("/lib", "/usr/lib"))}
    places = [word for path in [ROOT, stage.programs, home, *sorted(runtime)] for word in ("--ro", path)]
    done = run([WITH_SYSTEMD, *places, "--", SYSTEM_PYTHON, ROOT / "Tests" / "libraries" / "unit", stage.programs, home])
    if done.returncode == NOT_HERE:
        raise Skip(done.stderr.strip())
    must(done.returncode == 0, f"{done.stdout[-1500:]} {done.stderr[-500:]}")


# ---- programs that go on

@contextlib.contextmanager
def running(command, log, **options):
    """Ends by SIGTERM."""
    with open(log, "wb") as output:
        process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=output, **options)
    try:
        yield process
        must(process.poll() is None, f"it ended with {process.returncode}: {pathlib.Path(log).read_text()[-1500:]}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


@case("login-notifier")
def login_notifier(stage):
    """It reports an account whose grant has ended before the start, and one whose grant ends twice afterwards, each once."""
    home = folder(stage, "notifier")
    recorded = home / "recorded"
    recorder = home / "notify-send"
    recorder.write_text(f'#!/bin/sh\nprintf "%s|" "$@" >>{recorded}\necho >>{recorded}\n')
    recorder.chmod(0o755)

    def lines():
        return recorded.read_text().splitlines() if recorded.exists() else []
    command = [SYSTEM_PYTHON, EXAMPLES / "login-notifier" / "notify.py", recorder, "--app-name=grantd"]
    stage.sign_in(WATCHED)
    with running(command, home / "log", env=variables(stage, home)):
        wait_until(lambda: len(lines()) == 1, 90, "the account without a grant")
        must(lines()[0] == f"--app-name=grantd|ended: login required|Sign in with `grantctl login {PROVIDER} ended`.|", lines())
        stage.end_grant(WATCHED)
        wait_until(lambda: len(lines()) == 2, 90, "the account whose grant ends")
        must(f"|{WATCHED}: login required|" in lines()[1] and f"grantctl login {PROVIDER} {WATCHED}" in lines()[1], lines())
        stage.sign_in(WATCHED)
        stage.end_grant(WATCHED)
        wait_until(lambda: len(lines()) == 3, 90, "the account whose grant ends again")


# ---- web services

def get(port):
    """The status, the headers and the body."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/", timeout=40) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def check_service(stage, ask, account):
    """`ask(account, url)` returns a status, headers, a body and the lines of the log."""
    url = f"{stage.server.url}/resource"
    status, _, body, _ = ask(account, url)
    must(status == 200 and json.loads(body) == {"body": ""}, (status, body))
    refused = refuse(stage, account)
    status, _, body, _ = ask(account, url)
    must(status == 200 and stage.seen.count(refused) == 2, f"{status}: a refused token is replaced once")
    status, _, body, _ = ask(account, f"{stage.server.url}/always-401")
    must(status == 502 and not body, f"{status}: the API refuses each token")
    status, _, body, log = ask("ended", url)
    must(status == 503 and not body and f"grantctl login {PROVIDER} ended" in log, (status, body, log))
    status, headers, body, _ = ask("off", url)
    must(status == 503 and int(headers["Retry-After"]) > 0 and DOWN, (status, headers, body))


def service(name, command):
    @case(f"web-service-{name}")
    def check(stage):
        home = folder(stage, name)
        started = command(stage, home)

        def ask(account, url):
            (port,), log = free_ports(), home / "log"
            with running([*started, port], log, env=variables(
                    stage, home, ACCOUNT=account, API_URL=url, NODE_PATH=str(home / "modules"))):
                end = time.monotonic() + 90
                while True:
                    try:
                        found = get(port)
                        break
                    except urllib.error.URLError:
                        must(time.monotonic() < end, f"it does not listen: {log.read_text()[-1500:]}")
                        time.sleep(0.05)
            return (*found, log.read_text())
        check_service(stage, ask, f"example-{name}")


def python_service(stage, home):
    return [SYSTEM_PYTHON, EXAMPLES / "web-service" / "python" / "service.py"]


def js_service(stage, home):
    (home / "modules").mkdir()
    (home / "modules" / "grantd").symlink_to(CLIENTS / "js")
    return [need("node"), EXAMPLES / "web-service" / "js" / "service.js"]


def go_service(stage, home):
    own = {"GOCACHE": str(ROOT / ".build" / "go"), "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
    done = run([need("go"), "build", "-o", home / "service", "."], cwd=EXAMPLES / "web-service" / "go", env=os.environ | own)
    must(done.returncode == 0, done.stderr)
    return [home / "service"]


service("python", python_service)
service("js", js_service)
service("go", go_service)
service("swift", lambda stage, home: [built(EXAMPLES / "web-service" / "swift-service") / "service"])


@case("web-service-c")
def c_service(stage):
    """As a web server runs a CGI program."""
    home = folder(stage, "c")
    done = run([need("gcc"), "-Wall", "-Wextra", "-Werror", "-I", CLIENTS / "c", "-o", home / "service.cgi",
                EXAMPLES / "web-service" / "c" / "service.c", CLIENTS / "c" / "grantd.c", "-pthread"])
    must(done.returncode == 0, done.stderr)

    def ask(account, url):
        done = run([home / "service.cgi"], env=variables(
            stage, home, ACCOUNT=account, API_URL=url, GATEWAY_INTERFACE="CGI/1.1", REQUEST_METHOD="GET", no_proxy="*"))
        must(done.returncode == 0, f"{done}")
        head, _, body = done.stdout.partition("\n\n")
        headers = dict(line.split(": ", 1) for line in head.splitlines())
        return int(headers.get("Status", "200")), headers, body, done.stderr
    check_service(stage, ask, "example-c")
