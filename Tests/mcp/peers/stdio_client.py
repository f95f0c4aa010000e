"""The SDK's client over stdio: stdio_client.py CALLS PAUSE PROGRAM ARGUMENT... It prints a line for each call."""

import asyncio
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(calls, pause, program, *arguments):
    server = StdioServerParameters(command=program, args=list(arguments), env=dict(os.environ))
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        while True:
            try:
                await session.initialize()
                break
            except Exception as error:  # no sign-in yet
                print(f"error {error}", flush=True)
                await asyncio.sleep(pause)
        print(",".join(tool.name for tool in (await session.list_tools()).tools), flush=True)
        for number in range(calls):
            try:
                result = await session.call_tool("add", {"a": number, "b": 1})
                print("failed" if getattr(result, "is_error", False) else result.content[0].text, flush=True)
            except Exception as error:  # the session goes on
                print(f"error {error}", flush=True)
            await asyncio.sleep(pause)


asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:]))
