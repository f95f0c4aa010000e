"""The listener of [http]: the token endpoint, and the forward endpoint beside nginx' proxy_pass. By wrk and Debian's nginx."""

import os
import pathlib
import re
import shutil
import statistics
import subprocess
import threading
import time

from broker import Broker
from grantd_testing import Program, free_ports, wait_until

START_SECONDS = 10
CONNECTIONS = 64
TOKENS_WANTED, P50_WANTED_US, FORWARD_WANTED, MEMORY_WANTED_MB = 30_000, 200, 0.5, 40
# The search for the token in a gigabyte took 5 s once; all else takes about one.
PROCESSOR_WANTED_S = 2.5
BODY = "x" * 1000
GIGABYTE = 1 << 30

NGINX = """
{user} worker_processes 1; daemon off; pid {folder}/{name}.pid; error_log {folder}/{name}.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}/{name}-body;
  proxy_temp_path {folder}/{name}-proxy; fastcgi_temp_path {folder}/{name}-f; uwsgi_temp_path {folder}/{name}-u;
  scgi_temp_path {folder}/{name}-s; client_max_body_size 0;
  {rest}
}}
"""


class Web:
    """Runs it, and says what was missed."""

    def __init__(self, products, folder, quick=False):
        self.products, self.folder, self.seconds = products, folder, 2 if quick else 8
        self.rounds = 1 if quick else 3
        self.results, self.missed = {}, []
        folder.mkdir()

    @staticmethod
    def is_possible():
        return shutil.which("wrk") and shutil.which("nginx")

    def nginx(self, name, rest):
        path = self.folder / f"{name}.conf"
        path.write_text(NGINX.format(
            folder=self.folder, name=name, rest=rest, user="user root;" if os.geteuid() == 0 else ""))
        return Program(["nginx", "-p", str(self.folder), "-c", str(path)], self.folder / f"{name}.out")

    def run(self):
        upstream, proxy, port = free_ports(3)
        big = self.folder / "big"
        with open(big, "wb") as file:
            file.truncate(GIGABYTE)
        token = '{"access_token":"' + "ya29." + "a" * 200 + '","token_type":"Bearer","expires_in":86400,"scope":"x"}'
        server = self.nginx("upstream", f"""
          server {{ listen 127.0.0.1:{upstream};
            location /token {{ default_type application/json; return 200 '{token}'; }}
            location /big {{ alias {big}; }}
            location / {{ default_type text/plain; return 200 "{BODY}"; }} }}""")
        proxied = self.nginx("proxy", f"""
          upstream there {{ server 127.0.0.1:{upstream}; keepalive 128; }}
          server {{ listen 127.0.0.1:{proxy}; location / {{ proxy_pass http://there; proxy_http_version 1.1;
            proxy_set_header Connection ""; proxy_set_header Authorization "Bearer {"a" * 200}"; }} }}""")
        secret = self.folder / "secret"
        secret.write_text("s")
        secret.chmod(0o600)
        broker = Broker(self.products, self.folder, {}, sections=f"""
[provider.p]
kind = "oauth2"
token_endpoint = "http://127.0.0.1:{upstream}/token"
authorization_endpoint = "http://127.0.0.1:{upstream}/none"
client_id = "c"
client_secret_file = "{secret}"
scopes = ["x"]
allow_insecure_http = true
api_base = "http://127.0.0.1:{upstream}"
[account.alice]
provider = "p"
grant = "client_credentials"
[http]
listen = "127.0.0.1:{port}"
[limits]
requests_per_second = 1000000
burst = 10000000
""")
        try:
            broker.start()
            wait_until(lambda: self.curl(f"http://127.0.0.1:{port}/forward/alice/x") == "200", START_SECONDS, "it forwards")
            wait_until(lambda: self.curl(f"http://127.0.0.1:{proxy}/x") == "200", START_SECONDS, "nginx forwards")
            self.tokens(port)
            self.forwards(port, proxy)
            self.memory(broker, port)
        finally:
            broker.stop()
            for one in (server, proxied):
                one.stop()

    @staticmethod
    def curl(url, *options):
        return subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *options, url], capture_output=True,
                              text=True, check=False).stdout

    def wrk(self, url, connections, script=None):
        """Requests a second, and the median in microseconds."""
        command = ["wrk", "-t1", f"-c{connections}", f"-d{self.seconds}s", "--latency", *(["-s", str(script)] if script else []),
                   url]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        if "Non-2xx" in out or "Socket errors" in out:
            raise RuntimeError(out)
        value, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)\b", out).groups()
        return float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]), float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]

    def judge(self, name, value, is_good, wanted):
        self.results[name] = value
        print(f"{'PASS' if is_good else 'MISS'}  {name}: {value:,.2f}, wanted {wanted}", flush=True)
        if not is_good:
            self.missed.append(name)

    def tokens(self, port):
        script = self.folder / "token.lua"
        script.write_text(
            'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/x-www-form-urlencoded"\n'
            'wrk.body = "grant_type=client_credentials&client_id=alice"\n')
        url = f"http://127.0.0.1:{port}/token"
        rate = statistics.median(self.wrk(url, CONNECTIONS, script)[0] for _ in range(self.rounds))
        self.judge(f"tokens a second, {CONNECTIONS} kept connections", rate, rate >= TOKENS_WANTED, f">= {TOKENS_WANTED}")
        half = statistics.median(self.wrk(url, 1, script)[1] for _ in range(self.rounds))
        self.judge("token, one connection, median in us", half, half <= P50_WANTED_US, f"<= {P50_WANTED_US}")

    def forwards(self, port, proxy):
        """In turns, so that both have the same machine."""
        ours, theirs = [], []
        for _ in range(self.rounds):
            ours.append(self.wrk(f"http://127.0.0.1:{port}/forward/alice/x", CONNECTIONS)[0])
            theirs.append(self.wrk(f"http://127.0.0.1:{proxy}/x", CONNECTIONS)[0])
        self.results["forwarded a second"], self.results["nginx, a second"] = map(statistics.median, (ours, theirs))
        ratio = statistics.median(one / other for one, other in zip(ours, theirs))
        print(f"      forwarded {statistics.median(ours):,.0f}/s, nginx {statistics.median(theirs):,.0f}/s")
        self.judge("forwarded, of nginx' requests", ratio, ratio >= FORWARD_WANTED, f">= {FORWARD_WANTED}")

    @staticmethod
    def resident(broker):
        return broker.process.resident() / (1 << 20)

    @staticmethod
    def processor(broker):
        """Seconds of processor time that the broker has used."""
        fields = pathlib.Path(f"/proc/{broker.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, broker, port):
        time.sleep(2)
        idle, most, is_over = self.resident(broker), [0.0], threading.Event()

        def watch():
            while not is_over.wait(0.02):
                most[0] = max(most[0], self.resident(broker))
        watcher = threading.Thread(target=watch)
        watcher.start()
        used = self.processor(broker)
        try:
            begun = time.monotonic()
            status = self.curl(f"http://127.0.0.1:{port}/forward/alice/big")
            seconds = time.monotonic() - begun
        finally:
            is_over.set()
            watcher.join()
        if status != "200":
            raise RuntimeError(f"a gigabyte: status {status}")
        print(f"      a gigabyte in {seconds:.1f} s, {os.cpu_count()} CPUs")
        grown = most[0] - idle
        self.judge("MB above idle with a gigabyte", grown, grown <= MEMORY_WANTED_MB, f"<= {MEMORY_WANTED_MB}")
        used = self.processor(broker) - used
        self.judge("processor seconds for a gigabyte", used, used <= PROCESSOR_WANTED_S, f"<= {PROCESSOR_WANTED_S}")
