"""Networks of machines that can be cut from the database and from the provider: a network namespace for each machine, or,
if the system forbids them, proxies on loopback addresses."""

import os
import socket
import subprocess
import sys
import threading

from grantd_testing import Program, StreamServer

COMMAND_SECONDS = 60
CHUNK = 1 << 16
DATABASE, PROVIDER = "database", "provider"
ENTERED = "GRANTD_TEST_NETWORK"


def enter_network(environment):
    """Starts this program again in a network of its own, if that is possible."""
    if ENTERED in environment:
        return
    namespace = ["unshare", "--net"]
    if subprocess.run([*namespace, "ip", "link", "set", "lo", "up"], capture_output=True, timeout=COMMAND_SECONDS).returncode:
        return
    environment[ENTERED] = "1"
    os.execvpe("unshare", [*namespace, sys.executable, *sys.argv], environment)


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=COMMAND_SECONDS)


class Namespaces:
    """Each machine has a link to the database's address and one to the provider's."""

    title, addresses = "network namespaces", {DATABASE: "10.99.0.1", PROVIDER: "10.99.0.2"}

    def __init__(self, count):
        ip("link", "set", "lo", "up")
        for address in self.addresses.values():
            ip("address", "add", f"{address}/32", "dev", "lo")
        self.holders = [self.network(number) for number in range(count)]

    def network(self, number):
        """A process that keeps the machine's namespace."""
        holder = Program(["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && exec sleep infinity"],
                         stdout=subprocess.PIPE)
        holder.stdout.readline()
        for kind, address in self.addresses.items():
            net = {DATABASE: 53, PROVIDER: 54}[kind]
            inside = self.inside(holder.pid)
            ip("link", "add", self.name(kind, number), "type", "veth", "peer", "name", kind, "netns", str(holder.pid))
            ip("address", "add", f"10.{net}.{number}.1/30", "dev", self.name(kind, number))
            ip("link", "set", self.name(kind, number), "up")
            for command in (("address", "add", f"10.{net}.{number}.2/30", "dev", kind), ("link", "set", kind, "up"),
                            ("route", "add", f"{address}/32", "via", f"10.{net}.{number}.1")):
                subprocess.run([*inside, "ip", *command], check=True, capture_output=True, timeout=COMMAND_SECONDS)
        return holder

    @staticmethod
    def inside(pid):
        return ["nsenter", f"--net=/proc/{pid}/ns/net"]

    @staticmethod
    def name(kind, number):
        return f"{kind}{number}"

    def prefix(self, number):
        return self.inside(self.holders[number].pid)

    def peer(self, number):
        """The machine's address, as the provider sees it."""
        return f"10.54.{number}.2"

    def connect(self, database_ports, provider):
        self.ports, self.provider = database_ports, provider

    def database(self, number):
        addresses = ",".join(self.addresses[DATABASE] for _ in self.ports)
        return f"host={','.join('localhost' for _ in self.ports)} hostaddr={addresses} port={','.join(map(str, self.ports))}"

    def origin(self, number):
        return f"http://{self.addresses[PROVIDER]}:{self.provider}"

    def sections(self, number):
        return ""

    def cut(self, kind, number):
        ip("link", "set", self.name(kind, number), "down")

    def heal(self, kind, number):
        ip("link", "set", self.name(kind, number), "up")

    def close(self):
        for holder in self.holders:
            holder.kill()


class Proxies:
    """The same by TCP proxies. While one is cut it accepts connections and passes on nothing."""

    title, addresses = "proxies", {DATABASE: "127.0.0.1", PROVIDER: "127.0.0.1"}

    def __init__(self, count):
        self.count, self.all = count, {}

    def prefix(self, number):
        return []

    def peer(self, number):
        return f"127.0.0.{10 + number}"

    def connect(self, database_ports, provider):
        for number in range(self.count):
            self.all[DATABASE, number] = [TCPProxy(port, "127.0.0.1") for port in database_ports]
            self.all[PROVIDER, number] = [TCPProxy(provider, self.peer(number))]

    def database(self, number):
        ports = [proxy.port for proxy in self.all[DATABASE, number]]
        return (f"host={','.join('localhost' for _ in ports)} hostaddr={','.join('127.0.0.1' for _ in ports)} "
                f"port={','.join(map(str, ports))}")

    def origin(self, number):
        """One for all machines: another origin is another issuer."""
        return "http://provider.test:8080"

    def sections(self, number):
        return f'[proxy]\nhttp_proxy = "http://127.0.0.1:{self.all[PROVIDER, number][0].port}"\n'

    def cut(self, kind, number):
        for proxy in self.all[kind, number]:
            proxy.flows.clear()

    def heal(self, kind, number):
        for proxy in self.all[kind, number]:
            proxy.flows.set()

    def close(self):
        for proxies in self.all.values():
            for proxy in proxies:
                proxy.close()


class TCPProxy(StreamServer):
    def __init__(self, server, source):
        """`source`: the address from which it connects."""
        self.server, self.source, self.flows = server, source, threading.Event()
        self.flows.set()
        super().__init__()

    def serve(self, client):
        self.flows.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self.server), source_address=(self.source, 0))
        except OSError:
            client.close()
            return
        for one, other in ((client, server), (server, client)):
            threading.Thread(target=self.copy, args=(one, other), daemon=True).start()

    def copy(self, source, target):
        try:
            while data := source.recv(CHUNK):
                self.flows.wait()
                target.sendall(data)
        except OSError:
            pass
        # The end travels like the data.
        self.flows.wait()
        try:
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.flows.set()
        self.listener.close()


def links(count, environment):
    return Namespaces(count) if ENTERED in environment else Proxies(count)
