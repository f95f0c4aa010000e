"""Logins of imaplib and smtplib by XOAUTH2 or OAUTHBEARER (RFC 7628).

    imap = imaplib.IMAP4_SSL("imap.example.com")
    imap_login(imap, "work", "ada@example.com")
"""

from __future__ import annotations

import imaplib
import smtplib
from typing import Callable, Optional, Tuple, Type, Union

from .._client import Client
from .._token import Token
from ._source import Source

MECHANISMS = ("XOAUTH2", "OAUTHBEARER")


def xoauth2(user: str, token: Token) -> str:
    """The initial response of XOAUTH2, before base64. It contains the token."""
    return f"user={user}\x01auth={token.authorization}\x01\x01"


def oauthbearer(user: str, token: Token, host: str = "", port: int = 0) -> str:
    """The initial response of OAUTHBEARER (RFC 7628 §3.1), before base64. It contains the token."""
    name = user.replace("=", "=3D").replace(",", "=2C")
    place = (f"host={host}\x01" if host else "") + (f"port={port}\x01" if port else "")
    return f"n,a={name},\x01{place}auth={token.authorization}\x01\x01"


def imap_login(
        imap: imaplib.IMAP4, account: str, user: str, mechanism: str = "XOAUTH2", *, client: Optional[Client] = None) -> None:
    """Logs in with the account's token. A refused token is reported, and the login tried once more.

    :raises imaplib.IMAP4.error: the server refused the second token too.
    """
    def attempt(response: str) -> None:
        steps = iter([response.encode()])
        # The server's error of a refused token is answered by an empty line, or %x01 (RFC 7628 §3.2.3).
        imap.authenticate(mechanism, lambda challenge: next(steps, b"" if mechanism == "XOAUTH2" else b"\x01"))
    login(attempt, imaplib.IMAP4.error, Source(account, client=client), user, mechanism, imap.host, imap.port)


def smtp_login(
        smtp: smtplib.SMTP, account: str, user: str, mechanism: str = "XOAUTH2", *, client: Optional[Client] = None) -> None:
    """Logs in with the account's token; call `ehlo` and `starttls` before. A refused token is reported, and the login tried
    once more.

    :raises smtplib.SMTPAuthenticationError: the server refused the second token too.
    """
    def attempt(response: str) -> None:
        steps = iter([response])
        smtp.auth(mechanism, lambda challenge=None: next(steps, "" if mechanism == "XOAUTH2" else "\x01"))
    login(attempt, smtplib.SMTPAuthenticationError, Source(account, client=client), user, mechanism, "", 0)


def login(
        attempt: Callable[[str], None], refused: Union[Type[Exception], Tuple[Type[Exception], ...]], source: Source,
        user: str, mechanism: str, host: str, port: int) -> None:
    if mechanism not in MECHANISMS:
        raise ValueError(f"the mechanism is one of {', '.join(MECHANISMS)}, not {mechanism}")

    def response(token: Token) -> str:
        return xoauth2(user, token) if mechanism == "XOAUTH2" else oauthbearer(user, token, host, port)
    token = source.token()
    try:
        attempt(response(token))
    except refused:
        attempt(response(source.after(token)))
