"""A local user without any rule that does what it can to slow the broker down, until it is killed.

    attacker.py KIND SOCKET UID CONNECTIONS [RATE]

SOCKET is the port for the kinds `http`, `http-churn` and `slow-bodies`. RATE limits the connections a second of `churn`.

It has the lowest priority, so that the figures are the broker's and not the scheduler's.
"""

import os
import select
import socket
import sys
import time

# Who was refused tries again so often; `connects` is the one that never rests.
AGAIN_SECONDS = 5
LINE = 256 * 1024 - 1
PIECE = 64 * 1024


def filled(start, member, end):
    return start + b",".join([member] * ((LINE - len(start) - len(end)) // (len(member) + 1))) + end + b"\n"


CALL = b'{"jsonrpc":"2.0","id":1,"method":"%s"%s}'
DISCOVER = CALL % (b"rpc.discover", b"") + b"\n"
DENIED = CALL % (b"token.get", b',"params":{"account":"alice","timeout":1}') + b"\n"
TEXT = CALL % (b"request.send", b',"params":{"body":"%s"}' % (b"x" * (LINE - 100))) + b"\n"
# What is sent again and again; whether the replies are read.
KINDS = {
    "batch": (filled(b"[", b"1", b"]"), True),
    "objects": (filled(b'{"a":[', b'{"b":[1]}', b"]}"), True),
    "arrays": (filled(b'{"jsonrpc":"2.0","id":1,"method":"token.get","params":[', b"[[]]", b"]}"), True),
    "texts": (TEXT, True),
    "calls": (DENIED * 100, True),
    "unread": (DISCOVER * 100, False),
    "denied-unread": (DENIED * 100, False),
}


class Sender:
    def __init__(self, path, payload, reads):
        self.payload, self.reads, self.at = payload, reads, 0
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.socket.setblocking(False)

    def step(self, events):
        if events & (select.EPOLLHUP | select.EPOLLERR):
            return False
        if events & select.EPOLLIN and self.reads:
            try:
                if not self.socket.recv(PIECE):
                    return False
            except BlockingIOError:
                pass
        if events & select.EPOLLOUT:
            try:
                self.at += self.socket.send(memoryview(self.payload)[self.at:self.at + PIECE])
            except BlockingIOError:
                return True
            if self.at == len(self.payload):
                self.at = 0
        return True


def flood(path, payload, reads, count):
    poller, senders = select.epoll(), {}
    wanted = select.EPOLLOUT | (select.EPOLLIN if reads else 0)
    again = 0
    while True:
        missing = count - len(senders) if time.monotonic() >= again else 0
        for _ in range(missing):
            try:
                sender = Sender(path, payload, reads)
            except OSError:
                break
            senders[sender.socket.fileno()] = sender
            poller.register(sender.socket, wanted)
        if missing:
            again = time.monotonic() + AGAIN_SECONDS
        for descriptor, events in poller.poll(0.2):
            try:
                goes_on = senders[descriptor].step(events)
            except OSError:
                goes_on = False
            if not goes_on:
                poller.unregister(descriptor)
                senders.pop(descriptor).socket.close()


def half_lines(path, count):
    """Lines of nearly 256 KiB that are never finished."""
    held = []
    while True:
        while len(held) < count:
            try:
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(path)
            except OSError:
                break
            connection.setblocking(False)
            held.append([connection, 0])
        payload = b"{" + b" " * (LINE - 1000)
        for one in list(held):
            try:
                while one[1] < len(payload):
                    one[1] += one[0].send(payload[one[1]:one[1] + PIECE])
            except BlockingIOError:
                pass
            except OSError:
                one[0].close()
                held.remove(one)
        select.select([], [], [], 0.05)


def churn(path, rate=0):
    """Connects, sends a byte and closes, as often as it can, or so often a second."""
    began, done = time.monotonic(), 0
    while True:
        done += 1
        if rate and (early := began + done / rate - time.monotonic()) > 0:
            time.sleep(early)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(path)
            connection.send(b"x")
        except OSError:
            pass
        connection.close()


def churn_on_port(port):
    """The same at the port."""
    while True:
        connection = socket.socket()
        try:
            connection.connect(("127.0.0.1", port))
            connection.send(b"x")
        except OSError:
            pass
        connection.close()


def connects(path):
    """Connects and leaves, as often as it can."""
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(path)
            connection.send(DENIED)
        except OSError:
            pass
        connection.close()


HTTP = b"POST /token HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
FORM = b"grant_type=client_credentials&client_id=alice"
PIPELINED = (HTTP + b"Content-Length: %d\r\n\r\n" % len(FORM) + FORM) * 32
UNFINISHED = HTTP + b"Content-Length: 4000\r\n\r\n"
SLOW_SECONDS = 1


def on_port(port, count, start, later, pause):
    """Connections to the port that send `start`, and `later` each time; each that is closed is made again."""
    held = []
    while True:
        while len(held) < count:
            one = socket.socket()
            one.settimeout(1)
            try:
                one.connect(("127.0.0.1", int(port)))
                one.sendall(start)
            except OSError:
                one.close()
                break
            one.setblocking(False)
            held.append(one)
        for one in list(held):
            try:
                while one.recv(PIECE):
                    pass
                raise ConnectionResetError
            except BlockingIOError:
                pass
            except OSError:
                held.remove(one)
                one.close()
                continue
            try:
                one.send(later)
            except BlockingIOError:
                pass
            except OSError:
                held.remove(one)
                one.close()
        time.sleep(pause)


def main():
    kind, path, uid, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    os.nice(19)
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    if kind == "http":
        on_port(path, count, PIPELINED, PIPELINED, 0)
    elif kind == "slow-bodies":
        on_port(path, count, UNFINISHED, b"x", SLOW_SECONDS)
    elif kind == "http-churn":
        churn_on_port(int(path))
    elif kind == "halves":
        half_lines(path, count)
    elif kind == "churn":
        churn(path, *map(float, sys.argv[5:]))
    elif kind == "connects":
        connects(path)
    else:
        flood(path, *KINDS[kind], count)


main()
