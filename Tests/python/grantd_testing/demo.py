"""grantd-demo-provider as a process, and its control API."""

import json
import re

from .errors import Wrong
from .loopback import get, http
from .program import Program, environment
from .waiting import until, wait_until

START_SECONDS = 60
PAUSE_SECONDS = 0.01


class DemoProcess:
    """The provider on a port that the kernel chose; `issuer` is known when it is ready."""

    def __init__(self, products, folder, *options, name="demo"):
        self.name, self.log, self.issuer = name, folder / f"{name}.log", None
        # A folder that is kept may have the log of an earlier run, with an earlier address.
        self.log.unlink(missing_ok=True)
        self.process = Program(
            [products / "grantd-demo-provider", "--port", 0, *options], self.log, env=environment(folder))

    def find_issuer(self):
        """From what it says when it is ready; None before."""
        text = self.log.read_text(errors="replace")
        if found := re.search(r"^ready (.*)\n", text, re.M):
            self.issuer = json.loads(found[1])["issuer"]
        elif self.process.status is not None:
            raise Wrong(f"the provider {self.name} does not start: {text[-500:]}")
        return self.issuer

    @property
    def start(self):
        """What to wait for, how long, its name, and the pause between two looks."""
        return self.find_issuer, START_SECONDS, f"the provider {self.name} is ready", PAUSE_SECONDS

    def url(self, command):
        return f"{self.issuer}/_control/{command}"


class BlockingDemo(DemoProcess):
    def __init__(self, products, folder, *options, name="demo"):
        super().__init__(products, folder, *options, name=name)
        wait_until(*self.start)

    def control(self, command, /, **members):
        return json.loads(get(self.url(command), json.dumps(members).encode()))

    def stats(self):
        return json.loads(get(self.url("stats")))

    def close(self):
        self.process.stop()


class Demo(DemoProcess):
    """The same in an event loop."""

    async def ready(self):
        await until(*self.start)

    async def control(self, command, /, **members):
        return await self.ask("POST", command, members)

    async def stats(self):
        return await self.ask("GET", "stats")

    async def ask(self, method, command, body=None):
        status, _, answer = await http(method, self.url(command), body)
        if status != 200:
            raise Wrong(f"{self.name}: {command} answers {status}: {answer[:200]}")
        return json.loads(answer)
