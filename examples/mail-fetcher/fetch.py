#!/usr/bin/env python3
"""Moves unread mail of an IMAP inbox into a Maildir, and marks it as read.

    fetch.py HOST[:PORT] USER MAILDIR     ACCOUNT in the environment names the account, `work` by default
"""

import imaplib
import mailbox
import os
import ssl
import sys

import grantd
from grantd.adapters.mail import imap_login

ACCOUNT = os.environ.get("ACCOUNT", "work")


def fetch(imap, folder):
    imap.select("INBOX")
    _, (numbers,) = imap.uid("SEARCH", "UNSEEN")
    for number in numbers.split():
        _, ((_, message), *_) = imap.uid("FETCH", number, "(BODY.PEEK[])")
        # On disk before the server's mark: a message that is fetched twice is better than a lost one.
        folder.add(message)
        imap.uid("STORE", number, "+FLAGS.SILENT", r"(\Seen)")
    return len(numbers.split())


def main():
    place, user, path = sys.argv[1:]
    host, _, port = place.partition(":")
    context = ssl.create_default_context()
    with imaplib.IMAP4_SSL(host, int(port or imaplib.IMAP4_SSL_PORT), ssl_context=context, timeout=60) as imap:
        # Takes the token, and a new one if the server refuses it.
        imap_login(imap, ACCOUNT, user)
        print(fetch(imap, mailbox.Maildir(path)), "messages")


try:
    main()
except grantd.TemporarilyUnavailable as error:
    # EX_TEMPFAIL of sysexits.h: the next run can succeed.
    print(f"fetch: {error}", file=sys.stderr)
    sys.exit(75)
except grantd.GrantdError as error:
    # With the user's next step, such as `grantctl login`.
    sys.exit(f"fetch: {error}")
