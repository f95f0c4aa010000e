"""The cases; importing one registers it."""

from cases import forward, peer, streams, token  # noqa: F401
