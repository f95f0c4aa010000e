"""The table of rows: each is a report about a comparable program, the providers that it needs, and a test."""

import dataclasses
import typing

ROWS = {}


@dataclasses.dataclass(frozen=True)
class Section:
    """One `[provider.NAME]` and its fake. A `{issuer}` in a text of `keys` stands for the fake's issuer."""

    keys: dict
    options: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Row:
    identifier: str
    report: str
    symptom: str
    sections: tuple
    action: typing.Callable
    # A function of the scene that returns the configuration before the providers: the row has its own broker.
    own: typing.Callable = None
    # The seconds that it waits, about: long rows start first.
    seconds: float = 0


def oidc(options=None, **keys):
    made = {"issuer": "{issuer}", "client_id": "grantd-test", "scopes": ["openid", "a", "b"]}
    return Section(made | keys, options or {})


def oauth2(options=None, **keys):
    """Plain OAuth 2.0 by its endpoints, without an issuer."""
    made = {"kind": "oauth2", "authorization_endpoint": "{issuer}/authorize", "token_endpoint": "{issuer}/token",
            "client_id": "grantd-test", "scopes": ["a", "b"]}
    return Section(made | keys, options or {})


def row(identifier, report, *sections, own=None, seconds=0):
    """Adds the function to the table. Its documentation is the symptom; it is called with the scene and its sites."""
    def add(action):
        assert identifier not in ROWS, f"{identifier} is defined twice"
        ROWS[identifier] = Row(identifier, report, action.__doc__, sections, action, own, seconds)
        return action
    return add
