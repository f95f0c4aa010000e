#!/usr/bin/env python3
"""smtp_server.py CERTIFICATE KEY INTROSPECTION: aiosmtpd that takes XOAUTH2 and OAUTHBEARER behind STARTTLS.

Prints `port N`, then a line of JSON for each message and each refusal. Ends with its standard input.
"""

import base64
import json
import logging
import socket
import ssl
import sys
import urllib.parse
import urllib.request

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import MISSING, SMTP, AuthResult

logging.disable()
SMTP.command_size_limit = 12288
CERTIFICATE, KEY, INTROSPECTION = sys.argv[1:]


def say(**members):
    print(json.dumps(members), flush=True)


def who(token):
    """The user of a token that is alive."""
    form = urllib.parse.urlencode({"token": token}).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(INTROSPECTION, form, timeout=60) as answer:
        facts = json.load(answer)
    return facts.get("email") if facts.get("active") else None


class Handler:
    async def answer(self, server, args, mechanism):
        if len(args) > 1:
            data = base64.b64decode(args[1])
        else:
            data = await server.challenge_auth("")
            if data is MISSING:
                return AuthResult(success=False, handled=True)
        parts = data.decode().split("\1")
        token = next(part.removeprefix("auth=Bearer ") for part in parts if part.startswith("auth=Bearer "))
        first = parts[0]
        user = first.removeprefix("user=") if mechanism == "XOAUTH2" else first.split(",")[1].removeprefix("a=")
        if who(token) == user:
            return AuthResult(success=True, auth_data=(user, mechanism))
        say(refused=user, mechanism=mechanism)
        challenge = base64.b64encode(b'{"status":"401","schemes":"bearer","scope":"mail"}').decode()
        await server.push(f"334 {challenge}")
        await server._reader.readline()
        return AuthResult(success=False, handled=False)

    async def auth_XOAUTH2(self, server, args):
        return await self.answer(server, args, "XOAUTH2")

    async def auth_OAUTHBEARER(self, server, args):
        return await self.answer(server, args, "OAUTHBEARER")

    async def handle_DATA(self, server, session, envelope):
        user, mechanism = session.auth_data
        say(message=envelope.content.decode(errors="replace"), user=user, mechanism=mechanism)
        return "250 OK"


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(CERTIFICATE, KEY)
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
controller = Controller(
    Handler(), "127.0.0.1", port, tls_context=context, require_starttls=True, auth_required=True,
    auth_exclude_mechanism=["LOGIN", "PLAIN"])
controller.start()
print(f"port {port}", flush=True)
sys.stdin.read()
controller.stop()
