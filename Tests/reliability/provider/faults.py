"""What the provider does wrong to a refresh: where it stops, how late it is, and what it says that is odd."""

import dataclasses
import email.utils
import json
import time

TRICKLE_PIECES = 20
HTML = "<html><body><h1>Something went wrong</h1></body></html>"


def changed(**members):
    return lambda answer: answer | members


def without(name):
    return lambda answer: {key: value for key, value in answer.items() if key != name}


class Twice(dict):
    """An object that names a member twice."""

    def __init__(self, members, name, value):
        super().__init__(members)
        self.name, self.value = name, value

    def text(self):
        return json.dumps(self)[:-1] + f", {json.dumps(self.name)}: {json.dumps(self.value)}}}"


def twice(name):
    return lambda answer: Twice(answer, name, answer[name])


# Each of these answers carries a new refresh token, a non-empty string.
ODD = {
    "expires_in -1": changed(expires_in=-1),
    'expires_in ""': changed(expires_in=""),
    'expires_in "abc"': changed(expires_in="abc"),
    "expires_in true": changed(expires_in=True),
    "expires_in []": changed(expires_in=[]),
    "no token_type": without("token_type"),
    "token_type null": changed(token_type=None),
    'token_type "mac"': changed(token_type="mac"),
    "scope 7": changed(scope=7),
    "scope a list": changed(scope=["openid", "email"]),
    "id_token 7": changed(id_token=7),
    "id_token an object": changed(id_token={"sub": "a"}),
    "no access_token": without("access_token"),
    "access_token null": changed(access_token=None),
    "scope twice": twice("scope"),
    "expires_in twice": twice("expires_in"),
    "status 201": changed(),
}


def framed(length):
    """The same answer with another word of where it ends; the connection ends there (RFC 9112 §6.3)."""
    def change(text):
        head, _, body = text.partition(b"\r\n\r\n")
        fields = [field for field in head.split(b"\r\n") if not field.startswith(b"Content-Length:")]
        named, body = length(body)
        return b"\r\n".join(fields + named) + b"\r\n\r\n" + body
    return change


FRAMED = {
    "length too large": framed(lambda body: ([b"Content-Length: %d" % (len(body) + 100)], body)),
    "no length": framed(lambda body: ([], body)),
    "no last chunk": framed(lambda body: ([b"Transfer-Encoding: chunked"], b"%x\r\n%s\r\n" % (len(body), body))),
}
ODD |= {name: changed() for name in FRAMED}


def odd_body(name, members):
    """Status and text of an answer."""
    answer = ODD[name](members) if name else members
    return 201 if name == "status 201" else 200, answer.text() if isinstance(answer, Twice) else json.dumps(answer)


@dataclasses.dataclass(frozen=True)
class Fault:
    """Before the refresh token is spent: status, reset or silence. After: late, slow, cut, reset, silence, or odd.

    `stop` is where the answer ends: "whole", "cut", "reset", "none" (silence, then closed), or "status": another
    answer in place of the tokens.
    """

    stop: str = "whole"
    is_before: bool = False
    # Seconds before the answer or its end.
    delay: float = 0.0
    trickle: float = 0.0
    # Which part of a cut answer is sent.
    share: float = 0.5
    odd: str | None = None
    status: int = 500
    retry_after: int | None = None
    is_html: bool = False
    is_date: bool = False

    def __str__(self):
        words = [self.stop] if self.stop != "whole" else []
        words += ["before it is spent"] if self.is_before else []
        words += [f"after {self.delay:.2f} s"] if self.delay else []
        words += [f"over {self.trickle:.2f} s"] if self.trickle else []
        words += [f"odd: {self.odd}"] if self.odd else []
        words += [f"{self.status}"] if self.stop == "status" else []
        return " ".join(words) or "none"

    def error(self):
        """Status, header fields and text of an error that says nothing of the grant."""
        headers = {"Content-Type": "text/html" if self.is_html else "application/json"}
        if self.retry_after is not None:
            at = email.utils.formatdate(time.time() + self.retry_after, usegmt=True)
            headers["Retry-After"] = at if self.is_date else str(self.retry_after)
        return self.status, headers, HTML if self.is_html else json.dumps({"error": "temporarily_unavailable"})

    async def carry_out(self, connection, ledger, number, status=200, body="", label=None):
        """Answers, or does not, and writes what became of it. None: the connection has been dealt with."""
        if self.delay:
            await connection.closed_within(self.delay)
        if self.stop == "status":
            text = connection.response(*self.error())
        else:
            headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
            text = connection.response(status, headers, body)
            text = FRAMED.get(self.odd, lambda text: text)(text)
        share = {"cut": self.share, "reset": 0.0, "none": 0.0}.get(self.stop, 1.0)
        data = text[:int(len(text) * share)] if share < 1 else text
        handed = 0
        pieces = TRICKLE_PIECES if self.trickle else 1
        size = max(1, -(-len(data) // pieces))
        for start in range(0, len(data), size):
            if start and await connection.closed_within(self.trickle / pieces):
                break
            handed += await connection.send(data[start:start + size])
        has_arrived = handed == len(text) and await connection.arrived()
        ledger.write(
            "answer", x=number, stop=self.stop, bytes=len(text), handed=handed, arrived=has_arrived,
            carries=label if self.stop != "status" else None, odd=self.odd, peer_closed=connection.closed_at)
        if self.stop == "reset":
            connection.reset()
        elif self.stop in ("cut", "none") or self.odd in FRAMED:
            connection.close()
        return None
