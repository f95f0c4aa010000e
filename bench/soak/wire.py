"""One connection of a soak's client, and requests in every form that the socket takes."""

import json

from grantd_testing import Connection, Refused, line, message


class Wire(Connection):
    async def answer(self, **options):
        """The next answer, also an error; Refused where the broker has as many connections as it takes."""
        reply = await super().answer(**options)
        if isinstance(reply, dict) and reply.get("id") is None and is_refusal(reply):
            raise Refused(reply["error"])
        return reply

    async def ask(self, method, id=1, **params):
        await self.send(request(method, params, id))
        return await self.answer()


def is_refusal(reply):
    error = reply.get("error") or {}
    return (error.get("data") or {}).get("reason") == "overloaded" and "connections" in error.get("message", "")


def request(method, params, id):
    return line(message(method, params, id))


def some_id(random, number):
    """An id of any kind, different for each number."""
    kind = random.randrange(8)
    return (number, -number - 1, 2**62 + number, 10**30 + number, number + 0.5, str(number),
            f'"{number}\\ ü 🜂 \u2028', f"{number} " + "x" * 200)[kind]


def written(random, made):
    """The same message as different clients write it."""
    style = random.randrange(6)
    if style == 0:
        members = list(made.items())
        random.shuffle(members)
        return json.dumps(dict(members)).encode() + b"\n"
    if style == 1:
        return b" \t" + json.dumps(made, ensure_ascii=False).encode() + b" \r\n"
    if style == 2:
        return json.dumps(made).replace("account", "\\u0061ccount").encode() + b"\n\n"
    return line(made)


def key(id):
    """An id, to find its request by."""
    return json.dumps(id)
