"""The cases; importing one registers it."""

from cases import bad, clients, cloud, connects, floods, forward, hangups, peer, streams, token  # noqa: F401
