"""Compares docs/providers/systems.md with the cases: every fact has a test, and every test proves a fact."""

import re

from grantd_testing.places import ROOT

PAGE = ROOT / "docs" / "providers" / "systems.md"
ROW = re.compile(r"^\| ([A-Z0-9]+-\d+[a-z]?) \| (.+?) \| (.*?) \|$")


def rows(text):
    """id, fact and the names of its tests, of each row."""
    found = [ROW.match(line) for line in text.splitlines()]
    return [(row[1], row[2], re.findall(r"`([^`]+)`", row[3])) for row in found if row]


def differences(cases):
    """What is wrong with the table, a line each."""
    if not PAGE.exists():
        return [f"{PAGE.name} is not there"]
    found, seen = [], {}
    for identifier, fact, names in rows(PAGE.read_text()):
        if identifier in seen:
            found.append(f"{identifier} is there twice")
        seen[identifier] = set(names)
        if not names:
            found.append(f"{identifier} has no test: {fact}")
        found += [f"{identifier} names {name}, which is no test" for name in names if name not in cases]
    for name, case in cases.items():
        if not case.facts:
            found.append(f"{name} names no fact")
        for identifier in case.facts:
            if identifier not in seen:
                found.append(f"{name} proves {identifier}, which is not in the table")
            elif name not in seen[identifier]:
                found.append(f"{name} proves {identifier}, whose row does not name it")
    for identifier, names in seen.items():
        found += [
            f"the row of {identifier} names {name}, which does not prove it"
            for name in sorted(names) if name in cases and identifier not in cases[name].facts]
    return found
