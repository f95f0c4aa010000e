"""FastMCP with its OAuth proxy before another authorization server: fastmcp_server.py PORT ISSUER CLIENT

The proxy registers clients itself, and has one client at the authorization server.
"""

import sys

from fastmcp import FastMCP
from fastmcp.server.auth import AccessToken, OAuthProxy, TokenVerifier

PORT, ISSUER, CLIENT = int(sys.argv[1]), sys.argv[2], sys.argv[3]
SCOPES = ["notes.read"]


class Verifier(TokenVerifier):
    """The tokens of the test's own authorization server; FastMCP checks its own tokens before that."""

    async def verify_token(self, token):
        if not token.startswith("at-"):
            return None
        return AccessToken(token=token, client_id=CLIENT, scopes=SCOPES)


server = FastMCP("notes", auth=OAuthProxy(
    upstream_authorization_endpoint=f"{ISSUER}/authorize", upstream_token_endpoint=f"{ISSUER}/token",
    upstream_client_id=CLIENT, upstream_client_secret="a-secret-of-the-proxy", token_endpoint_auth_method="client_secret_post",
    token_verifier=Verifier(required_scopes=SCOPES), base_url=f"http://127.0.0.1:{PORT}", valid_scopes=SCOPES,
    forward_resource=False, require_authorization_consent=False, jwt_signing_key="a-key-for-the-tests-of-this-server"))


@server.tool
async def add(a: int, b: int) -> str:
    """The sum of two numbers."""
    return f"sum {a + b}"


server.run(transport="http", host="127.0.0.1", port=PORT, show_banner=False)
