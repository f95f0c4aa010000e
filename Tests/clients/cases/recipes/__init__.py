"""The cases of the pages in docs/recipes."""

from cases.recipes import mail  # noqa: F401
