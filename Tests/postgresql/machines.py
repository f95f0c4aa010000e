"""Machines that share a database: a grantd each, with its own state folder, and a provider with a ledger."""

import json
import pathlib
import shutil
import subprocess
import sys
import time
import urllib.request

from grantd_testing import BlockingClient, CommandedDaemon, Gone, Program, Refused, wait_until

PROVIDER = pathlib.Path(__file__).resolve().parent.parent / "Support" / "strict-provider"
PATIENCE = 90
START_SECONDS = 60
PAUSE = 0.02


class Provider:
    """Refresh tokens are good once: a second use ends the family."""

    def __init__(self, folder, address="127.0.0.1"):
        port = folder / "port"
        self.address = address
        self.process = Program([sys.executable, PROVIDER, port, address], folder / "provider.log")
        wait_until(port.exists, PATIENCE, "the provider listens", PAUSE)
        self.port = int(port.read_text())

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.address}:{self.port}{path}", timeout=PATIENCE) as answer:
            return json.load(answer)

    @property
    def ledger(self):
        return self.get("/ledger")

    def refreshes(self):
        return self.ledger["refreshes"]

    def delay(self, seconds):
        self.get(f"/delay?seconds={seconds}")

    def release(self):
        """Answers what waits for the end of its delay; returns when that is written."""
        self.get("/release")

        def all_answered():
            ledger = self.ledger
            return ledger["answered"] == ledger["refreshes"]
        eventually("all requests are answered", all_answered)

    def lifetime(self, seconds):
        self.get(f"/lifetime?seconds={seconds}")

    def sections(self, name="strict", origin=None):
        """`origin`: the URL of another program that forwards to it."""
        origin = origin or f"http://{self.address}:{self.port}"
        return (
            f'[provider.{name}]\nkind = "oauth2"\nclient_id = "client"\nrotation = "strict"\nallow_insecure_http = true\n'
            f'authorization_endpoint = "{origin}/authorize"\ntoken_endpoint = "{origin}/token"\n')

    def close(self):
        self.process.kill()


class Machine(CommandedDaemon):
    def __init__(self, programs, folder, key, store, sections="", options=""):
        folder.mkdir()
        super().__init__(programs, folder, 0, f'[store]\n{store}\nkey_file = "{folder}/key"\n{options}\n{sections}')
        shutil.copy(key, folder / "key")

    def call(self, method, /, seconds=PATIENCE, **params):
        client = BlockingClient(self.socket, seconds)
        try:
            return client.call(method, **params)
        finally:
            client.close()

    def get(self, account, seconds=PATIENCE):
        """The access token."""
        return self.call("token.get", seconds, account=account)["access_token"]

    def refused(self, method, **params):
        """The reason of the error."""
        try:
            self.call(method, **params)
        except Refused as refusal:
            return refusal.reason
        raise AssertionError(f"{method} was not refused")

    def attempt(self, method, **params):
        """An error is as good as a result."""
        try:
            self.call(method, **params)
        except Refused:
            pass

    def adopt(self, account):
        """An account of the family of that name. Its first token is used at once, maybe by another machine."""
        self.call("account.import", account=account, provider="strict", refresh_token=f"{account}-r1")
        eventually("the first token is known", lambda: self.get(account) == f"{account}-a2")

    def serves(self):
        try:
            self.call("broker.status")
            return True
        except (OSError, Gone):
            return False

    def launch_and_wait(self):
        self.launch()
        wait_until(lambda: self.process.status is not None or self.serves(), START_SECONDS, "grantd serves", PAUSE)
        self.ended()

    def status(self):
        return self.call("broker.status")


def eventually(what, condition, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while True:
        try:
            found = condition()
            if found:
                return found
            failure = None
        except (Refused, OSError, Gone, AssertionError, RuntimeError) as error:
            failure = error
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds} s still not: {what}" + (f" ({failure})" if failure else ""))
        time.sleep(PAUSE)


def new_key(path):
    path.write_bytes(subprocess.run(["openssl", "rand", "32"], capture_output=True, check=True).stdout)
    path.chmod(0o600)
    return path
