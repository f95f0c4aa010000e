"""The cases; importing one registers it."""

from cases import (  # noqa: F401
    bad, characters, clients, cloud, connects, errors, floods, folders, forward, hangups, peer, questions, streams, token)
