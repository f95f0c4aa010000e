"""Which broker's socket, and the check of its server (docs/libraries.md)."""

from __future__ import annotations

# The C module below `socket`, whose import takes three times as long as everything else here.
import _socket
import errno
import os
import stat
import struct

from .errors import ForeignServer, NotPermitted, NotRunning, TimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

SYSTEM_PATH = "/run/grantd/grantd.sock"
START_SYSTEM = "sudo systemctl start grantd.socket"
START_USER = "systemctl --user start grantd.socket"
# How long the broker's queue of new connections may be full, and a request may take to be sent.
CONNECT_SECONDS = 10.0
PAUSE_SECONDS = 0.01
WOULD_BLOCK = (errno.EAGAIN, errno.EINPROGRESS)


class Place:
    """A path, whether the caller named it, and the commands that start a broker there."""

    __slots__ = ("path", "is_named", "starts")

    def __init__(self, socket: Optional[str] = None) -> None:
        folder = os.environ.get("XDG_RUNTIME_DIR", "")
        user = (folder if folder.startswith("/") else f"/run/user/{os.getuid()}") + "/grantd/grantd.sock"
        named = socket or os.environ.get("GRANTD_SOCKET")
        if named:
            self.path = os.fspath(named)
        else:
            self.path = user if os.path.exists(user) else SYSTEM_PATH
        self.is_named = bool(named)
        if self.path == user:
            self.starts = START_USER
        elif self.path == SYSTEM_PATH and named:
            self.starts = START_SYSTEM
        else:
            self.starts = f"{START_USER}` or `{START_SYSTEM}"

    def connect(self, nonblocking: bool = False) -> _socket.socket:
        """A connected socket whose server was checked. It blocks at most CONNECT_SECONDS, or raises BlockingIOError if
        `nonblocking`."""
        made = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        try:
            if nonblocking:
                made.setblocking(False)
            else:
                made.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, timeval(CONNECT_SECONDS))
            made.connect(self.path)
            self.check(made)
        except BaseException as error:
            made.close()
            if isinstance(error, OSError) and not (nonblocking and error.errno in WOULD_BLOCK):
                raise self.failure(error) from None
            raise
        return made

    def failure(self, error: OSError) -> Exception:
        if error.errno in (errno.EACCES, errno.EPERM):
            return NotPermitted(
                f"this user has no access to {self.path}", "not_permitted",
                "An administrator can allow it with `group` in [socket] of the configuration.")
        if error.errno in WOULD_BLOCK:
            return TimedOut(f"the broker at {self.path} accepts no connection", "timed_out", "Try again.")
        return NotRunning(f"no broker listens at {self.path}", "not_running", f"Start it with `{self.starts}`.")

    def check(self, made: _socket.socket) -> None:
        """Nothing is sent to a server of another user, unless the caller named its socket."""
        _, uid, _ = struct.unpack("iII", made.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12))
        if not (self.is_named or uid in (0, os.geteuid()) or uid == folder_owner(self.path)):
            raise ForeignServer(
                f"the server at {self.path} belongs to another user (uid {uid})", "foreign_server",
                "If that is intended, name the socket in GRANTD_SOCKET.")


def folder_owner(path: str) -> Optional[int]:
    """The owner of the socket's folder; None if others can write to the folder, or others than root can replace it."""
    folder = os.path.dirname(path)
    try:
        own, above = os.lstat(folder), os.lstat(os.path.dirname(folder))
    except OSError:
        return None
    is_safe = stat.S_ISDIR(own.st_mode) and above.st_uid == 0 and not (own.st_mode | above.st_mode) & 0o022
    return own.st_uid if is_safe else None


def timeval(seconds: float) -> bytes:
    """As socket(7) has it for SO_RCVTIMEO and SO_SNDTIMEO."""
    whole = int(seconds)
    return struct.pack("ll", whole, max(int((seconds - whole) * 1e6), 0 if whole else 1))
