"""The cases; importing one registers it."""

from cases import clients, cloud, forward, peer, streams, token  # noqa: F401
