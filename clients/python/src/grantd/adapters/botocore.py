"""Credentials for botocore and boto3: the account's token as the web identity of a role.

    session = botocore.session.get_session()
    use(session, "work", "arn:aws:iam::123456789012:role/backup")
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

from botocore.credentials import (
    AssumeRoleWithWebIdentityCredentialFetcher, CredentialProvider, DeferredRefreshableCredentials)

from .._client import Client
from ._source import Source


class GrantdProvider(CredentialProvider):
    """AssumeRoleWithWebIdentity with the account's token. botocore keeps the role's credentials until they end."""

    METHOD = "grantd"

    def __init__(
            self, session: Any, account: str, role_arn: str, *, session_name: str = "grantd",
            scopes: Optional[Sequence[str]] = None, resource: Optional[str] = None, client: Optional[Client] = None) -> None:
        super().__init__(session)
        source = Source(account, scopes, resource, client)
        self._fetcher = AssumeRoleWithWebIdentityCredentialFetcher(
            session.create_client, lambda: source.token().access_token, role_arn,
            extra_args={"RoleSessionName": session_name})

    def load(self) -> Any:
        return DeferredRefreshableCredentials(method=self.METHOD, refresh_using=self._fetcher.fetch_credentials)


def use(session: Any, account: str, role_arn: str, **options: Any) -> None:
    """The botocore session gets its credentials from grantd, before all other sources. `options`: as of GrantdProvider."""
    provider = GrantdProvider(session, account, role_arn, **options)
    session.get_component("credential_provider").providers.insert(0, provider)
