"""What the suites in Python share: the client of the broker's socket, the programs under test, and where they run.

Standard library only. A suite puts Tests/python on sys.path and imports from here. Names with `Blocking`, and
`DaemonProcess`, need no event loop.
"""

from .checks import Checks, CommandedDaemon
from .client import BlockingClient, Connection, line, message
from .daemon import Daemon, DaemonProcess
from .demo import BlockingDemo, Demo
from .errors import Gone, Refused, Wrong
from .loopback import get, http, redirected
from .places import free_ports, products, temporary_folder
from .program import Program, environment
from .stream_server import StreamServer
from .waiting import until, wait_until

__all__ = [
    "BlockingClient", "BlockingDemo", "Checks", "CommandedDaemon", "Connection", "Daemon", "DaemonProcess", "Demo", "Gone",
    "Program", "Refused", "StreamServer", "Wrong", "environment", "free_ports", "get", "http", "line", "message", "products",
    "redirected", "temporary_folder", "until", "wait_until"]
