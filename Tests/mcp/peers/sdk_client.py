"""The SDK's client, which knows a URL alone: sdk_client.py URL CALLS PAUSE. It prints a line for each call.

With `times` as a fourth argument each line begins with the seconds that the call took.
"""

import asyncio
import sys
import time

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


async def main(url, calls, pause, times=None):
    def say(text):
        print((f"{time.monotonic() - began:.3f} " if times else "") + text, flush=True)

    async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        for number in range(calls):
            began = time.monotonic()
            try:
                result = await session.call_tool("add", {"a": number, "b": 1})
                say("failed" if getattr(result, "is_error", False) else result.content[0].text)
            except Exception as error:  # the session goes on
                say(f"error {error} {getattr(getattr(error, 'error', None), 'data', None)}")
            await asyncio.sleep(pause)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:]))
