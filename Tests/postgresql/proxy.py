"""A program between a broker and PostgreSQL, on a Unix socket: it loses answers, or acts like a pooler."""

import pathlib
import socket
import threading

PORT = 5432
CHUNK = 1 << 16
COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"
KEY_DATA = b"K\x00\x00\x00\x0c"


class Proxy:
    def __init__(self, folder, server):
        folder.mkdir()
        self.folder, self.server = folder, pathlib.Path(server) / f".s.PGSQL.{PORT}"
        # COMMITs whose answers are passed on before one is lost with its connection; None: all.
        self.commits_left, self.lost, self.is_pooler, self.lock = None, 0, False, threading.Lock()
        # After a lost answer nobody can connect.
        self.goes_away = self.is_away = False
        # Called after an answer was lost, before the connection is.
        self.at_loss = lambda: None
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / f".s.PGSQL.{PORT}"))
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def lose_answer(self, after=0):
        """The COMMIT after so many others is done, and its answer is lost."""
        with self.lock:
            self.commits_left = after

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.is_away:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self.server))
            threading.Thread(target=self.copy, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, client, True), daemon=True).start()

    def copy(self, source, target, is_answer):
        try:
            while data := source.recv(CHUNK):
                if is_answer and self.is_pooler and KEY_DATA in data:
                    start = data.index(KEY_DATA) + len(KEY_DATA)
                    data = data[:start] + b"\x00\x00\x00\x01" + data[start + 4:]
                if is_answer and self.loses(data.count(COMMITTED)):
                    self.at_loss()
                    break
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def loses(self, count):
        with self.lock:
            if self.commits_left is None or not count:
                return False
            self.commits_left -= count
            if self.commits_left >= 0:
                return False
            self.commits_left = None
            self.lost += 1
            self.is_away = self.goes_away
            return True

    def close(self):
        self.listener.close()
