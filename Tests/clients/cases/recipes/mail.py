"""mbsync, msmtp, neomutt, aerc and getmail, as their pages have them."""

import os

from cases.mail import WAIT_SECONDS, needs_xoauth2, screen
from grantd_testing import wait_until
from mailservers import Dovecot, Mailer, introspection
from recipes import recipe
from rig import HOST, Skip, find, has, must

PERSON, IMAP, SMTP = "ada@example.com", "imap.example.com", "smtp.example.com"
# Of the same user, who is not root, in the eyes of the program.
NOT_ROOT = ("unshare", "--user", "--map-user=1000")


def mailboxes(stage, page):
    server = Dovecot(stage, introspection(stage))
    page.replace({IMAP: HOST, "993": server.port, PERSON: server.user})
    return server


def arrived(stage, folder):
    found = [path for path in (stage.home / "Mail" / folder).rglob("*") if path.is_file()]
    must(any("Subject: a greeting" in path.read_text(errors="replace") for path in found), f"no message came: {found}")


@recipe("mbsync", "mbsync")
def mbsync(stage, page):
    needs_xoauth2()
    mailboxes(stage, page)
    page.run().ok()
    page.is_written("~/.mbsyncrc")
    arrived(stage, "work")
    page.ended()


@recipe("msmtp", "msmtp")
def msmtp(stage, page):
    server = Mailer(stage, introspection(stage))
    page.replace({SMTP: HOST, "587": server.port, PERSON: server.user})
    stage.file(".msmtprc", f"defaults\ntls_trust_file {stage.ca}\n").chmod(0o600)
    page.run().ok()
    page.is_written("~/.msmtprc")
    wait_until(lambda: server.messages("OAUTHBEARER"), WAIT_SECONDS, "a message")
    has(server.messages("OAUTHBEARER")[0], "Subject: a test")
    page.ended()
    must(page.status == 78, f"status {page.status}")


@recipe("neomutt", "neomutt")
def neomutt(stage, page):
    reading = mailboxes(stage, page)
    sending = Mailer(stage, introspection(stage))
    page.replace({SMTP: HOST, "587": sending.port, "ada%40example.com": sending.user.replace("@", "%40")})
    path = "~/.config/neomutt/neomuttrc"
    # What is of this test: its authority, and an end without a person.
    stage.file(path[2:], f'set ssl_ca_certificates_file = "{stage.ca}"\nset header_cache = ""\nset quit = yes\n'
               'set sleep_time = 0\nset wait_key = no\nset copy = no\n')
    page.run(0).ok()
    page.is_written(path)
    must(reading.logins("OAUTHBEARER") == 0, "it has signed in")
    screen(stage, find("neomutt"), "-e", "push <quit>")
    must(reading.logins("OAUTHBEARER") == 1, reading.said())
    page.add(path)
    page.run(1).ok()
    wait_until(lambda: sending.messages("OAUTHBEARER"), WAIT_SECONDS, "a message")
    page.ended(lambda command: screen(stage, find(command), "-e", "push <quit>"))


@recipe("aerc", "aerc")
def aerc(stage, page):
    server = mailboxes(stage, page)
    page.replace({"ada%40example.com": server.user.replace("@", "%40")})
    page.run().ok()
    path = "~/.config/aerc/accounts.conf"
    page.is_written(path)
    (stage.home / path[2:]).chmod(0o600)
    screen(stage, find("aerc"), until=lambda: server.logins("OAUTHBEARER"))
    must(server.logins("OAUTHBEARER"), server.said())
    page.ended(lambda command: screen(stage, *command.split()))


@recipe("getmail", "getmail")
def getmail(stage, page):
    mailboxes(stage, page)
    page.replace({"/etc/ssl/certs/ca-certificates.crt": stage.ca})
    if os.getuid() == 0:
        if stage.run(*NOT_ROOT, "true").status:
            raise Skip("getmail delivers nothing as root, and there are no user namespaces")
        page.prefix = NOT_ROOT
    page.write("~/.config/getmail/getmailrc")
    page.run().ok()
    arrived(stage, "getmail")
    page.ended()
