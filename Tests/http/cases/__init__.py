"""The cases; importing one registers it."""

from cases import peer, token  # noqa: F401
