"""The cases of the pages in docs/recipes."""

from cases.recipes import clouds, git, mail  # noqa: F401
