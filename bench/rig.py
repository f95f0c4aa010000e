"""What the benchmark needs around it: a provider, a broker, a client of its socket. Standard library only."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.request

START_SECONDS = 20
STOP_SECONDS = 15
CALL_SECONDS = 60


def get(url, body=None):
    """The answer's body; redirects are followed. A proxy of the environment has no say on loopback."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"} if body else {})
    with opener.open(request, timeout=CALL_SECONDS) as answer:
        return answer.read()


def stop(process):
    if process and process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Provider:
    """grantd-demo-provider on a port of its own."""

    def __init__(self, binaries, access_ttl, *arguments):
        self.process = subprocess.Popen(
            [binaries / "grantd-demo-provider", "--port", "0", "--access-ttl", str(access_ttl), "--refresh-ttl", "86400",
             *arguments], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("ready "):
            raise RuntimeError(f"the provider did not start: {line!r}")
        self.issuer = json.loads(line[len("ready "):])["issuer"]

    def control(self, command, **members):
        return json.loads(get(f"{self.issuer}/_control/{command}", json.dumps(members).encode()))

    def stats(self):
        return json.loads(get(f"{self.issuer}/_control/stats"))

    def stop(self):
        stop(self.process)


class Client:
    """One connection to the broker, one call at a time."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(CALL_SECONDS)
        self.socket.connect(str(path))
        self.received = b""

    def send(self, method, **params):
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.socket.sendall(json.dumps(request, separators=(",", ":")).encode() + b"\n")

    def line(self):
        chunks = [self.received]
        while b"\n" not in chunks[-1]:
            chunks.append(self.socket.recv(65536))
            if not chunks[-1]:
                raise RuntimeError("the broker closed the connection")
        line, self.received = b"".join(chunks).split(b"\n", 1)
        return line

    def result(self):
        reply = json.loads(self.line())
        if "error" in reply:
            raise RuntimeError(f"the broker refused: {reply['error']}")
        return reply["result"]

    def call(self, method, **params):
        self.send(method, **params)
        return self.result()

    def close(self):
        self.socket.close()


class Broker:
    """grantd as its user would start it, in a folder of its own."""

    def __init__(self, binaries, folder, providers, instance="user", sections=""):
        self.binaries, self.folder, self.instance = binaries, pathlib.Path(folder), instance
        self.socket, self.state = self.folder / "grantd.sock", self.folder / "state"
        self.config, self.log = self.folder / "grantd.toml", self.folder / "grantd.log"
        self.process, self.environment, self.start_seconds = None, {}, START_SECONDS
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
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifications, open(self.log, "ab") as log:
            notifications.bind(str(address))
            notifications.settimeout(1)
            command = [self.binaries / "grantd", f"--{self.instance}", "--config", self.config, "--state", self.state,
                       "--socket", self.socket]
            begun, self.told = time.monotonic(), []
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log,
                env={**os.environ, **self.environment, "NOTIFY_SOCKET": str(address)})
            while not self.says_ready(notifications):
                if time.monotonic() - begun > self.start_seconds or self.process.poll() is not None:
                    raise RuntimeError(f"no READY=1 within {self.start_seconds} s:\n{self.log.read_text()[-2000:]}")
            return time.monotonic() - begun

    def says_ready(self, notifications):
        try:
            lines = notifications.recv(4096).decode().split("\n")
        except TimeoutError:
            return False
        self.told += [line.removeprefix("STATUS=") for line in lines if line.startswith("STATUS=")]
        return "READY=1" in lines

    def stop(self):
        stop(self.process)

    def rss(self):
        """Resident memory in bytes (proc_pid_status(5))."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.M)[1]) * 1024

    def cpu(self):
        """Seconds of CPU that the process has used (proc_pid_stat(5))."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def settle(self, busy=0.05, seconds=120):
        """Waits until the process does next to nothing for a second."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            before = self.cpu()
            time.sleep(1)
            if self.cpu() - before <= busy:
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
        process = subprocess.Popen(
            [self.binaries / "grantctl", "--socket", self.socket, "login", provider, account, "--no-browser"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seen = ""
        for line in process.stdout:
            seen += line
            if found := re.search(r"https?://\S+", line):
                get(found[0])
                break
        seen += process.stdout.read()
        if process.wait(CALL_SECONDS) != 0:
            raise RuntimeError(f"grantctl login failed:\n{seen}")
