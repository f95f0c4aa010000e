"""The table of cases."""

CASES = {}


def case(name):
    def register(action):
        CASES[name] = action
        return action
    return register


class Skip(Exception):
    """The machine cannot run a case."""
