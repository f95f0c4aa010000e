"""As much of an IMAP server as aerc asks for until it has signed in by OAUTHBEARER (RFC 7628) and shows an inbox."""

import base64
import contextlib
import re
import socket

from grantd_testing import StreamServer

READ_SECONDS = 60


class Mailbox(StreamServer):
    def __init__(self, provider, context):
        self.provider, self.context, self.seen = provider, context, []
        super().__init__()

    def serve(self, plain):
        plain.settimeout(READ_SECONDS)
        with contextlib.suppress(OSError), plain, self.context.wrap_socket(plain, server_side=True) as stream:
            file = stream.makefile("rwb")

            def say(text):
                file.write(f"{text}\r\n".encode())
                file.flush()
            say("* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=OAUTHBEARER] ready")
            while line := file.readline().decode(errors="replace").strip():
                tag, _, words = line.partition(" ")
                command, _, rest = words.partition(" ")
                command = command.upper()
                if command == "AUTHENTICATE":
                    _, _, text = rest.partition(" ")
                    if not text:
                        say("+ ")
                        text = file.readline().decode().strip()
                    found = re.search(rb"auth=Bearer ([^\x01]*)\x01", base64.b64decode(text))
                    token = found[1].decode() if found else ""
                    self.seen.append(token)
                    if not self.provider.is_alive(token):
                        say(f"{tag} NO [AUTHENTICATIONFAILED] dead")
                        continue
                elif command == "CAPABILITY":
                    say("* CAPABILITY IMAP4rev1 SASL-IR AUTH=OAUTHBEARER")
                elif command in ("LIST", "LSUB"):
                    say(f'* {command} () "/" INBOX')
                elif command in ("SELECT", "EXAMINE"):
                    for text in ("FLAGS (\\Seen)", "0 EXISTS", "0 RECENT", "OK [UIDVALIDITY 1] x", "OK [UIDNEXT 1] x"):
                        say(f"* {text}")
                elif command == "STATUS":
                    say("* STATUS INBOX (MESSAGES 0 RECENT 0 UNSEEN 0)")
                elif command == "UID" and rest.upper().startswith(("SEARCH", "SORT")):
                    say(f"* {rest.split()[0].upper()}")
                say(f"{tag} OK done")

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
