"""The cases. Each makes a situation, and reads what grantctl prints."""

from table import CASES  # noqa: F401

from . import backups, completion, desktop, first, helpers, locking, logins, overview, providers, reloads  # noqa: F401
