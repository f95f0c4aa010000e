"""Hosts of the pages, here: clients reach them by a proxy that knows these names alone."""

import contextlib
import http.server
import select
import socket
import threading

from rig import PAGE_HOSTS

PIECE_BYTES = 1 << 16
CONNECT_SECONDS = 60
IDLE_SECONDS = 60


class Tunnel(http.server.ThreadingHTTPServer):
    """CONNECT (RFC 9110 §9.3.6) to the servers of a case, which have a certificate for these names."""

    daemon_threads = True

    def __init__(self, stage, servers):
        unknown = set(servers) - set(PAGE_HOSTS)
        assert not unknown, f"the certificate is not for {unknown}"
        super().__init__(("127.0.0.1", 0), Connection)
        self.ports = {name: server.server_port for name, server in servers.items()}
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()
        stage.closing.append(self)

    @property
    def environment(self):
        return {name: self.url for name in ("HTTPS_PROXY", "https_proxy")} | {"NO_PROXY": "localhost,127.0.0.1"}

    def handle_error(self, request, client_address):
        """Clients that hang up are no news."""

    def close(self):
        self.shutdown()
        self.server_close()


class Connection(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_CONNECT(self):
        port = self.server.ports.get(self.path.removesuffix(":443").lower())
        if not port:
            return self.send_error(403, f"no server of this case is {self.path}")
        with socket.create_connection(("127.0.0.1", port), CONNECT_SECONDS) as other:
            self.send_response(200)
            self.end_headers()
            ways = {self.connection: other, other: self.connection}
            with contextlib.suppress(OSError):
                while ready := select.select(list(ways), [], [], IDLE_SECONDS)[0]:
                    for one in ready:
                        piece = one.recv(PIECE_BYTES)
                        if not piece:
                            return
                        ways[one].sendall(piece)
        self.close_connection = True
