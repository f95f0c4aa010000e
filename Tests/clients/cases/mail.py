"""msmtp, mbsync, neomutt and curl against real mail servers, with XOAUTH2 and OAUTHBEARER."""

import os
import pathlib
import pty
import re
import select
import subprocess
import time

from grantd_testing import wait_until
from mailservers import Dovecot, Mailer, introspection
from rig import Skip, case, find, has, must

WAIT_SECONDS = 60
SCREEN_SECONDS = 40


def configure(stage, tool, place):
    """As a person does it; the file is as others make it before."""
    stage.run(stage.bin / "grantctl", "configure", tool, stage.account, place, "--write").ok()


# ---- msmtp

def msmtp(stage, server, mechanism):
    path = stage.file(".msmtprc", f"defaults\ntls_trust_file {stage.ca}\n")
    path.chmod(0o600)
    configure(stage, "msmtp", server.place)
    path.write_text(path.read_text().replace("auth oauthbearer", f"auth {mechanism.lower()}"))
    return stage.run(find("msmtp"), "-a", stage.account, "bob@example.com", text=f"Subject: by {mechanism}\n\nHello.\n")


@case("msmtp.send", "msmtp")
def msmtp_send(stage):
    server = Mailer(stage, introspection(stage))
    for mechanism in ("OAUTHBEARER", "XOAUTH2"):
        msmtp(stage, server, mechanism).ok()
        wait_until(lambda: server.messages(mechanism), WAIT_SECONDS, f"a message by {mechanism}")
        has(server.messages(mechanism)[0], f"by {mechanism}")


@case("msmtp.revoked", "msmtp")
def msmtp_revoked(stage):
    server = Mailer(stage, introspection(stage))
    stage.revoke()
    for mechanism in ("OAUTHBEARER", "XOAUTH2"):
        has(msmtp(stage, server, mechanism).fails().err, "authentication failed")
    stage.report(stage.account)
    msmtp(stage, server, "OAUTHBEARER").ok()


@case("msmtp.ended", "msmtp")
def msmtp_ended(stage):
    server = Mailer(stage, introspection(stage))
    with stage.ended() as hint:
        has(msmtp(stage, server, "OAUTHBEARER").fails().err, hint)


# ---- mbsync

def needs_xoauth2():
    if not list(pathlib.Path("/usr/lib").glob("*/sasl2/*oauth2.so")):
        raise Skip("no SASL module for XOAUTH2 is installed")


def mbsync(stage, server):
    needs_xoauth2()
    (stage.home / "Mail" / stage.account).mkdir(parents=True, exist_ok=True)
    stage.file(".mbsyncrc", "")
    configure(stage, "mbsync", server.place)
    return stage.run("timeout", "20", find("mbsync"), stage.account)


@case("mbsync.sync", "mbsync")
def mbsync_sync(stage):
    server = Dovecot(stage, introspection(stage))
    mbsync(stage, server).ok()
    found = list((stage.home / "Mail" / stage.account / "INBOX").rglob("*,*"))
    must(any("Subject: a greeting" in path.read_text() for path in found if path.is_file()), f"no message came: {found}")
    must(server.logins("XOAUTH2") == 1, server.said())


@case("mbsync.ended", "mbsync")
def mbsync_ended(stage):
    server = Dovecot(stage, introspection(stage))
    with stage.ended() as hint:
        has(mbsync(stage, server).fails().err, hint)


# ---- neomutt

def screen(stage, *command, until=lambda: False):
    """What a program shows on a terminal until it ends, without its control sequences."""
    terminal, other = pty.openpty()
    # The first terminal that a session opens becomes its own: /dev/tty.
    process = subprocess.Popen(
        ["sh", "-c", 'exec "$@" <>"$0" >&0 2>&0', os.ttyname(other), *(str(word) for word in command)],
        start_new_session=True, cwd=stage.home, env=stage.environment(TERM="xterm", COLUMNS="200", LINES="50"))
    shown, end = b"", time.monotonic() + SCREEN_SECONDS
    try:
        while time.monotonic() < end and not until():
            has_ended = process.poll() is not None
            if select.select([terminal], [], [], 0.1)[0]:
                shown += os.read(terminal, 1 << 16)
            elif has_ended:
                break
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
        os.close(other)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][0-9A-B]|\x1b[=>]|\r", "", shown.decode(errors="replace"))


def neomutt(stage, server, mechanism):
    stage.file(".config/neomutt/neomuttrc", f'set ssl_ca_certificates_file = "{stage.ca}"\nset header_cache = ""\n'
               'set quit = yes\nset sleep_time = 0\nset wait_key = no\n')
    configure(stage, "neomutt", server.place)
    authenticators = f'set imap_authenticators = "{mechanism.lower()}"'
    return screen(stage, find("neomutt"), "-e", authenticators, "-e", "push <quit>")


@case("neomutt.read", "neomutt")
def neomutt_read(stage):
    server = Dovecot(stage, introspection(stage))
    for mechanism in ("OAUTHBEARER", "XOAUTH2"):
        shown = neomutt(stage, server, mechanism)
        must(server.logins(mechanism) == 1, f"{mechanism}: {shown[-600:]} {server.said()[-600:]}")


@case("neomutt.ended", "neomutt")
def neomutt_ended(stage):
    server = Dovecot(stage, introspection(stage))
    with stage.ended() as hint:
        shown = neomutt(stage, server, "OAUTHBEARER")
        has(" ".join(shown.split()), hint)


@case("neomutt.send", "neomutt")
def neomutt_send(stage):
    server = Mailer(stage, introspection(stage))
    for mechanism in ("OAUTHBEARER", "XOAUTH2"):
        user = stage.daemon.json("show", stage.account)["identity"]["email"]
        path = stage.file("send.rc", f"""set ssl_ca_certificates_file = "{stage.ca}"
set smtp_url = "smtp://{user.replace("@", "%40")}@{server.place}/"
set smtp_authenticators = "{mechanism.lower()}"
set smtp_oauth_refresh_command = "grantctl token {stage.account}"
set ssl_force_tls = yes
set copy = no
set from = "{user}"
""")
        stage.run(find("neomutt"), "-F", path, "-s", f"by {mechanism}", "bob@example.com", text="Hello.\n").ok()
        wait_until(lambda: server.messages(mechanism), WAIT_SECONDS, f"a message by {mechanism}")


# ---- the SASL strings, as other programs send them

@case("sasl.imap")
def sasl(stage):
    server = Dovecot(stage, introspection(stage))
    place = ("--host", "localhost", "--port", server.port)
    for words in ((stage.account, "xoauth2"), (stage.account, "oauthbearer"), (stage.account, "oauthbearer", *place)):
        response = stage.run(stage.bin / "grantctl", "sasl", *words).ok().out.strip()
        done = stage.run(
            "openssl", "s_client", "-quiet", "-CAfile", stage.ca, "-connect", server.place,
            text=f"a AUTHENTICATE {words[1].upper()} {response}\r\nb LOGOUT\r\n")
        has(done.out, "a OK")
    with stage.ended() as hint:
        done = stage.run(stage.bin / "grantctl", "sasl", stage.account, "xoauth2")
        must(done.status == 3 and done.out == "", f"{done}")
        has(done.err, hint)
