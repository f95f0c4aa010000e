"""The cases; importing one registers it."""

from cases import bad, clients, cloud, floods, forward, hangups, peer, streams, token  # noqa: F401
