"""A loopback relay in front of a server's endpoints: it notes what was answered, and may change an answer's members."""

import http.server
import json
import threading
import time
import urllib.error
import urllib.request

SECONDS = 10           # for each request to the server
BODY = 64 * 1024       # bytes of a request or an answer


class Relay:
    """Forwards POST requests; `answers` has (time, path, status, members) of each."""

    def __init__(self, base, changes=None):
        """`changes`: path → members laid over a successful answer."""
        self.base, self.changes, self.answers = base, changes or {}, []
        relay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = SECONDS

            def do_POST(self):
                relay.forward(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def forward(self, handler):
        body = handler.rfile.read(min(int(handler.headers.get("Content-Length", 0)), BODY))
        kept = {name: handler.headers[name] for name in ("Content-Type", "Authorization", "DPoP") if name in handler.headers}
        request = urllib.request.Request(self.base + handler.path, data=body, headers=kept, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                status, kind, content = answer.status, answer.headers.get("Content-Type"), answer.read(BODY)
        except urllib.error.HTTPError as answer:
            status, kind, content = answer.code, answer.headers.get("Content-Type"), answer.read(BODY)
        members = json.loads(content) if content[:1] == b"{" else {}
        if status == 200 and handler.path in self.changes:
            members |= self.changes[handler.path]
            content = json.dumps(members).encode()
        self.answers.append((time.monotonic(), handler.path, status, members))
        handler.send_response(status)
        if kind:
            handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
