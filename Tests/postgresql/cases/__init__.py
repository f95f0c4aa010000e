"""The cases, in the order in which they run."""

from . import input, leases, sharing, standby, trouble

CASES = sharing.CASES | leases.CASES | trouble.CASES | standby.CASES | input.CASES
# The longest first.
LONG = ("standby-stops", "takeover", "status", "kills", "restart", "lost-answers", "copied-folder", "lock-held", "stale-fence")
