"""The cases of the pages in docs/recipes."""

from cases.recipes import git, mail  # noqa: F401
