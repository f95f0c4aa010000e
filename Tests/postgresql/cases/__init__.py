"""The cases, in the order in which they run."""

from . import input, leases, sharing, trouble

CASES = sharing.CASES | leases.CASES | trouble.CASES | input.CASES
