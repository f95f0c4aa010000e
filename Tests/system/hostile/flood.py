"""Many requests at once on many connections: what most attacks are made of."""

import asyncio
import collections
import contextlib
import itertools
import json

from actor import ended
from grantd_testing import line, message
from machine import SOCKET

LINE_BYTES = 16 << 20
PAUSE_SECONDS = 0.05
CONNECT_TRIES = 20


async def connect():
    """None: the listen queue stays full, or the broker closes at once."""
    for _ in range(CONNECT_TRIES):
        with contextlib.suppress(OSError):
            return await asyncio.open_unix_connection(str(SOCKET), limit=LINE_BYTES)
        await asyncio.sleep(PAUSE_SECONDS)
    return None


async def count_answers(reader, told):
    with contextlib.suppress(OSError, ValueError):
        while text := await reader.readline():
            answer = json.loads(text)
            # A batch is answered by an array.
            for one in answer if isinstance(answer, list) else [answer]:
                error = one.get("error")
                told["answered" if error is None else (error.get("data") or {}).get("reason", "error")] += 1
    told["closed"] += 1


async def keep_sending(writers, payload, pause):
    """Until the end; again and again where there is a pause, on each connection whose bytes were taken."""
    while not ended.is_set():
        await asyncio.sleep(pause or PAUSE_SECONDS)
        for writer in writers if pause else ():
            if not writer.transport.is_closing() and not writer.transport.get_write_buffer_size():
                writer.write(payload)


async def send_all(tell, connections, payload, pause=0.0):
    """The same bytes on each connection; what was answered until the end."""
    told, writers, tasks = collections.Counter(), [], []
    for _ in range(connections):
        if (pair := await connect()) is None:
            told["not connected"] += 1
            continue
        reader, writer = pair
        writer.write(payload)
        writers.append(writer)
        tasks.append(asyncio.create_task(count_answers(reader, told)))
    tell("sent")
    await keep_sending(writers, payload, pause)
    for writer in writers:
        writer.transport.abort()
    for task in tasks:
        task.cancel()
    return dict(told)


def requests(tell, connections, each, method, params, pause=0.0):
    """`each` requests on each of so many connections, every `pause` seconds or once."""
    payload = b"".join(line(message(method, params, number)) for number in range(each))
    return asyncio.run(send_all(tell, connections, payload, pause))


def lines(tell, connections, each, text, size, pause=0.0):
    """Lines of so many bytes that parse and are no request; `text` is repeated in an array."""
    count = (size - 4) // (len(text) + 1)
    one = "[" + ",".join(itertools.repeat(text, count)) + "]\n"
    return asyncio.run(send_all(tell, connections, one.encode() * each, pause))
