"""Inputs with their expected verdicts, for each question that several entry points of grantd must answer alike.

The cases `questions` of Tests/http run every entry point over these tables. A row names its exception if an entry point differs
on purpose.
"""

import dataclasses

# ---- which paths are plain


@dataclasses.dataclass(frozen=True)
class Path:
    """The rule's `requests` allow all of it; true: the request is sent, with exactly this path."""

    text: str
    # For a caller whose rule has `requests`: the same for `request.send` and `/forward`.
    ruled: bool
    # For a caller whose rule has none: an unclear path is refused even then, since programs put the names of servers and of
    # users into paths. An empty step is a name like any other there.
    free: bool


def plain(*paths):
    return [Path(text, True, True) for text in paths]


def unclear(*paths):
    return [Path(text, False, False) for text in paths]


def empty_step(*paths):
    return [Path(text, False, True) for text in paths]


def no_url(*paths):
    """A path that no URL can have (RFC 3986 §3.3)."""
    return [Path(text, False, False) for text in paths]


PATHS = [
    *plain("/allowed/x", "/allowed/", "/allowed/x/", "/allowed/x/y", "/allowed/.well-known/x", "/allowed/...", "/allowed/a..b",
           "/allowed/..a", "/allowed/a..", "/allowed/x%20y", "/allowed/%41", "/allowed/%2561", "/allowed/%e9",
           "/allowed/caf%c3%a9/x", "/allowed/a%2fb", "/allowed/a%5cb", "/allowed/~!$&'()*+,=:@x"),
    # Parameters of a segment (RFC 3986 §3.3).
    *plain("/allowed/x;v=1", "/allowed/x;v=1/y", "/allowed/x;..", "/allowed/;v=1"),
    # A query is not part of the path.
    *plain("/allowed/x?q=1", "/allowed/x?q=/../other", "/allowed/x?q=%2e%2e/", "/allowed/x?../../other", "/allowed/x?a//b",
           "/allowed/x?%00"),
    # Dot segments, in any encoding.
    *unclear("/allowed/../other", "/allowed/..", "/allowed/.", "/allowed/./x", "/allowed/x/../../other",
             "/allowed//../../other", "/allowed/..%2fother", "/allowed/%2e%2e/other", "/allowed/.%2E/other", "/allowed/%2e",
             "/allowed/%2e%2e%2fother", "/allowed/%2e/x", "/allowed/%2F../other", "/allowed/x/%2e%2e/%2e%2e/other",
             "/%61llowed/../other", "/other/%2e%2e/allowed/x"),
    *unclear("/allowed/%252e%252e/other", "/allowed/%252e%252e%252fother", "/allowed/%25252e%25252e/other",
             "/allowed/%25252525252e/b", "/allowed/%252525252541"),
    *unclear("/allowed/..;/other", "/allowed/..;v=1/other", "/allowed/.%2e;x=1/other", "/allowed/.;/x",
             "/allowed/..%3b/other", "/allowed/..%20/other", "/allowed/.%20"),
    *unclear("/allowed/..%5cother", "/allowed/%5c..%5cother", "/allowed/..%255cother"),
    # Longer than UTF-8 has it (RFC 3629 §3), and lookalikes (NFKC).
    *unclear("/allowed/%c0%ae%c0%ae/other", "/allowed/%e0%80%ae%e0%80%ae/other", "/allowed/..%c0%afother",
             "/allowed/%f0%80%80%ae/other", "/allowed/%ef%bc%8e%ef%bc%8e/other", "/allowed/%e2%80%a4./other",
             "/allowed/..%e2%88%95other", "/allowed/..%ef%bc%8fother", "/allowed/..%e2%81%84other",
             "/allowed/..%ef%bc%bcother"),
    # Control characters, encoded.
    *unclear("/allowed/%00", "/allowed/x%00.json", "/allowed/.%00./other", "/allowed/%0d%0a", "/allowed/x%0d%0aHost:y",
             "/allowed/%09", "/allowed/%7f", "/allowed/%2500", "/allowed/%1b"),
    *empty_step("/allowed//x", "/allowed//", "/allowed/x//y", "/allowed/a%2f%2fb", "/allowed/%2fx", "/allowed/%5cx"),
    *no_url("/allowed/..\\other", "/allowed/a\\b", "/allowed/a b", "/allowed/\0", "/allowed/\x7f", "/allowed/\t",
            "/allowed/caf\u00e9", "/allowed/\uff0e\uff0e/other", "/allowed/\u2025/other", "/allowed/<x>", '/allowed/"x"',
            "/allowed/{x}", "/allowed/x|y", "/allowed/x^y", "/allowed/`x`"),
]

# ---- which headers of a caller may not reach the provider


@dataclasses.dataclass(frozen=True)
class Header:
    """True: the provider gets it."""

    name: str
    # `request.send` refuses the whole request, `/forward` leaves the header out: its clients set some by themselves.
    sent: bool
    forwarded: bool


REFUSED_HEADERS = [
    # Of the connection (RFC 9110 §7.6.1).
    "Connection", "Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Host",
    "Content-Length", "HTTP2-Settings",
    # Credentials.
    "Authorization", "Proxy-Authorization", "Cookie", "Cookie2", "DPoP",
    # Answers that cannot be searched for the token.
    "Accept-Encoding", "Range", "If-Range",
    # Another method or path than a rule has allowed.
    "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Forwarded-Method", "X-Original-Method",
    "X-Original-URL", "X-Original-URI", "X-Rewrite-URL", "X-Rewrite-URI", "X-Forwarded-URI", "X-Forwarded-Path",
]
# Clients of MCP, git and others need some of them.
PASSED_HEADERS = [
    "Accept", "Accept-Language", "Content-Type", "Content-Encoding", "Git-Protocol", "If-None-Match", "If-Match",
    "Last-Event-ID", "Mcp-Session-Id", "MCP-Protocol-Version", "X-Forwarded-For", "X-Request-ID", "X_Request_ID", "Prefer",
    "Authorization-Info", "XAuthorization", "X-Cookie", "Ranges", "Cache-Control",
]


def spellings(name):
    """As servers that pass headers as variables (CGI, WSGI) read the same name."""
    return dict.fromkeys([name, name.lower(), name.upper(), name.replace("-", "_"), name.lower().replace("-", "_", 1)])


HEADERS = [
    *(Header(spelling, False, False) for name in REFUSED_HEADERS for spelling in spellings(name)),
    *(Header(name, True, True) for name in PASSED_HEADERS),
    # The broker names itself in a request that it makes; a client of `/forward` has a name of its own.
    *(Header(spelling, False, True) for spelling in ("User-Agent", "user-agent")),
    # The listener refuses all requests of web pages.
    *(Header(name, True, False) for name in ("Origin", "Sec-Fetch-Site")),
]

# ---- which folders a socket may be bound in


@dataclasses.dataclass(frozen=True)
class Folder:
    """True: the socket is bound there."""

    what: str
    bound: bool
    mode: int | None = 0o755
    # Other users than root and the broker's.
    owner: int | None = None
    # How it is named: "path", "link" or "relative".
    form: str = "path"
    # "folder", "file" or "missing".
    kind: str = "folder"
    # For `[http] unix`, if it differs: the broker makes only the folder of its own socket, in which that for credentials is.
    http: bool | None = None


STRANGER = 4242
FOLDERS = [
    *(Folder(f"mode {mode:o}", True, mode) for mode in (0o700, 0o711, 0o755)),
    # With the sticky bit a user removes only own files.
    *(Folder(f"mode {mode:o}", True, mode) for mode in (0o1777, 0o1770)),
    *(Folder(f"mode {mode:o}", False, mode) for mode in (0o777, 0o775, 0o770, 0o757, 0o722, 0o2775)),
    *(Folder(f"mode {mode:o} of another user", False, mode, STRANGER) for mode in (0o700, 0o755, 0o777, 0o1777)),
    Folder("a link to a safe folder", True, form="link"), Folder("a link to mode 777", False, 0o777, form="link"),
    Folder("a link to a folder of another user", False, owner=STRANGER, form="link"),
    Folder("a link to nothing", False, form="link", kind="missing"),
    Folder("a relative path", True, form="relative"), Folder("a relative path, mode 777", False, 0o777, form="relative"),
    Folder("a file", False, kind="file"), Folder("no folder", True, kind="missing", http=False),
]

# ---- which status an error has


@dataclasses.dataclass(frozen=True)
class BrokerError:
    """What a caller gets instead of a token, or instead of an answer of the provider's API."""

    reason: str
    account: str
    # Never 401 or 407: clients would start their own sign-in.
    forward: int
    # Clients of the clouds' endpoints try again only after 429 and 503, so a status of `/forward` may differ from theirs.
    cloud: int
    # RFC 6749 §5.2: only `invalid_grant` has clients ask their user to sign in.
    token: tuple
    # "free", "ruled", "unruled", "asking" or "root".
    caller: str = "free"
    # Commands of grantctl around the request.
    before: tuple = ()
    after: tuple = ()
    # For the configuration; the requests are made once before, so that they exceed the limits.
    sections: str = ""


ERRORS = [
    BrokerError("unknown_account", "nobody", 404, 404, (401, "invalid_client")),
    BrokerError("not_permitted", "work", 403, 403, (400, "unauthorized_client"), caller="unruled"),
    BrokerError("not_permitted", "nobody", 403, 403, (400, "unauthorized_client"), caller="unruled"),
    BrokerError("not_permitted", "work", 403, 403, (400, "unauthorized_client"), caller="ruled"),
    # Its token was refused for root, so others still get it.
    BrokerError("login_required", "ended", 502, 403, (400, "invalid_grant"), caller="root"),
    BrokerError("temporarily_unavailable", "away", 503, 503, (503, "temporarily_unavailable")),
    BrokerError("temporarily_unavailable", "cut", 503, 503, (503, "temporarily_unavailable")),
    BrokerError("provider_misconfigured", "client", 502, 500, (500, "server_error")),
    # The configuration names the scopes of an account that has no user.
    BrokerError("provider_misconfigured", "scope", 502, 500, (500, "server_error")),
    BrokerError("temporarily_unavailable", "odd", 503, 503, (503, "temporarily_unavailable")),
    BrokerError("timed_out", "work", 504, 503, (503, "temporarily_unavailable"), caller="asking"),
    BrokerError("locked", "work", 503, 503, (503, "temporarily_unavailable"), before=("call", "broker.lock"),
                after=("call", "broker.unlock")),
    BrokerError("rate_limited", "work", 429, 429, (503, "temporarily_unavailable"), caller="unruled",
                sections="[limits]\nrequests_per_second = 1\nburst = 1\nrefusal_cost = 1000\n"),
]

# ---- which characters of untrusted texts are shown

# Visible, or a space.
SHOWN = (
    "aZ~<&'\u00e9\u00df\u0301\u0416\u05d0\u0639\u0e01\u20ac\u2013\u201c\u2026"
    "\u65e5\uff21\ufe0f\U0001f642\U00020000\u00a0\u2003\u3000")
HIDDEN = (
    # C0, DEL and C1.
    "\0\x01\a\b\t\n\v\f\r\x1b\x1f\x7f\x80\x85\x90\x9b\x9c\x9f"
    # Bidirectional controls, line separators, and other invisible format characters.
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029"
    "\u00ad\u180e\u200b\u200c\u200d\u2060\u2063\u206a\ufeff\ufff9\ufffb\U0001d173"
    # Tags.
    "\U000e0001\U000e0020\U000e0041\U000e007f"
    # Private use, unassigned, and no characters.
    "\ue000\uf8ff\U000f0000\U0010fffd\u0378\U0003fff0\ufdd0\ufffe\uffff\U0001fffe")
CHARACTERS = [*((character, True) for character in SHOWN), *((character, False) for character in HIDDEN)]
