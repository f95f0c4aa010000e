"""Real mail servers that take tokens: dovecot with its oauth2 passdb, and aiosmtpd."""

import json
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

from grantd_testing import Program, Wrong, free_ports, wait_until
from rig import HOST, Handler, Skip, need

START_SECONDS = 60
HERE = pathlib.Path(__file__).resolve().parent
MESSAGE = "From: bob@example.com\nTo: alice@example.com\nSubject: a greeting\n\nHello.\n"


class Introspection(Handler):
    """RFC 7662, as dovecot asks it."""

    def do_POST(self):
        token = dict(urllib.parse.parse_qsl(self.body().decode())).get("token")
        self.server.seen.append(token)
        self.json({"active": True, "email": self.server.user} if self.stage.is_alive(token) else {"active": False})


def introspection(stage):
    server = stage.serve(Introspection, tls=False)
    server.user = stage.daemon.json("show", stage.account)["identity"]["email"]
    return server


class Dovecot:
    def __init__(self, stage, asked):
        need("dovecot")
        self.user, (self.port,) = asked.user, free_ports()
        # Its processes are of other users, who cannot enter the test's own folder.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="grantd-dovecot-"))
        self.folder.chmod(0o755)
        self.log, self.place = self.folder / "log", f"{HOST}:{self.port}"
        is_root = os.getuid() == 0
        owner = pwd.getpwnam("nobody") if is_root else pwd.getpwuid(os.getuid())
        self.home = self.folder / "mail" / self.user
        inbox = self.home / "Maildir" / "new"
        for path in (inbox, inbox.with_name("cur"), inbox.with_name("tmp")):
            path.mkdir(parents=True)
        (inbox / "1.1.test").write_text(MESSAGE)
        for path in [self.home, *self.home.rglob("*")]:
            if is_root:
                os.chown(path, owner.pw_uid, owner.pw_gid)
        oauth = self.folder / "oauth2.conf"
        oauth.write_text(
            f"introspection_mode = post\nintrospection_url = {asked.url}/introspect\nactive_attribute = active\n"
            "active_value = true\nusername_attribute = email\n")
        config = self.folder / "dovecot.conf"
        alone = "" if is_root else (
            f"default_internal_user = {owner.pw_name}\ndefault_login_user = {owner.pw_name}\n"
            "default_internal_group = \nservice anvil {\n chroot =\n}\nservice imap-login {\n chroot =\n}\n")
        config.write_text(f"""base_dir = {self.folder}/run
state_dir = {self.folder}/state
log_path = {self.log}
protocols = imap
listen = 127.0.0.1
ssl = required
ssl_cert = <{stage.chain}
ssl_key = <{stage.key}
auth_mechanisms = xoauth2 oauthbearer
auth_failure_delay = 0
auth_verbose = yes
mail_location = maildir:~/Maildir
passdb {{
  driver = oauth2
  mechanisms = xoauth2 oauthbearer
  args = {oauth}
}}
userdb {{
  driver = static
  args = uid={owner.pw_uid} gid={owner.pw_gid} home={self.folder}/mail/%u
}}
service imap-login {{
  inet_listener imap {{
    port = 0
  }}
  inet_listener imaps {{
    port = {self.port}
    ssl = yes
  }}
}}
{alone}""")
        self.process = Program([need("dovecot"), "-F", "-c", config], self.folder / "output")
        stage.closing.append(self)
        wait_until(self.is_ready, START_SECONDS, "dovecot listens")

    def is_ready(self):
        if self.process.status is not None:
            raise Wrong(f"dovecot ended: {(self.folder / 'output').read_text()} {self.said()}")
        return "starting up" in self.said()

    def said(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def logins(self, mechanism):
        return self.said().count(f"Login: user=<{self.user}>, method={mechanism}")

    def close(self):
        self.process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Mailer:
    """aiosmtpd as a process of the Python that has it."""

    def __init__(self, stage, asked):
        python = next((path for path in (shutil.which("python3"), sys.executable, "/usr/bin/python3")
                       if path and not subprocess.run([path, "-c", "import aiosmtpd"], capture_output=True).returncode), None)
        if not python:
            raise Skip("Python's aiosmtpd is not installed")
        self.process = Program(
            [python, HERE / "smtp_server.py", stage.chain, stage.key, f"{asked.url}/introspect"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        stage.closing.append(self)
        line = self.process.stdout.readline().decode()
        if not line.startswith("port "):
            raise Wrong(f"aiosmtpd does not start: {line}")
        self.user, self.port, self.events = asked.user, int(line.split()[1]), []
        self.place = f"{HOST}:{self.port}"
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def messages(self, mechanism):
        return [event["message"] for event in self.events if "message" in event and event["mechanism"] == mechanism]

    def close(self):
        self.process.stop()
