"""What the blocking and the asyncio client share: framing, errors, and each method as an exchange of requests.

A method is a generator. It yields requests and receives their results, so that one text serves both clients.
"""

from __future__ import annotations

from ._error import GrantdError
from ._text import decode, encode, quote
from .errors import BY_REASON, REPEATABLE, TIMED, BadAnswer, Disconnected, ShuttingDown, TimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Generator, List, Optional, Sequence, TypeVar

    Result = TypeVar("Result")
    Exchange = Generator["Request", Any, Result]

# Bytes of one answer.
LONGEST_LINE = 1 << 20
READ_BYTES = 1 << 16
# The broker's own limit if a request names none, and how much longer the client waits for the broker's answer.
DEFAULT_SECONDS = 30.0
GRACE_SECONDS = 5.0
# A login lasts as long as the broker says; this is the time of one question.
LOGIN_WAIT_SECONDS = 30.0
# Requests on one connection without an answer.
MOST_WAITING = 1000


class Request:
    """A method, its parameters, and the seconds that it may take."""

    __slots__ = ("method", "params", "seconds")

    def __init__(self, method: str, params: Dict[str, Any], timeout: Optional[float] = None) -> None:
        if timeout is not None and method in TIMED:
            params["timeout"] = timeout
        self.method = method
        self.params = params
        self.seconds = (DEFAULT_SECONDS if timeout is None else timeout) + GRACE_SECONDS

    def line(self, identifier: int) -> bytes:
        params = self.params
        # The frequent request, without the set-up of an encoder.
        account = params["account"] if len(params) == 1 and "account" in params else None
        text = '{"account":%s}' % quote(account) if type(account) is str else encode(params)
        return b'{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}\n' % (identifier, self.method.encode(), text.encode())

    def is_worth_another(self, error: GrantdError) -> bool:
        """Whether a second attempt on a new connection is harmless and useful."""
        return isinstance(error, ShuttingDown) or (self.method in REPEATABLE and isinstance(error, Disconnected))


class Frames:
    """The bytes of a connection as messages."""

    __slots__ = ("pending",)

    def __init__(self) -> None:
        self.pending = b""

    def feed(self, data: bytes) -> List[Dict[str, Any]]:
        """The messages that are complete. BadAnswer: the connection is of no use any more."""
        if not self.pending and data.find(b"\n") == len(data) - 1:
            # The frequent case: one line.
            return [parsed(data)]
        *lines, self.pending = (self.pending + data).split(b"\n")
        if len(self.pending) > LONGEST_LINE or any(len(line) > LONGEST_LINE for line in lines):
            raise bad("is too long")
        return [parsed(line) for line in lines]


def parsed(line: bytes) -> Dict[str, Any]:
    try:
        text = line.decode().strip()
        message, end = decode(text)
    except (ValueError, RecursionError):
        # The text is not part of the error: it may contain a token.
        raise bad("is not JSON") from None
    if type(message) is not dict or end != len(text):
        raise bad("is not an object")
    return message


def bad(what: str) -> BadAnswer:
    return BadAnswer(f"the broker's answer {what}", "bad_answer", "Run `grantctl doctor`.")


def disconnected() -> Disconnected:
    return Disconnected("the broker closed the connection", "disconnected", "Try again.")


def late() -> TimedOut:
    return TimedOut("the broker did not answer in time", "timed_out", "Try again.")


def outcome(message: Dict[str, Any]) -> Any:
    """The result of an answer; an error of the wire is raised."""
    error = message.get("error")
    if error is None:
        if "result" not in message:
            raise bad("has no result")
        return message["result"]
    if type(error) is not dict:
        raise bad("has an error that is not an object")
    data = error.get("data")
    data = data if type(data) is dict else {}
    reason = str(data.get("reason", ""))
    raise BY_REASON.get(reason, GrantdError)(
        str(error.get("message", "")), reason, str(data.get("hint", "")), error.get("code", 0), data.get("retry_after"),
        data.get("oauth"), data.get("detail"))


def given(**params: Any) -> Dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def is_object(result: Any) -> Dict[str, Any]:
    if type(result) is not dict:
        raise bad("is not an object")
    return result


# ---- the methods

def token(
        account: str, scopes: Optional[Sequence[str]], resource: Optional[str], min_ttl: Optional[float],
        timeout: Optional[float]) -> Request:
    """The frequent method is one request and no generator. Its result is the argument of `Token`."""
    params: Dict[str, Any] = {"account": account}
    if scopes is not None:
        params["scopes"] = list(scopes)
    if resource is not None:
        params["resource"] = resource
    if min_ttl is not None:
        params["min_ttl"] = min_ttl
    return Request("token.get", params, timeout)


def report_rejected(account: str, generation: int, timeout: Optional[float]) -> Exchange[int]:
    result = is_object((yield Request("token.report_rejected", {"account": account, "generation": generation}, timeout)))
    found = result.get("generation")
    if type(found) is not int:
        raise bad("has no generation")
    return found


def call(method: str, params: Dict[str, Any], timeout: Optional[float]) -> Exchange[Any]:
    return (yield Request(method, dict(params), timeout))


def accounts() -> Exchange[List[Any]]:
    found: List[Any] = []
    page: Dict[str, Any] = {}
    while True:
        result = is_object((yield Request("account.list", dict(page))))
        found += result.get("accounts", [])
        # A page that does not go on would be asked for again without an end.
        if not result.get("next") or result["next"] == page.get("after"):
            return found
        page = {"after": result["next"]}


def login(
        provider: str, account: Optional[str], show: Callable[[List[Any]], None], params: Dict[str, Any]) -> Exchange[Any]:
    started = is_object((yield Request("login.start", {**given(provider=provider, account=account), **params})))
    show(started.get("destinations", []))
    # Ends: the broker ends each login at its `expires_at` with an error.
    while True:
        wait = Request("login.wait", {"login_id": started.get("login_id")}, LOGIN_WAIT_SECONDS)
        result = is_object((yield wait))
        if result.get("state") != "pending":
            return result


def subscription(types: Optional[Sequence[str]]) -> Request:
    return Request("events.subscribe", given(events=None if types is None else list(types)))


def event(message: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """The event of a notification; None for other messages."""
    params = message.get("params")
    return params if message.get("method") == "event" and type(params) is dict else None
