"""The cases, a module for each kind of client."""

from cases import execs, git, kubernetes, languages, python, registries  # noqa: F401
