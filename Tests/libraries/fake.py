"""A server in place of the broker, with a script for its answers."""

import contextlib
import json
import socket
import threading

SECRET = "secret-of-the-fake"
HOLD = object()
CLOSE = object()


class Fake:
    """`script(fake, request)` returns the bytes of the answer, HOLD for none, or CLOSE to end the connection. Without a script
    each connection ends at once.
    `connections` and `requests` are those so far."""

    def __init__(self, path, script):
        self.path, self.script = path, script
        self.connections, self.requests, self.lock, self.streams = 0, [], threading.Lock(), []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                stream, _ = self.listener.accept()
                if self.script is None:
                    stream.close()
                    continue
                with self.lock:
                    self.connections += 1
                    self.streams.append(stream)
                threading.Thread(target=self.serve, args=(stream,), daemon=True).start()

    def serve(self, stream):
        with contextlib.suppress(OSError), stream, stream.makefile("rb") as lines:
            for line in lines:
                request = json.loads(line)
                with self.lock:
                    self.requests.append(request)
                    request["stream"], request["number"] = stream, len(self.requests)
                    answer = self.script(self, request)
                if answer is CLOSE:
                    stream.shutdown(socket.SHUT_RDWR)
                    return
                if answer is not HOLD:
                    stream.sendall(answer)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for one in (self.listener, *self.streams):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.path.unlink(missing_ok=True)


def line(**members):
    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


def token(request, **more):
    members = {"access_token": SECRET, "token_type": "Bearer", "scope": ["x"], "account": request["params"].get("account", ""),
               "provider": "people", "generation": 1, **more}
    return line(id=request["id"], result={name: value for name, value in members.items() if value is not None})


def error(request, reason, **data):
    return line(id=request["id"], error={
        "code": -32000, "message": f"words of {reason}", "data": {"reason": reason, "hint": f"hint of {reason}", **data}})
