"""The cases by name, in the order of the issue that they are from."""

from . import (
    audit, connects, csrf, holders, imports, logs, memory, places, ports, reports, rule_memory, together, turns, units,
    waits, web)

GROUPS = (
    reports, memory, rule_memory, imports, csrf, audit, waits, connects, holders, places, turns, units, ports, web,
    logs, together)
CASES = {name: case for group in GROUPS for name, case in group.CASES.items()}
