"""The cases by name, in the order of the issue that they are from."""

from . import reports

CASES = reports.CASES
