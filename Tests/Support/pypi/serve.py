"""Runs a server of PyPI on loopback: serve.py django|nanoidp FOLDER. Prints `ready {json}`; SIGTERM ends it.

The kernel chooses the port. Each form request is written to FOLDER/requests.jsonl, a line with its path, its fields, the
status and the members of the answer.
"""

import importlib
import io
import json
import pathlib
import signal
import sys
import threading
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from werkzeug.serving import WSGIRequestHandler, make_server

BODY = 64 * 1024   # bytes of a request


class Recorded:
    """An application whose form requests are written to a file."""

    def __init__(self, application, path):
        self.application, self.path, self.lock = application, path, threading.Lock()

    def __call__(self, environ, start_response):
        if environ["REQUEST_METHOD"] != "POST":
            return self.application(environ, start_response)
        body = environ["wsgi.input"].read(min(int(environ.get("CONTENT_LENGTH") or 0), BODY))
        environ["wsgi.input"] = io.BytesIO(body)
        lines = []

        def started(line, headers, *error):
            lines.append(line)
            return start_response(line, headers, *error)

        answer = self.application(environ, started)
        try:
            content = b"".join(answer)
        finally:
            getattr(answer, "close", lambda: None)()
        if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
            self.note(environ["PATH_INFO"], body, lines[-1], content)
        return [content]

    def note(self, path, body, line, content):
        fields = urllib.parse.parse_qs(body.decode(errors="replace"), keep_blank_values=True)
        entry = {"path": path, "fields": fields, "status": int(line.split()[0]),
                 "answer": json.loads(content) if content[:1] == b"{" else {}}
        with self.lock, open(self.path, "a") as log:
            log.write(json.dumps(entry) + "\n")


class Quiet(WSGIRequestHandler):
    def log_request(self, *_):
        pass


def main(name, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    # The port is held before the application is made, which has to know its issuer.
    server = make_server("127.0.0.1", 0, None, threaded=True, request_handler=Quiet)
    server.daemon_threads = True
    application, info = importlib.import_module(f"{name}_site").make(folder, f"http://127.0.0.1:{server.port}")
    server.app = Recorded(application, folder / "requests.jsonl")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("ready " + json.dumps(info), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
