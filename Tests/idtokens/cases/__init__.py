"""The cases register themselves."""

from . import adapters, audiences, clients, policy, sockets  # noqa: F401
