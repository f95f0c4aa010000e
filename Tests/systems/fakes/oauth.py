"""What the three OAuth systems share: codes with PKCE (RFC 7636), access and refresh tokens, errors (RFC 6749 §5.2)."""

import base64
import dataclasses
import hashlib
import re
import secrets
import time

from .server import Answer, Fake, Refusal

CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


@dataclasses.dataclass
class Code:
    """What a code stands for."""

    client_id: str
    redirect_uri: str
    challenge: str = None
    scope: str = ""
    nonce: str = None
    offline: bool = True


class OAuthFake(Fake):
    """A subclass has `client_id` and decides what its answers say."""

    client_id = "client"

    def __init__(self):
        super().__init__()
        # Codes that may be used; those that were. Access tokens that are good; refresh tokens that are good.
        self.codes, self.spent, self.access, self.refresh_tokens = {}, set(), {}, {}
        # When access tokens end, by the clock of time.monotonic.
        self.ends = {}
        # The challenges that logins came with, in order.
        self.challenges = []

    def refuse(self, reason, error="invalid_request", status=400):
        raise Refusal(reason, Answer.json(status, {"error": error, "error_description": reason}))

    def challenge(self, values):
        """The code challenge of an authorization request, which is there and is S256."""
        if values.get("code_challenge_method") != "S256" or not CHALLENGE.fullmatch(values.get("code_challenge", "")):
            self.refuse(f"the challenge is {values.get('code_challenge')!r} by {values.get('code_challenge_method')!r}")
        if values["code_challenge"] in self.challenges:
            self.refuse("the challenge was used before")
        self.challenges.append(values["code_challenge"])
        return values["code_challenge"]

    def new_code(self, code):
        made = secrets.token_urlsafe(12)
        self.codes[made] = code
        return made

    def redeem(self, values):
        """The code of an exchange: good once, for the client, the redirect URI and the verifier that belong to it."""
        if values["code"] in self.spent:
            self.refuse("the code is sent twice", "invalid_grant")
        code = self.codes.pop(values["code"], None)
        if code is None:
            self.refuse(f"there is no code {values['code']!r}", "invalid_grant")
        self.spent.add(values["code"])
        if values.get("redirect_uri") != code.redirect_uri:
            self.refuse(f"redirect_uri is {values.get('redirect_uri')!r}, not {code.redirect_uri!r}", "invalid_grant")
        if values.get("client_id", code.client_id) != code.client_id:
            self.refuse(f"client_id is {values.get('client_id')!r}", "invalid_client", 401)
        verifier = values.get("code_verifier", "")
        if code.challenge is None:
            if verifier:
                self.refuse("there is a verifier, and there was no challenge")
        elif not VERIFIER.fullmatch(verifier) or s256(verifier) != code.challenge:
            self.refuse(f"the verifier is wrong: {verifier!r}", "invalid_grant")
        return code

    def renew(self, values):
        """What the refresh token of a refresh stands for."""
        if values["client_id"] != self.client_id:
            self.refuse(f"client_id is {values['client_id']!r}", "invalid_client", 401)
        grant = self.refresh_tokens.get(values["refresh_token"])
        if grant is None:
            # A refresh token that the server ended is no mistake of the client.
            raise Over()
        return grant

    def respond(self, request):
        try:
            return super().respond(request)
        except Over:
            return Answer.json(400, {"error": "invalid_grant", "error_description": "the grant has ended"})

    def new_access(self, grant, lifetime):
        token = secrets.token_urlsafe(16)
        self.access[token], self.ends[token] = grant, time.monotonic() + lifetime
        return token

    def holder(self, token):
        """The grant of an access token that is good now, or None."""
        return self.access.get(token) if self.ends.get(token, 0) > time.monotonic() else None

    def new_refresh(self, grant):
        token = secrets.token_urlsafe(16)
        self.refresh_tokens[token] = grant
        return token


class Over(Exception):
    """The grant was good once."""


def s256(verifier):
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
