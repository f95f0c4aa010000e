"""What a program waits for a token that it has a command print: whole processes, from their start to their end."""

import contextlib
import http.server
import json
import os
import shutil
import statistics
import subprocess
import threading
import time

from grantd_testing import Program, environment, wait_until

# The second round, so that each program is in the page cache.
WARM_UP = 5
OIDC_PROGRAMS = ("oidc-agent", "oidc-gen", "oidc-token")
START_SECONDS, COMMAND_SECONDS = 10, 30
EXEC_INFO = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}'


class Issuer(http.server.BaseHTTPRequestHandler):
    """As much of a provider as oidc-agent needs: one token, for a day."""

    def do_GET(self):
        address = f"http://127.0.0.1:{self.server.server_port}"
        self.answer({
            "issuer": address, "token_endpoint": f"{address}/token", "authorization_endpoint": f"{address}/authorize",
            "scopes_supported": ["openid", "offline_access"], "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"]})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer({
            "access_token": "ya29." + "a" * 60, "token_type": "Bearer", "expires_in": 86400, "refresh_token": "r",
            "scope": "openid offline_access"})

    def answer(self, members):
        body = json.dumps(members).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def oidc_agent(folder):
    """Debian's oidc-agent with one account; what `oidc-token` needs in its environment. None where it is not installed."""
    if not all(shutil.which(name) for name in OIDC_PROGRAMS):
        yield None
        return
    own, path = folder / "oidc-agent", folder / "oidc-agent.sock"
    own.mkdir(mode=0o700)
    surroundings = environment(folder, OIDC_CONFIG_DIR=str(own), OIDC_SOCK=str(path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Issuer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        agent = Program(["oidc-agent", "--console", f"--socket-path={path}"], folder / "oidc-agent.log", env=surroundings)
        try:
            wait_until(path.exists, START_SECONDS, "oidc-agent listens")
            subprocess.run(
                ["oidc-gen", "--manual", "--client-id=demo", "--client-secret=x",
                 f"--issuer=http://127.0.0.1:{server.server_port}/", "--scope=openid offline_access", "--flow=refresh",
                 "--rt=r", "--redirect-uri=http://localhost:4242", "--pw-cmd=echo x", "--prompt=none", "--confirm-default",
                 "--no-webserver", "--no-url-call", "bench"],
                env=surroundings, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True,
                timeout=COMMAND_SECONDS)
            yield surroundings
        finally:
            agent.stop()
            server.shutdown()


def run(arguments, surroundings, output):
    """Milliseconds of one process."""
    begun = time.perf_counter_ns()
    pid = os.posix_spawn(arguments[0], arguments, surroundings, file_actions=[(os.POSIX_SPAWN_DUP2, output, 1)])
    _, status = os.waitpid(pid, 0)
    took = (time.perf_counter_ns() - begun) / 1e6
    if status != 0:
        raise RuntimeError(f"{' '.join(arguments)} ended with {os.waitstatus_to_exitcode(status)}")
    return took


def installed(binaries, folder):
    """Copies, where `make install` puts them: the kernel caches a file that a linker wrote in smaller pieces, and each costs
    a process a page fault."""
    front, full = folder / "bin" / "grantctl", folder / "lib" / "grantd" / "grantctl"
    for source, copy in (("grantctl-front", front), ("grantctl", full)):
        copy.parent.mkdir(parents=True)
        shutil.copy(binaries / source, copy)
    return front, full


def measure(binaries, folder, broker_socket, account, rounds):
    """Name -> the milliseconds of each round, all programs in turn."""
    ask = ["--socket", str(broker_socket), "token", account]
    own = environment(folder)
    front, full = installed(binaries, folder)
    with oidc_agent(folder) as surroundings, open(os.devnull, "wb") as output:
        programs = {
            "/bin/true": (["/bin/true"], own),
            "grantctl token": ([str(front), *ask], own),
            # One that reads nothing from its standard input.
            "grantctl helper": (
                [str(front), "helper", "kubectl", "--socket", str(broker_socket), "--account", account],
                own | {"KUBERNETES_EXEC_INFO": EXEC_INFO}),
            "the full program": ([str(full), *ask], own)}
        if surroundings:
            programs["oidc-token"] = ([shutil.which("oidc-token"), "bench"], surroundings)
        for arguments, environ in programs.values():
            said = subprocess.run(arguments, env=environ, capture_output=True, timeout=COMMAND_SECONDS, check=True).stdout
            if arguments[0] != "/bin/true" and len(said) < 20:
                raise RuntimeError(f"{' '.join(arguments)} prints no token: {said}")
        times = {name: [] for name in programs}
        for _ in range(WARM_UP + rounds):
            for name, (arguments, environ) in programs.items():
                times[name].append(run(arguments, environ, output.fileno()))
    return {name: values[WARM_UP:] for name, values in times.items()}


def medians(times):
    return {name: statistics.median(values) for name, values in times.items()}
