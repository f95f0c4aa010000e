"""A backend of keyring: the password of user ACCOUNT of the service `grantd` is the account's token.

    keyring.get_password("grantd", "work")
"""

from __future__ import annotations

from typing import Optional

from keyring.backend import KeyringBackend
from keyring.errors import KeyringError, PasswordDeleteError, PasswordSetError

from .. import _shared
from .._error import GrantdError
from ..errors import UnknownAccount

SERVICE = "grantd"


class GrantdKeyring(KeyringBackend):
    """It stores nothing, and has no password of other services."""

    # keyring asks all backends of priority 1 and more, those of higher priority first.
    priority = 1

    def get_password(self, service: str, username: str) -> Optional[str]:
        if service != SERVICE:
            return None
        try:
            return _shared.token(username).access_token
        except UnknownAccount:
            return None
        except GrantdError as error:
            raise KeyringError(str(error)) from error

    def set_password(self, service: str, username: str, password: str) -> None:
        raise PasswordSetError("grantd stores no passwords: sign in with `grantctl login`")

    def delete_password(self, service: str, username: str) -> None:
        raise PasswordDeleteError("grantd stores no passwords: use `grantctl logout`")
