"""The cases, a module for each kind of client."""

from cases import git  # noqa: F401
