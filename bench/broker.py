"""grantd as its user would start it, measured."""

import re
import socket
import subprocess
import time

from grantd_testing import DaemonProcess, Program, get

COMMAND_SECONDS = 60


class Broker(DaemonProcess):
    """grantd in a folder of its own."""

    options = ()

    def __init__(self, products, folder, providers, instance="user", sections=""):
        super().__init__(products, folder)
        self.instance = instance
        # What goes into its environment.
        self.more = {}
        # What it said of its last start (STATUS= of sd_notify(3)).
        self.told = []
        self.state.mkdir(mode=0o700, exist_ok=True)
        self.config.write_text("".join(
            f'[provider.{name}]\nkind = "oidc"\nissuer = "{provider.issuer}"\nclient_id = "demo"\n'
            f'scopes = ["openid", "offline_access"]\nallow_insecure_http = true\n\n'
            for name, provider in providers.items()) + sections)

    def start(self):
        """Seconds from exec to READY=1 on the notification socket (sd_notify(3))."""
        address = self.folder / "notify.sock"
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifications:
            notifications.bind(str(address))
            notifications.settimeout(1)
            begun, self.told = time.monotonic(), []
            self.launch(NOTIFY_SOCKET=str(address), **self.more)
            while not self.says_ready(notifications):
                if time.monotonic() - begun > self.start_limit or self.process.status is not None:
                    raise RuntimeError(f"no READY=1 within {self.start_limit} s:\n{self.log.read_text()[-2000:]}")
            return time.monotonic() - begun

    def says_ready(self, notifications):
        try:
            lines = notifications.recv(4096).decode().split("\n")
        except TimeoutError:
            return False
        self.told += [line.removeprefix("STATUS=") for line in lines if line.startswith("STATUS=")]
        return "READY=1" in lines

    def stop(self):
        if self.process:
            self.process.stop()

    def settle(self, busy=0.05, seconds=120):
        """Waits until the process does next to nothing for a second."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            before = self.process.cpu_seconds()
            time.sleep(1)
            if self.process.cpu_seconds() - before <= busy:
                return
        raise RuntimeError(f"the broker is still busy after {seconds} s:\n{self.log.read_text()[-2000:]}")

    def sign_in(self, client, provider, account, hint):
        """A login as a person makes it, the browser played by urllib. Says how the account stands."""
        login = client.call("login.start", provider=provider, account=account, login_hint=hint, destinations=["browser"])
        get(login["destinations"][0]["url"])
        outcome = client.call("login.wait", login_id=login["login_id"], timeout=30)
        if outcome["state"] != "completed":
            raise RuntimeError(f"the login of {account} did not complete: {outcome}")

    def sign_in_by_command(self, provider, account):
        """The same with grantctl."""
        process = Program(
            [self.products / "grantctl", "--socket", self.socket, "login", provider, account, "--no-browser"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seen = ""
        for line in process.stdout:
            seen += line
            if found := re.search(r"https?://\S+", line):
                get(found[0])
                break
        seen += process.stdout.read()
        if process.wait(COMMAND_SECONDS) != 0:
            raise RuntimeError(f"grantctl login failed:\n{seen}")
