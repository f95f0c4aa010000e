"""The cases, a module for each kind of client."""

from cases import aws, configured, execs, files, git, kubernetes, languages, mail, python, recipes, registries  # noqa: F401
