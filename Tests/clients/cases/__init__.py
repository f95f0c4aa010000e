"""The cases, a module for each kind of client."""

from cases import execs, git  # noqa: F401
