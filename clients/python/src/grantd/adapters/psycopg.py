"""OAuth of PostgreSQL 18 for psycopg: libpq gets the account's token by its hook for authentication data.

    use("work")
    psycopg.connect("host=db.example.com dbname=a oauth_issuer=https://id.example.com oauth_client_id=a")

libpq has the hook from version 18 on. It is one for all connections of the process.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any, Dict, Optional, Sequence

from .._client import Client
from .._error import GrantdError
from ._source import Source

# PQlibVersion() of the first version with OAuth, and the members of PGauthData (libpq-fe.h).
OLDEST = 180_000
BEARER_TOKEN = 1
FAILED, NOT_HANDLED, DONE = -1, 0, 1
HookType = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
CleanupType = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Request(ctypes.Structure):
    """PGoauthBearerRequest (libpq-fe.h)."""

    _fields_ = [
        ("openid_configuration", ctypes.c_char_p), ("scope", ctypes.c_char_p), ("asynchronous", ctypes.c_void_p),
        ("cleanup", CleanupType), ("token", ctypes.c_void_p), ("user", ctypes.c_void_p)]


def use(
        account: str, scopes: Optional[Sequence[str]] = None, *, resource: Optional[str] = None,
        client: Optional[Client] = None, libpq: Optional[str] = None) -> Hook:
    """Connections of this process that the server asks for a token get that of the account. A token whose issuer is not the
    server's is not sent.

    :param libpq: path of the library, if it is not the one of psycopg.
    :raises GrantdError: libpq is older than version 18.
    """
    return Hook(Source(account, scopes, resource, client), ctypes.CDLL(libpq or path_of_psycopg()))


def path_of_psycopg() -> str:
    import psycopg
    if psycopg.pq.__impl__ == "python":
        found = ctypes.util.find_library("pq")
    else:
        # The binary package brings a separate libpq; a second copy of the library would have a separate hook.
        found = loaded("libpq")
    if not found:
        raise GrantdError("libpq was not found", "", "Install libpq 18 or newer.")
    return found


def loaded(name: str) -> Optional[str]:
    """The path of a shared library that this process has loaded (proc_pid_maps(5))."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")
            if path[1] and (path[1] + path[2]).rpartition("/")[2].startswith((name + ".", name + "-")):
                return path[1] + path[2]
    return None


def issuer_of(document: str) -> str:
    """The issuer of a document of metadata: OpenID Connect Discovery §4.1, RFC 8414 §3.1."""
    origin, _, rest = document.partition("/.well-known/")
    _, slash, path = rest.partition("/")
    return origin + slash + path


class Hook:
    """The installed hook. Keep it as long as connections are made; `remove` restores the earlier one."""

    def __init__(self, source: Source, library: Any) -> None:
        version = library.PQlibVersion()
        if version < OLDEST:
            raise GrantdError(
                f"libpq {version // 10_000}.{version % 10_000} has no OAuth", "", "Install libpq 18 or newer.")
        #: Why there was no token for the last connection. libpq reports only that the hook failed.
        self.error: Optional[Exception] = None
        self._source, self._library, self._buffers = source, library, {}  # type: Source, Any, Dict[int, Any]
        library.PQgetAuthDataHook.restype = HookType
        library.PQsetAuthDataHook.argtypes = [HookType]
        library.PQsetAuthDataHook.restype = None
        # C has only their addresses.
        self._earlier, self._own, self._cleanup = library.PQgetAuthDataHook(), HookType(self._called), CleanupType(self._wipe)
        library.PQsetAuthDataHook(self._own)

    def remove(self) -> None:
        self._library.PQsetAuthDataHook(self._earlier)

    def _called(self, kind: int, connection: Optional[int], data: int) -> int:
        if kind != BEARER_TOKEN:
            return int(self._earlier(kind, connection, data)) if self._earlier else NOT_HANDLED
        try:
            self._fill(data)
            self.error = None
            return DONE
        # An exception cannot pass through C.
        except Exception as error:
            self.error = error
            return FAILED

    def _fill(self, address: int) -> None:
        request = Request.from_address(address)
        token = self._source.token()
        asked = (request.openid_configuration or b"").decode()
        if token.issuer and asked and issuer_of(asked) != token.issuer.rstrip("/"):
            raise GrantdError(
                f"the server requests a token of another issuer ({asked}) than that of account {token.account}", "",
                "Check `oauth_issuer`, or use another account.")
        buffer = ctypes.create_string_buffer(token.access_token.encode())
        self._buffers[address] = buffer
        request.token, request.cleanup = ctypes.addressof(buffer), self._cleanup

    def _wipe(self, connection: Optional[int], address: int) -> None:
        """libpq does not need the token any more."""
        buffer = self._buffers.pop(address, None)
        if buffer is not None:
            ctypes.memset(buffer, 0, len(buffer))
            Request.from_address(address).token = None
