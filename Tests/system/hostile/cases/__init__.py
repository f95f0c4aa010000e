"""The cases by name, in the order of the issue that they are from."""

from . import audit, imports, memory, reports, waits

CASES = reports.CASES | imports.CASES | memory.CASES | waits.CASES | audit.CASES
