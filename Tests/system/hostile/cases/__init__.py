"""The cases by name, in the order of the issue that they are from."""

from . import audit, csrf, holders, imports, memory, places, reports, waits

CASES = (
    reports.CASES | memory.CASES | imports.CASES | csrf.CASES | audit.CASES | waits.CASES | holders.CASES | places.CASES)
