"""The cases by name. Each proves facts of docs/providers/systems.md, which it names by their ids."""

CASES = {}


class Case:
    """A function of a scene, and the facts that it proves."""

    def __init__(self, name, facts, scene, action):
        self.name, self.facts, self.scene, self.action = name, facts, scene, action


def case(scene, name, *facts):
    """Adds the function below as a case."""
    def add(action):
        if name in CASES:
            raise ValueError(f"two cases are called {name}")
        CASES[name] = Case(name, facts, scene, action)
        return action
    return add
