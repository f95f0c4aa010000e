"""A token for fewer scopes must never harm the grant (RFC 6749 §6), at a server that rotates refresh tokens.

Such a server may bind the new refresh token to the scopes of the request, for good, and end the older access token. So
no refresh asks for fewer scopes: the caller gets the account's full token, or `scope_not_granted`.
"""

import json
import os
import shutil
import subprocess
import time

from grantd_testing import Checks

ASK_SECONDS, FILE_SECONDS, PAUSE_SECONDS = 60, 8, 0.1
SCOPES = {"openid", "profile", "email", "offline_access"}
OTHER_USER = 65534
# One call of the socket by another user, who cannot read this folder: the program is an argument.
ASK = """
import json, socket, sys
with socket.socket(socket.AF_UNIX) as stream:
    stream.settimeout(50)
    stream.connect(sys.argv[1])
    stream.sendall(sys.argv[2].encode() + b"\\n")
    print(stream.makefile().readline())
"""


class Narrow(Checks):
    def has_all_scopes(self, account):
        """The account's own token, also after a refresh."""
        # One after the other: a refresh may end the access token before it.
        for take in (self.broker.token, self.broker.refresh):
            token = take(account)
            assert self.server.scopes(token) == SCOPES, f"{account}: {self.server.introspect(token)}"
        scopes = set(self.broker.account(account)["scopes"])
        assert scopes == SCOPES, f"{account}: grantd says {sorted(scopes)}"

    def asks_for_less(self):
        """What the caller gets: the full token, or the reason why not."""
        self.login("narrow")
        self.older = self.broker.token("narrow")
        answer = self.broker.ctl("token", "narrow", "--scope", "openid", "--json")
        if answer.returncode == 0:
            result = json.loads(answer.stdout)
            self.broker.tokens.add(result["access_token"])
            scopes = self.server.scopes(result["access_token"])
            assert scopes == SCOPES, f"the token has {sorted(scopes)} at the server"
            assert set(result["scope"]) == SCOPES, f"grantd says that the token has {result['scope']}"
        else:
            self.is_not_granted(json.loads(answer.stderr)["error"])

    def is_not_granted(self, error):
        assert error["data"].get("reason") == "scope_not_granted", error
        assert error["message"] and error["data"].get("hint"), f"no reason: {error}"

    def older_token_works(self):
        assert self.server.scopes(self.older) == SCOPES, self.server.introspect(self.older)
        status, claims = self.server.userinfo(self.older)
        assert status == 200, (status, claims)

    def no_narrowed_refresh(self):
        """Of all accounts, so far. A refresh may name the scopes that were granted."""
        refreshes = self.server.requests("refresh_token")
        assert len(refreshes) > 5, len(refreshes)
        narrowed = [entry["fields"]["scope"] for entry in refreshes
                    if "scope" in entry["fields"] and set(" ".join(entry["fields"]["scope"]).split()) != SCOPES]
        assert not narrowed, f"{len(narrowed)} of {len(refreshes)} refreshes asked for {narrowed}"

    def file(self):
        """A `[[file]]` with `scopes` has the full token, or is not written."""
        self.login("filed")
        self.has_all_scopes("filed")
        path = self.broker.folder / "files" / "filed.token"
        # It is written after the refresh, and not at all if the broker gives no such token.
        end = time.monotonic() + FILE_SECONDS
        while (scopes := self.server.scopes(path.read_text()) if path.exists() else None) != SCOPES:
            if time.monotonic() > end:
                assert scopes is None, f"the token in the file has {sorted(scopes)}"
                return
            time.sleep(PAUSE_SECONDS)

    def capped(self):
        """A caller whose rule caps the scopes gets no token."""
        self.login("capped")
        for scopes in ({}, {"scopes": ["openid"]}):
            call = {"jsonrpc": "2.0", "id": 1, "method": "token.get", "params": {"account": "capped"} | scopes}
            answer = self.as_other_user(call)
            assert "error" in answer, f"{scopes}: a token with {sorted(self.server.scopes(answer['result']['access_token']))}"
            self.is_not_granted(answer["error"])

    def as_other_user(self, call):
        python = next(path for path in ("/usr/bin/python3", shutil.which("python3")) if path and os.access(path, os.X_OK))
        done = subprocess.run(
            ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups", python, "-c", ASK,
             self.broker.socket, json.dumps(call)], capture_output=True, text=True, timeout=ASK_SECONDS, cwd="/",
            stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr[-600:]
        return json.loads(done.stdout)

    def narrow_checks(self):
        self.check("narrow: the caller gets the full token or scope_not_granted", self.asks_for_less)
        self.check("narrow: the older access token still works", self.older_token_works)
        self.check("narrow: the account's own token keeps all scopes", lambda: self.has_all_scopes("narrow"))
        self.check("narrow: a [[file]] with scopes keeps the grant and has the full token", self.file)
        other_user = os.getuid() == 0 and shutil.which("setpriv")
        for name, action in (("narrow: a rule that caps the scopes gives scope_not_granted", self.capped),
                             ("narrow: that rule's account keeps all scopes", lambda: self.has_all_scopes("capped"))):
            if other_user:
                self.check(name, action)
            else:
                self.skip(name, "only root can ask as another user")
        self.check("narrow: no refresh asks for fewer scopes", self.no_narrowed_refresh)
