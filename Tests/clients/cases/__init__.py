"""The cases, a module for each kind of client."""

from cases import aws, configured, execs, git, kubernetes, languages, python, registries  # noqa: F401
