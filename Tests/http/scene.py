"""What a case runs on: a provider and resource servers of the test's own, and one grantd with its listener."""

import contextlib
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import upstream
from grantd_testing import CommandedDaemon, environment, free_ports, wait_until
from provider import LIFETIME_SECONDS, Provider
from rig import HOST, Ran, Skip, must
from sts import TokenService
from wire import ask

START_SECONDS = 60
COMMAND_SECONDS = 120
# Of grantctl: its status.
LOGIN_REQUIRED = 3
PAUSE_SECONDS = 0.05
SECRET = "secret"
# Of the rules of the system's broker: who may use accounts, who nothing, who only sends requests, who gets a part of
# the scopes, and for whom a person is asked.
USER, OTHER, SENDER, CAPPED, ASKING = 4711, 4712, 4713, 4715, 4716


class Broker(CommandedDaemon):
    """grantd with a listener whose port the kernel chooses."""

    def __init__(self, programs, folder, sections, instance="user", host="127.0.0.1"):
        super().__init__(programs, folder, free_ports()[0],
                         f'[http]\nlisten = "{host}:0"\nunix = "http.sock"\n{sections}')
        self.host = host
        self.instance, self.unix, self.address = instance, folder / "http.sock", None

    def start(self):
        words = ("serving HTTP", f"{self.host}:")
        before = len(self.lines(*words))
        super().start()
        wait_until(lambda: len(self.lines(*words)) > before, START_SECONDS, "the listener serves")
        self.address = int(re.search(rf"{re.escape(self.host)}:(\d+)", self.lines(*words)[-1])[1])

    @property
    def url(self):
        return f"http://{self.host}:{self.address}"

    def must(self, *words, text=None):
        done = subprocess.run([self.products / "grantctl", "--socket", self.socket, *words], input=text,
                              capture_output=True,
                              text=True, timeout=COMMAND_SECONDS)
        must(done.returncode == 0, f"grantctl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def lost(self, account):
        """A server refuses the token, and so does the provider the grant: the person must sign in again."""
        # The grant first, as its owner wishes: of reports that cost a token a caller has few.
        self.ctl("refresh", account)
        held = json.loads(self.must("call", "token.get", json.dumps({"account": account})))
        self.ctl("call", "token.report_rejected", json.dumps({"account": account, "generation": held["generation"]}))
        wait_until(lambda: self.ctl("token", account).returncode == LOGIN_REQUIRED, START_SECONDS, "login_required")

    def imported(self, section, account):
        self.must("import", account, "--provider", section, text=f"rt-{account}\n")
        return account


class Scene:
    def __init__(self, programs, folder, is_long=False):
        self.programs, self.folder, self.is_long = programs, folder, is_long
        self.home, self.count, self.closing = folder / "home", itertools.count(1), []
        self.home.mkdir()
        self.certificate()
        self.secret = folder / "secret"
        self.secret.write_text(SECRET)
        self.secret.chmod(0o600)
        self.packages = packages()
        self.kept = {}

    def start(self):
        self.provider = self.closed(Provider())
        self.upstream = self.closed(upstream.Upstream(self.provider))
        # Another origin that the token may go to, one that it may not, and one with TLS for clients with a certificate.
        self.second = self.closed(upstream.Upstream(self.provider))
        self.foreign = self.closed(upstream.Upstream(self.provider))
        self.secure = self.closed(upstream.Upstream(self.provider, upstream.tls(self.chain, self.key, self.ca)))
        self.sts = self.closed(TokenService(self.provider))
        self.broker = self.closed(Broker(self.programs, self.folder, self.sections()))

    def launch(self):
        self.broker.start()
        for section, account in {"p": "work", "mtls": "cert"}.items():
            self.broker.imported(section, account)
        for account in ("google", "entra"):
            self.broker.imported("p", account)

    def closed(self, one):
        self.closing.append(one)
        return one

    def close(self):
        for one in reversed(self.closing):
            with contextlib.suppress(Exception):
                one.close()

    # ---- the configuration

    def section(self, name, *lines):
        """A provider whose accounts are imported, of the test's provider."""
        return "\n".join([
            f'[provider.{name}]', 'kind = "oauth2"', f'token_endpoint = "{self.provider.url}/{name}/token"',
            f'authorization_endpoint = "{self.provider.url}/none"', 'client_id = "c"', 'scopes = ["a", "b"]',
            'rotation = "none"', f'client_secret_file = "{self.secret}"', *lines, ""])

    def plain(self, name="p"):
        return self.section(name, f'api_base = "{self.upstream.url}"',
                            f'api_origins = ["{self.upstream.url}", "{self.second.url}"]')

    def sections(self):
        return "\n".join([
            self.plain(), self.section("dpop", "dpop = true", f'api_base = "{self.upstream.url}"'),
            # Known to the provider by its section: no refresh token is imported without its key.
            '[account.bound]\nprovider = "dpop"\ngrant = "client_credentials"\n',
            self.section("mtls", f'api_base = "{self.secure.url}"', f'tls_ca_file = "{self.ca}"',
                         f'tls_certificate_file = "{self.chain}"', f'tls_key_file = "{self.key}"'),
            self.plain("down"), self.robot(), self.handles(), self.clouds()])

    def robot(self):
        """Its tokens are JWTs, and it needs no person."""
        return self.section("jwt", f'api_base = "{self.upstream.url}"') + (
            '[account.robot]\nprovider = "jwt"\ngrant = "client_credentials"\n')

    def handles(self):
        return ('[[handle]]\nname = "narrow"\naccount = "work"\nscopes = ["a"]\n'
                '[[handle]]\nname = "there"\naccount = "work"\nresource = "https://there.example.com/"\n'
                '[[handle]]\nname = "metrics"\naccount = "work"\n')

    def clouds(self):
        return ('[[cloud]]\nkind = "gcp"\naccount = "google"\nproject = "my-project"\nemail = "me@example.com"\n'
                '[[cloud]]\nkind = "azure"\nname = "prod"\naccount = "entra"\n'
                'resource = "https://management.azure.com/"\n'
                + self.sts.section())

    def account(self, section="p", lifetime=LIFETIME_SECONDS):
        """One of the case's own."""
        name = f"{section}-{next(self.count)}"
        self.provider.lifetimes[name] = lifetime
        return self.broker.imported(section, name)

    @contextlib.contextmanager
    def another(self, sections, instance="user", **more):
        """A broker of the case's own, where others can go."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="grantd-http-"))
        folder.chmod(0o755)
        broker = Broker(self.programs, folder, sections, instance, **more)
        try:
            broker.start()
            yield broker
        finally:
            broker.close()
            subprocess.run(["rm", "-rf", folder], check=False)

    @property
    def system(self):
        """The system's broker, with rules for users who are not root."""
        if "system" not in self.kept:
            if os.getuid() != 0:
                raise Skip("only root can start programs as other users")
            context = self.another(self.plain() + self.robot() + self.rules(), "system")
            broker = self.kept["system"] = context.__enter__()
            self.closed(Leaver(context))
            broker.imported("p", "work")
        return self.kept["system"]

    def rules(self):
        return (f'[[rule]]\nuid = {USER}\naccounts = ["work", "robot"]\naccess = ["use"]\n'
                f'[[rule]]\nuid = {SENDER}\naccounts = ["work"]\naccess = ["use"]\n'
                f'requests = ["GET /allowed/*", "POST {self.second.place}/both/*", "* /exact"]\n'
                '[[rule]]\nuid = 4714\nexe = "/usr/bin/curl"\naccounts = ["work"]\naccess = ["use"]\n'
                f'[[rule]]\nuid = {CAPPED}\naccounts = ["work"]\naccess = ["use"]\nscopes = ["a"]\n'
                f'[[rule]]\nuid = {ASKING}\naccounts = ["work"]\naccess = ["use"]\nconfirm = true\n'
                'confirm_timeout = "10s"\n')

    # ---- programs

    def environment(self, **more):
        return environment(self.folder) | {
            "HOME": str(self.home), "LC_ALL": "C.UTF-8", "NO_PROXY": "*", "PYTHONDONTWRITEBYTECODE": "1"} | more

    def run(self, *command, seconds=COMMAND_SECONDS, text=None, cwd=None, **more):
        given = {"stdin": subprocess.DEVNULL} if text is None else {"input": text.encode()}
        done = subprocess.run([str(word) for word in command], capture_output=True, timeout=seconds,
                              cwd=cwd or self.home,
                              env=self.environment(**more), **given)
        return Ran(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"), 0)

    def python(self, *modules):
        """A Python that has these modules."""
        for program in self.packages:
            test = "import importlib.util as u, sys; sys.exit(not all(u.find_spec(name) for name in sys.argv[1:]))"
            tops = [module.partition(".")[0] for module in modules]
            if subprocess.run([program, "-c", test, *tops], capture_output=True, check=False).returncode == 0:
                return program
        raise Skip(f"Python has no {' or '.join(modules)}: scripts/deps --tests installs them")

    def file(self, name, text):
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    # ---- requests

    def ask(self, method, target, body=None, fields=(), **more):
        return ask(self.broker.address, method, target, body, fields, **more)

    def certificate(self):
        """An authority, and a certificate of it for loopback, which clients show as well."""
        self.ca, self.key, self.chain = (self.folder / name for name in ("ca.pem", "key.pem", "chain.pem"))
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        authority = self.folder / "ca.key"
        for arguments in (
                ["-subj", "/CN=test authority", "-addext", "basicConstraints=critical,CA:TRUE",
                 "-addext", "keyUsage=critical,keyCertSign", "-keyout", authority, "-out", self.ca],
                ["-CA", self.ca, "-CAkey", authority, "-subj", f"/CN={HOST}", "-addext", "basicConstraints=CA:FALSE",
                 "-addext", f"subjectAltName=DNS:{HOST},IP:127.0.0.1", "-addext",
                 "extendedKeyUsage=serverAuth,clientAuth",
                 "-keyout", self.key, "-out", self.chain]):
            subprocess.run(["openssl", "req", "-x509", *key, *arguments], check=True, capture_output=True)


class Leaver:
    """Leaves a context when it is closed."""

    def __init__(self, context):
        self.context = context

    def close(self):
        self.context.__exit__(None, None, None)


def packages():
    """Pythons with what PyPI has: the environment that scripts/deps fills, else that of the user."""
    own = pathlib.Path(__file__).resolve().parents[2] / ".build" / "python" / "bin" / "python3"
    named = os.environ.get("GRANTD_TEST_PYTHON")
    return [str(path) for path in (named, own, sys.executable) if path and os.access(path, os.X_OK)]


def restart(broker):
    broker.end(signal.SIGTERM)
    broker.start()
