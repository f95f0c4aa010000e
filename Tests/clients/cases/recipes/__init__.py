"""The cases of the pages in docs/recipes."""

from cases.recipes import clouds, git, images, mail, packages  # noqa: F401
