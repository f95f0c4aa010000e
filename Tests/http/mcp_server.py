"""A server of the Model Context Protocol that takes the tokens in a file: mcp_server.py PORT FILE"""

import pathlib
import sys

import uvicorn

try:
    from mcp.server.fastmcp import FastMCP
except ImportError:
    from mcp.server.mcpserver import MCPServer as FastMCP

port, tokens = int(sys.argv[1]), pathlib.Path(sys.argv[2])
server = FastMCP("test")


@server.tool()
async def add(a: int, b: int) -> str:
    """The sum of two numbers."""
    return f"sum {a + b}"


def guarded(app):
    """As a resource server does it (RFC 6750 §3); a client that sees this starts a sign-in of its own."""
    async def run(scope, receive, send):
        if scope["type"] == "http":
            value = dict(scope["headers"]).get(b"authorization", b"").decode()
            if value.removeprefix("Bearer ") not in tokens.read_text().split():
                print("REFUSED", scope["method"], value[-8:], flush=True)
                await send({"type": "http.response.start", "status": 401, "headers": [
                    (b"www-authenticate", b'Bearer error="invalid_token", resource_metadata="http://127.0.0.1/none"')]})
                return await send({"type": "http.response.body", "body": b""})
        return await app(scope, receive, send)
    return run


uvicorn.run(guarded(server.streamable_http_app()), host="127.0.0.1", port=port, log_level="warning")
