"""The cases, in the order in which they run."""

from . import input, leases, page, sharing, standby, trouble

CASES = sharing.CASES | leases.CASES | trouble.CASES | standby.CASES | input.CASES | page.CASES
# The longest first.
LONG = (
    "standby-stops", "takeover", "status", "kills", "page", "restart", "lost-answers", "slow-commit", "copied-folder",
    "lock-held",
    "stale-fence")
