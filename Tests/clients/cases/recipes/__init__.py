"""The cases of the pages in docs/recipes."""

from cases.recipes import agents, clouds, elsewhere, files, git, images, listener, mail, packages, schedules  # noqa: F401
