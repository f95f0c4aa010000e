"""The SDK's own server, with its authorization server in memory: sdk_server.py PORT LIFETIME

SIGUSR1 ends all grants.
"""

import secrets
import signal
import sys
import time

from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthToken

PORT, LIFETIME_SECONDS = int(sys.argv[1]), int(sys.argv[2])
URL = f"http://127.0.0.1:{PORT}"
SCOPES = ["notes.read"]


class Provider:
    """Signs everybody in. Refresh tokens rotate, and one that is used twice is unknown."""

    def __init__(self):
        self.clients, self.codes, self.refreshes, self.tokens = {}, {}, {}, {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24), scopes=params.scopes or SCOPES, expires_at=time.time() + 60,
            client_id=client.client_id, code_challenge=params.code_challenge, redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly, resource=params.resource)
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        return self.issue(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client, refresh_token):
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        del self.refreshes[refresh_token.token]
        print("REFRESHED", flush=True)
        return self.issue(client, scopes or refresh_token.scopes, refresh_token.resource)

    def issue(self, client, scopes, resource):
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.tokens[access] = AccessToken(
            token=access, client_id=client.client_id, scopes=scopes, expires_at=int(time.time()) + LIFETIME_SECONDS,
            resource=resource)
        self.refreshes[refresh] = RefreshToken(
            token=refresh, client_id=client.client_id, scopes=scopes, resource=resource)
        return OAuthToken(access_token=access, token_type="Bearer", expires_in=LIFETIME_SECONDS, refresh_token=refresh,
                          scope=" ".join(scopes))

    async def load_access_token(self, token):
        found = self.tokens.get(token)
        return found if found and found.expires_at > time.time() else None

    async def revoke_token(self, token):
        self.tokens.pop(token.token, None)
        self.refreshes.pop(token.token, None)


provider = Provider()


def end_grants(*_):
    provider.refreshes.clear()
    provider.tokens.clear()
    print("ENDED", flush=True)


signal.signal(signal.SIGUSR1, end_grants)
server = MCPServer(
    "notes", auth_server_provider=provider, auth=AuthSettings(
        issuer_url=URL, resource_server_url=f"{URL}/mcp", required_scopes=SCOPES, validate_token_resource=True,
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES, default_scopes=SCOPES),
        revocation_options=RevocationOptions(enabled=True)))


@server.tool()
async def add(a: int, b: int) -> str:
    """The sum of two numbers."""
    return f"sum {a + b}"


server.run(transport="streamable-http", host="127.0.0.1", port=PORT)
