"""A protected server with the streams of the protocol's streamable HTTP: sessions, events with ids, resumption, cancellation.

Written from the specification of 2025-11-25. Each case changes the attributes; what came is in `requests` and `calls`.
"""

import json
import queue
import secrets
import threading
import time

from servers import Resource

VERSION = "2025-11-25"
STREAM_SECONDS = 20
# Between the first event of a call and the others.
PAUSE_SECONDS = 0.1


class Streaming(Resource):
    def __init__(self, authorization, path="/mcp"):
        super().__init__(authorization, path)
        # Sessions, each with its log of events and the queue of its own stream.
        self.sessions, self.calls, self.ended, self.cancelled = {}, [], [], []
        self.sends_events, self.has_stream, self.cuts, self.retry = True, True, False, 50
        self.lists = self.slow = 0

    def serve(self, request, path, query, body):
        if path != self.path or not self.permits(request):
            return super().serve(request, path, query, body)
        session = request.headers.get("Mcp-Session-Id")
        if request.command == "POST" and json.loads(body).get("method") == "initialize":
            return self.begin(request, json.loads(body))
        if session not in self.sessions:
            return request.answer(404, {"error": "no such session"})
        if request.command == "DELETE":
            self.ended.append(session)
            del self.sessions[session]
            return request.answer(200)
        if request.command == "GET":
            return self.listen(request, self.sessions[session])
        return self.post(request, self.sessions[session], json.loads(body))

    def permits(self, request):
        token = self.authorization.tokens.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
        return token and token["ends"] > time.time() and token["resource"] == self.resource

    def begin(self, request, call):
        session = secrets.token_urlsafe(8)
        self.sessions[session] = {"events": [], "queue": queue.Queue()}
        request.answer(200, {"jsonrpc": "2.0", "id": call["id"], "result": {
            "protocolVersion": VERSION, "capabilities": {"tools": {}}, "serverInfo": {"name": "streams", "version": "1"}}},
            Mcp_Session_Id=session)

    def post(self, request, session, call):
        self.calls.append(call)
        if "method" not in call or "id" not in call:
            if call.get("method") == "notifications/cancelled":
                self.cancelled.append(call["params"]["requestId"])
            return request.answer(202)
        name = call.get("params", {}).get("name")
        if call["method"] == "tools/list":
            self.lists += 1
        answer = {"jsonrpc": "2.0", "id": call["id"],
                  "result": {"tools": [{"name": "add"}]} if call["method"] == "tools/list" else
                  {"content": [{"type": "text", "text": name or ""}]}}
        if not self.sends_events:
            return request.answer(200, answer)
        self.events(request)
        stream = secrets.token_urlsafe(4)
        self.event(request, session, stream, b"")
        self.event(request, session, stream, {"jsonrpc": "2.0", "method": "notifications/message",
                                              "params": {"level": "info", "data": f"begins {name}"}})
        if name == "waits":
            self.slow += 1
            time.sleep(STREAM_SECONDS)
        if name == "pauses":
            time.sleep(PAUSE_SECONDS)
        if self.cuts:
            # The rest is for a client that asks for it.
            session["events"].append((stream, secrets.token_urlsafe(4), answer))
            return self.cut(request)
        self.event(request, session, stream, answer)
        self.cut(request)

    def events(self, request):
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.send_header("Connection", "close")
        request.end_headers()
        request.wfile.write(f"retry: {self.retry}\n\n".encode())

    def event(self, request, session, stream, value):
        number = secrets.token_urlsafe(4)
        session["events"].append((stream, number, value))
        self.send(request, number, value)

    def send(self, request, number, value):
        # JSON over several lines, as a server may write it.
        lines = value.decode() if isinstance(value, bytes) else json.dumps(value, indent=1)
        data = "".join(f"data: {line}\r\n" for line in lines.split("\n"))
        request.wfile.write(f"id: {number}\r\n{data}\r\n".encode())
        request.wfile.flush()

    def cut(self, request):
        request.close_connection = True

    def listen(self, request, session):
        last = request.headers.get("Last-Event-ID")
        if last is None and not self.has_stream:
            return request.answer(405)
        self.events(request)
        known = [number for _, number, _ in session["events"]]
        if last in known:
            stream = session["events"][known.index(last)][0]
            for own, number, value in session["events"][known.index(last) + 1:]:
                if own == stream:
                    self.send(request, number, value)
            if stream != "own":
                return self.cut(request)
        end = threading.Event()
        session["end"] = end
        while not end.is_set():
            try:
                value = session["queue"].get(timeout=0.1)
            except queue.Empty:
                continue
            try:
                self.event(request, session, "own", value)
            except OSError:
                return
        self.cut(request)
