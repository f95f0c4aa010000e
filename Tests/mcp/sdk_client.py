"""The SDK's client, which knows a URL alone: sdk_client.py URL CALLS PAUSE. It prints a line for each call."""

import asyncio
import sys

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


async def main(url, calls, pause):
    async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        for number in range(calls):
            try:
                result = await session.call_tool("add", {"a": number, "b": 1})
                print("failed" if getattr(result, "is_error", False) else result.content[0].text, flush=True)
            except Exception as error:  # the session goes on
                print(f"error {error}", flush=True)
            await asyncio.sleep(pause)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
