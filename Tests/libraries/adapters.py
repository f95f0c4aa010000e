"""The adapters of Python, each with its library."""

import base64
import contextlib
import socketserver
import subprocess
import threading

from fake import SECRET, Fake, error, token
from postgres import Postgres
from rig import case, driving, must, need, secured

KEY, SESSION = "AKIAEXAMPLE", "role-session"


class Mail(socketserver.StreamRequestHandler):
    """IMAP or SMTP as far as a login goes; it refuses the tokens that the stage refuses."""

    def is_good(self, response):
        text = base64.b64decode(response).decode()
        token = next((part.removeprefix("auth=Bearer ") for part in text.split("\x01") if part.startswith("auth=")), "")
        with self.server.stage.lock:
            self.server.stage.seen.append(token)
        return "ada@example.com" in text and token and token not in self.server.stage.refused

    def send(self, text):
        self.wfile.write(text.encode() + b"\r\n")

    def line(self):
        return self.rfile.readline().decode().rstrip("\r\n")


class IMAP(Mail):
    def handle(self):
        self.send("* OK ready")
        while line := self.line():
            tag, verb, *words = line.split(" ")
            if verb == "CAPABILITY":
                self.send("* CAPABILITY IMAP4rev1 AUTH=XOAUTH2 AUTH=OAUTHBEARER")
            if verb == "AUTHENTICATE":
                self.send("+ ")
                if not self.is_good(self.line()):
                    self.send("+ " + base64.b64encode(b'{"status":"401"}').decode())
                    self.line()
                    self.send(f"{tag} NO [AUTHENTICATIONFAILED] refused")
                    continue
            self.perform(verb, words)
            self.send(f"{tag} OK done")

    def perform(self, verb, words):
        """A mailbox, if the server has one."""


class SMTP(Mail):
    def handle(self):
        self.send("220 ready")
        while line := self.line():
            verb, *words = line.split(" ")
            if verb == "EHLO":
                self.send("250-test")
                self.send("250 AUTH XOAUTH2 OAUTHBEARER")
            elif verb == "AUTH" and not self.is_good(words[1]):
                self.send("334 " + base64.b64encode(b'{"status":"401"}').decode())
                self.line()
                self.send("535 5.7.8 refused")
            else:
                self.send({"AUTH": "235 done", "QUIT": "221 bye"}.get(verb, "250 done"))


def adapter(name, language="python", **more):
    """A case for that Python that gets the result of drivers/adapters.py; the account's token is refused once if `refuse`."""
    def register(check):
        @case(f"adapter-{name}", language)
        def run(stage, language):
            with driving(stage, language, **more) as driver:
                check(stage, driver)
        return check
    return register


def refuse(stage, account):
    refused = stage.daemon.token(account)
    stage.refused.add(refused)
    return refused


@adapter("google")
def google(stage, driver):
    refused = refuse(stage, "adapter-1")
    done = driver.ok(do="adapter", name="google", account="adapter-1", url=f"{stage.server.url}/resource")
    must(done["status"] == 200 and refused not in done["text"], done)


# An account that no other case uses: httpx's, in another language's driver, refuses the token at the same time.
@adapter("azure", "python-pypi")
def azure(stage, driver):
    done = driver.ok(do="adapter", name="azure", account="adapter-7", url=f"{stage.server.url}/resource")
    must(done["status"] == 200 and done["replaced"] and "secret" not in done["text"], done)


@adapter("httpx")
def httpx(stage, driver):
    refuse(stage, "adapter-2")
    done = driver.ok(do="adapter", name="httpx", account="adapter-2", url=f"{stage.server.url}/resource")
    must(done["status"] == 200, done)


# botocore leaves its connections open.
@adapter("botocore", ends_well=False, AWS_EC2_METADATA_DISABLED="true")
def botocore(stage, driver):
    done = driver.ok(do="adapter", name="botocore", account="work", url=f"{stage.server.url}/sts")
    must(done == {"key": KEY, "session_token": SESSION}, done)
    must(stage.daemon.token("work") in stage.seen, "the role was assumed without the token")


@adapter("keyring")
def keyring(stage, driver):
    done = driver.ok(do="adapter", name="keyring", account="work")
    must(done == {"password": stage.daemon.token("work"), "stores": False, "other": None, "none": None}, done)


@adapter("redirect")
def redirect(stage, driver):
    token = stage.daemon.token("work")
    before = stage.seen.count(token)
    done = driver.ok(do="adapter", name="leaves_home", account="work", url=f"{stage.server.url}/elsewhere")
    must(done["status"] == 401 and stage.seen.count(token) == before, f"{done}: the other host got the token")


@contextlib.contextmanager
def mail_server(stage, handler, folder=None):
    """Its port. With the certificate in the folder, if that is given."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.stage, server.daemon_threads = stage, True
        if folder:
            server.socket = secured(server.socket, folder)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


ISSUER = "https://id.example.com/a"
LIBPQ = r"""
#include <string.h>
struct request {
  const char *configuration, *scope;
  void *asynchronous;
  void (*cleanup)(void *, struct request *);
  char *token;
  void *user;
};
typedef int (*hook)(int, void *, void *);
static int none(int kind, void *connection, void *data) { return kind == 0 && !connection && !data ? 7 : 0; }
static hook current = none;
int PQlibVersion(void) { return VERSION; }
void PQsetAuthDataHook(hook next) { current = next; }
hook PQgetAuthDataHook(void) { return current; }
int prompt(void) { return current(0, 0, 0); }
/* 2: the token was released after its use. */
int request(const char *configuration, char *used) {
  struct request data = {.configuration = configuration};
  int done = current(1, 0, &data);
  if (done <= 0) return done;
  strcpy(used, data.token);
  data.cleanup(0, &data);
  return data.token ? 1 : 2;
}
"""


def made_libpq(stage, version):
    """A libpq with only the functions of the hook: Debian 12 has none that has them."""
    source, made = stage.folder / f"libpq-{version}.c", stage.folder / f"libpq-{version}.so"
    source.write_text(LIBPQ)
    subprocess.run([need("gcc"), "-shared", "-fPIC", f"-DVERSION={version}", "-o", made, source], check=True)
    return str(made)


@case("adapter-psycopg", "python")
def psycopg(stage, language):
    def script(fake, asked):
        return error(asked, "login_required") if asked["params"]["account"] == "ended" else token(asked, issuer=ISSUER)
    with Fake(stage.folder / "fake-psycopg.sock", script) as fake, driving(stage, language, fake.path) as driver:
        done = driver.ok(do="adapter", name="psycopg", account="work", issuer=ISSUER, libpq=made_libpq(stage, 180_001))
        must(done["token"] == SECRET and done["openid"] == done["rfc8414"] == 2, f"{done}: one token for both documents")
        must(done["other"] == -1 and "another issuer" in done["other_error"], f"{done}: a token for another issuer")
        must(done["ended"] == -1 and "hint of login_required" in done["ended_error"], f"{done}: no token")
        must(done["prompt"] == 7 and done["removed"] == 0, f"{done}: the earlier hook")
        done = driver.ok(do="adapter", name="psycopg_error", libpq=made_libpq(stage, 150_018))
        must(done == {"message": "libpq 15.18 has no OAuth", "hint": "Install libpq 18 or newer."}, done)


@case("adapter-postgresql", "python-pypi")
def postgresql(stage, language):
    """psycopg with libpq 18 signs in: the server asks for a token, and gets it."""
    def script(fake, asked):
        return error(asked, "login_required") if asked["params"]["account"] == "ended" else token(asked, issuer=ISSUER)
    with Fake(stage.folder / "fake-postgresql.sock", script) as fake, Postgres(SECRET, ISSUER) as server, \
            driving(stage, language, fake.path) as driver:
        done = driver.ok(do="adapter", name="postgresql", account="work", issuer=ISSUER, port=server.port)
        must(done["libpq"] >= 180_000 and done["server"] == 180_000, done)
        ended, other = done["errors"]
        must("hint of login_required" in ended[1], f"{done}: no token")
        must(SECRET not in str(done) and server.seen[:2] == ["", f"Bearer {SECRET}"], f"{done}: {server.seen}")
        must(server.seen.count(f"Bearer {SECRET}") == 1, f"{server.seen}: a token for another issuer, or of an ended account")


def mail(name, handler, account, mechanism):
    @adapter(f"{name}-{mechanism.lower()}")
    def check(stage, driver):
        with mail_server(stage, handler) as port:
            refused = refuse(stage, account)
            done = driver.ok(do="adapter", name=name, account=account, mechanism=mechanism, port=port)
            must(done["state"] == "AUTH" and stage.seen.count(refused) == 1, done)


for number, mechanism in enumerate(("XOAUTH2", "OAUTHBEARER")):
    mail("imap", IMAP, f"adapter-{3 + number}", mechanism)
    mail("smtp", SMTP, f"adapter-{5 + number}", mechanism)
