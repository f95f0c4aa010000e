"""A server of a protocol that the standard library has none for."""

import socket
import threading


class StreamServer:
    """Listens on a port of the loopback interface that the kernel chooses; a connection is served on a thread of its own."""

    def __init__(self, backlog=128):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self.port = self.listener.getsockname()[1]
        self.place = f"127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                stream, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(stream,), daemon=True).start()

    def serve(self, stream):
        raise NotImplementedError
