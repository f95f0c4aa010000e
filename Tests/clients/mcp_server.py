"""A server of the Model Context Protocol that takes live tokens of the test's provider: mcp_server.py PORT URL"""

import asyncio
import sys
import urllib.error
import urllib.request

import uvicorn

try:
    from mcp.server.fastmcp import FastMCP
except ImportError:
    from mcp.server.mcpserver import MCPServer as FastMCP

port, provider = int(sys.argv[1]), sys.argv[2]
server = FastMCP("test")


@server.tool()
async def add(a: int, b: int) -> str:
    """The sum of two numbers."""
    return f"sum {a + b}"


def is_alive(token):
    try:
        return urllib.request.urlopen(f"{provider}/alive/{token}", timeout=60).status == 204
    except urllib.error.HTTPError:
        return False


def guarded(app):
    """As a resource server does it (RFC 6750 §3); a client that sees this starts a sign-in of its own."""
    async def run(scope, receive, send):
        if scope["type"] == "http":
            value = dict(scope["headers"]).get(b"authorization", b"").decode()
            if not await asyncio.to_thread(is_alive, value.removeprefix("Bearer ")):
                print("REFUSED", scope["method"], value[-8:], flush=True)
                await send({"type": "http.response.start", "status": 401, "headers": [
                    (b"www-authenticate", b'Bearer error="invalid_token", resource_metadata="http://127.0.0.1/none"')]})
                return await send({"type": "http.response.body", "body": b""})
        return await app(scope, receive, send)
    return run


uvicorn.run(guarded(server.streamable_http_app()), host="127.0.0.1", port=port, log_level="info")
