"""The real grantd, whose life is in the ledger."""

import asyncio
import signal

import grantd_testing
from grantd_testing import Wrong
from provider.web import sign_in


class Daemon(grantd_testing.Daemon):
    start_limit = 90

    def __init__(self, products, folder, ledger, state=None):
        super().__init__(products, folder, state)
        self.ledger, self.runtime = ledger, folder

    def tell(self, what):
        self.ledger.write("daemon", what=what, pid=self.process.pid, daemon=str(self.folder.name))

    def configure(self, sections, refresh="", more=""):
        delays = "" if "retry_delays" in refresh else 'retry_delays = ["1s", "2s"]\n'
        text = f'[refresh]\nmargin = "0s"\n{delays}{refresh}{more}\n' + "\n".join(sections)
        self.config.write_text(text)

    @property
    def environment(self):
        return grantd_testing.environment(
            self.folder, XDG_RUNTIME_DIR=str(self.runtime), RUNTIME_DIRECTORY=str(self.runtime / "run"))

    def launch(self, files=None):
        (self.runtime / "run").mkdir(mode=0o700, exist_ok=True)
        super().launch(files)

    def freeze(self):
        self.tell("stop")
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)
        self.tell("cont")

    async def login(self, client, realm, account):
        """Signs in by the socket and the pages, as a person with a browser does."""
        started = await client.call("login.start", provider=realm.name, account=account, login_hint=account)
        url = next(place["url"] for place in started["destinations"] if place["kind"] == "browser")
        await sign_in(url, account)
        result = await client.call("login.wait", login_id=started["login_id"], timeout=50)
        if result["state"] != "completed":
            raise Wrong(f"{account}: the login is {result['state']} after the callback")

    async def grantctl(self, *arguments, seconds=120.0):
        """Exit status and output."""
        process = await asyncio.create_subprocess_exec(
            str(self.products / "grantctl"), "--socket", str(self.socket), *arguments, env=self.environment,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        try:
            async with asyncio.timeout(seconds):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return None, f"no end within {seconds:g} s"
        return process.returncode, output.decode(errors="replace")
