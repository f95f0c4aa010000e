"""The driver of Python: driver.py FOLDER [--async]."""

import asyncio
import json
import os
import signal
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import grantd
from grantd import errors


def say(**answer):
    print(json.dumps(answer), flush=True)


def described(error):
    kind = errors.BY_REASON.get(error.reason, grantd.GrantdError)
    texts = [str(error), repr(error), *map(str, error.args)]
    return {"reason": error.reason, "hint": error.hint, "message": error.message, "retry_after": error.retry_after,
            "is_type": type(error) is kind, "texts": texts}


def members(token):
    names = ("access_token", "token_type", "expires_at", "scope", "account", "provider", "generation")
    return {name: getattr(token, name) for name in names}


def options(command):
    return {name: command[name] for name in ("scopes", "resource", "min_ttl", "timeout") if name in command}


def printed(token, client):
    texts = [repr(token), str(token), f"{token}", "%s" % token, repr([token]), repr(client), repr(vars(client))]
    try:
        import pickle
        texts.append(repr(pickle.dumps(token)))
    except TypeError as error:
        texts.append(str(error))
    return texts


class Blocking:
    def __init__(self):
        self.client = grantd.Client()

    def token(self, command):
        return members(self.client.token(command["account"], **options(command)))

    def report(self, command):
        return self.client.report_rejected(command["account"], command["generation"])

    def print(self, command):
        return printed(grantd.token(command["account"]), self.client)

    def accounts(self, command):
        return self.client.accounts()

    def login(self, command):
        return self.client.login(command["provider"], command["account"], show=lambda places: say(ok=places))

    def many(self, command):
        good, failed, is_separate = [], [], command.get("separate")

        def work():
            client = grantd.Client() if is_separate else self.client
            for _ in range(command["count"] // command["threads"]):
                try:
                    client.token(command["account"])
                    good.append(1)
                except grantd.GrantdError as error:
                    failed.append(described(error))
        threads = [threading.Thread(target=work) for _ in range(command["threads"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"good": len(good), "failed": failed[:3]}

    def fork(self, command):
        before = self.client.token(command["account"]).access_token

        def wait():
            try:
                self.client.token(command["slow"])
            except grantd.GrantdError:
                pass
        slow = threading.Thread(target=wait)
        slow.start()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, self.client.token(command["account"]).access_token.encode())
            os._exit(0)
        os.waitpid(child, 0)
        after = self.client.token(command["account"]).access_token
        slow.join()
        answer = {"before": before, "child": os.read(reading, 1000).decode(), "after": after}
        os.close(reading)
        os.close(writing)
        return answer

    def interrupted(self, command):
        def interrupt(number, frame):
            raise KeyboardInterrupt
        signal.signal(signal.SIGUSR1, interrupt)
        try:
            self.client.token(command["account"])
            was_interrupted = False
        except KeyboardInterrupt:
            was_interrupted = True
        return {"was_interrupted": was_interrupted, "token": self.client.token(command["then"]).access_token}

    def events(self, command):
        events = self.client.events(command["types"])
        say(ok="subscribed")
        # Other cases refresh accounts at the same time.
        found = next(event for event in events if event.get("account") == command["account"])
        events.close()
        return found

    def adapter(self, command):
        import adapters
        try:
            return getattr(adapters, command["name"])(self.client, command)
        except ModuleNotFoundError as error:
            return {"skip": str(error)}

    def fetch(self, command):
        try:
            import requests

            from grantd.adapters.requests import GrantdAuth
        except ImportError as error:
            return {"skip": str(error)}
        body = command.get("body")
        data = iter([body.encode()]) if command.get("stream") else body
        with requests.Session() as session:
            session.trust_env = False
            answer = session.request("POST" if body else "GET", command["url"], data=data,
                                     auth=GrantdAuth(command["account"], client=self.client))
            return {"status": answer.status_code, "body": answer.json()["body"]}


class Tasks:
    def __init__(self):
        self.client = grantd.AsyncClient()

    async def token(self, command):
        return members(await self.client.token(command["account"], **options(command)))

    async def report(self, command):
        return await self.client.report_rejected(command["account"], command["generation"])

    async def print(self, command):
        return printed(await self.client.token(command["account"]), self.client)

    async def accounts(self, command):
        return await self.client.accounts()

    async def login(self, command):
        return await self.client.login(command["provider"], command["account"], show=lambda places: say(ok=places))

    async def many(self, command):
        failed, good = [], []
        # The loop does nothing meanwhile.
        time.sleep(command.get("pause", 0))

        async def work():
            client = grantd.AsyncClient() if command.get("separate") else self.client
            for _ in range(command["count"] // command["threads"]):
                try:
                    await client.token(command["account"])
                    good.append(1)
                except grantd.GrantdError as error:
                    failed.append(described(error))
            if client is not self.client:
                await client.close()
        await asyncio.gather(*(work() for _ in range(command["threads"])))
        return {"good": len(good), "failed": failed[:3]}

    async def fork(self, command):
        return {"skip": "an event loop does not survive a fork"}

    async def interrupted(self, command):
        task = asyncio.create_task(self.client.token(command["account"]))
        await asyncio.sleep(0.2)
        task.cancel()
        try:
            await task
            was_interrupted = False
        except asyncio.CancelledError:
            was_interrupted = True
        return {"was_interrupted": was_interrupted, "token": (await self.client.token(command["then"])).access_token}

    async def events(self, command):
        asyncio.get_running_loop().call_later(0.3, lambda: say(ok="subscribed"))
        events = self.client.events(command["types"])
        try:
            async for event in events:
                if event.get("account") == command["account"]:
                    return event
        finally:
            await events.aclose()

    async def fetch(self, command):
        try:
            import httpx

            from grantd.adapters.httpx import GrantdAuth
        except ImportError as error:
            return {"skip": str(error)}
        body = command.get("body")

        async def once():
            yield body.encode()
        content = once() if command.get("stream") else body
        async with httpx.AsyncClient(trust_env=False) as http:
            answer = await http.request("POST" if body else "GET", command["url"], content=content,
                                        auth=GrantdAuth(command["account"], async_client=self.client))
            return {"status": answer.status_code, "body": answer.json()["body"]}


def answered(action, command):
    answer = action(command)
    say(**(answer if isinstance(answer, dict) and "skip" in answer else {"ok": answer}))


async def run_tasks():
    tasks, loop = Tasks(), asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        try:
            answer = await getattr(tasks, command["do"])(command)
            say(**(answer if isinstance(answer, dict) and "skip" in answer else {"ok": answer}))
        except grantd.GrantdError as error:
            say(error=described(error))
    await tasks.client.close()
    await asyncio.sleep(0)


def run_blocking():
    blocking = Blocking()
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answered(getattr(blocking, command["do"]), command)
        except grantd.GrantdError as error:
            say(error=described(error))
    blocking.client.close()


if "--async" in sys.argv:
    asyncio.run(run_tasks())
else:
    run_blocking()
