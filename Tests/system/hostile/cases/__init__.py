"""The cases by name, in the order of the issue that they are from."""

from . import audit, csrf, holders, imports, logs, memory, places, reports, turns, waits

GROUPS = (reports, memory, imports, csrf, audit, waits, holders, places, turns, logs)
CASES = {name: case for group in GROUPS for name, case in group.CASES.items()}
