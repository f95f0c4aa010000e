"""A client of the Model Context Protocol that knows a URL alone: mcp_client.py URL CALLS. A line of input is a call."""

import asyncio
import sys

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


async def main(url, calls):
    async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        for number in range(calls):
            await asyncio.to_thread(sys.stdin.readline)
            result = await session.call_tool("add", {"a": number, "b": 1})
            failed = getattr(result, "is_error", getattr(result, "isError", False))
            print("failed" if failed else result.content[0].text, flush=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
