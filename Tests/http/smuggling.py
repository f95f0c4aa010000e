"""Requests that two readers may take for different ones (RFC 9112 §11.2), and what h11, another reader, takes them for.

In the bytes, `@` of a target is /forward/ACCOUNT/ROUTE of the case, and `HOST` the field of that name.
"""

import re
import subprocess
import sys

HIDDEN = b"GET @/hidden HTTP/1.1\r\nHOST\r\n\r\n"


def post(*fields, body=b"hello", line=b"POST @/x HTTP/1.1"):
    return b"\r\n".join([line, b"HOST", *fields, b"", b""]) + body


def get(*fields, line=b"GET @/x HTTP/1.1", rest=b""):
    return b"\r\n".join([line, b"HOST", *fields, b"", b""]) + rest


def chunks(body, *fields):
    return post(b"Transfer-Encoding: chunked", *fields, body=body)


CL5, TE = b"Content-Length: 5", b"Transfer-Encoding: chunked"
EMPTY = b"0\r\n\r\n"
WORD = b"5\r\nhello\r\n0\r\n\r\n"

# Refused whatever another reader says: status of 400 to 505, the connection closed, and nothing sent on.
REFUSED = {
    "length and coding": post(CL5, TE, body=EMPTY + HIDDEN),
    "coding and length": post(TE, CL5, body=EMPTY + HIDDEN),
    "two codings": post(TE, TE, body=EMPTY),
    "two codings, one of them none": post(TE, b"Transfer-Encoding: identity", body=EMPTY),
    "two codings in one field": post(b"Transfer-Encoding: chunked, chunked", body=EMPTY),
    "gzip": post(b"Transfer-Encoding: gzip, chunked", body=EMPTY),
    "chunked is not the last": post(b"Transfer-Encoding: chunked, gzip", body=EMPTY),
    "an unknown coding": post(b"Transfer-Encoding: xchunked", body=EMPTY),
    "identity": post(b"Transfer-Encoding: identity", body=b""),
    "a quoted coding": post(b'Transfer-Encoding: "chunked"', body=EMPTY),
    "a coding behind VT": post(b"Transfer-Encoding: \x0bchunked", body=EMPTY + HIDDEN),
    "a coding with a parameter": post(b"Transfer-Encoding: chunked;x=1", body=EMPTY),
    "no coding": post(b"Transfer-Encoding: ", CL5),
    "two lengths": post(CL5, b"Content-Length: 6", body=b"hello!"),
    "two lengths in one": post(b"Content-Length: 5, 6"),
    "a length with a sign": post(b"Content-Length: +5"),
    "a length below zero": post(b"Content-Length: -5"),
    "two numbers": post(b"Content-Length: 5 5"),
    "a length in hex": post(b"Content-Length: 0x5"),
    "a length with _": post(b"Content-Length: 0_5"),
    "other digits": post("Content-Length: \u0665".encode()),
    "no length": post(b"Content-Length:"),
    "a length of 2^64 + 5": post(b"Content-Length: 18446744073709551621"),
    "a length of forty digits": post(b"Content-Length: " + b"9" * 40),
    "a length and VT": post(b"Content-Length: 5\x0b"),
    "a length with a point": post(b"Content-Length: 5.0"),
    "a space before the colon": post(b"Transfer-Encoding : chunked", body=EMPTY + HIDDEN),
    "a tab before the colon": post(b"Content-Length\t: 5"),
    "a line that begins with a space": post(b" " + TE, CL5),
    "a folded coding": post(b"Transfer-Encoding:\r\n chunked", body=EMPTY + HIDDEN),
    "a folded field": get(b"X-A: y\r\n z"),
    "folded with a tab": get(b"X-A: y\r\n\tz"),
    "a field in a fold": post(b"X-A: y\r\n " + TE, body=EMPTY),
    "CR in a value": post(b"X-A: y\r" + TE, CL5),
    "CR before CRLF": get(b"X-A: y\r"),
    "CR in a name": get(b"X-\rA: y"),
    "NUL in a value": get(b"X-A: \0"),
    "NUL in a name": get(b"X\0A: y"),
    "NUL behind a coding": post(b"Transfer-Encoding: chunked\0", body=EMPTY),
    "NUL in a target": get(line=b"GET @/x\0 HTTP/1.1"),
    "a name of nothing": get(b": x"),
    "a line without a colon": get(b"XA"),
    "a space in a name": get(b"X A: y"),
    "a name beyond ASCII": get(b"X\xffA: y"),
    "a name in parentheses": get(b"X(A): y"),
    "a space before all": b" " + get(),
    "a tab for a space": get(line=b"GET\t@/x HTTP/1.1"),
    "a space in a target": get(line=b"GET @/x y HTTP/1.1"),
    "no version": get(line=b"GET @/x"),
    "no target": get(line=b"GET HTTP/1.1"),
    "HTTP/1.2 with a letter": get(line=b"GET @/x HTTP/1.a"),
    "HTTP/11": get(line=b"GET @/x HTTP/11"),
    "HTTP/1.11": get(line=b"GET @/x HTTP/1.11"),
    "http/1.1": get(line=b"GET @/x http/1.1"),
    "ICY": get(line=b"GET @/x ICY/1.1"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"r" * 40,
    "a method in parentheses": get(line=b"G(T @/x HTTP/1.1"),
    "no method": get(line=b" @/x HTTP/1.1"),
    "a size with a sign": chunks(b"+5\r\nhello\r\n" + EMPTY),
    "a size below zero": chunks(b"-1\r\nhello\r\n" + EMPTY),
    "a size in 0x": chunks(b"0x5\r\nhello\r\n" + EMPTY),
    "a size with _": chunks(b"0_5\r\nhello\r\n" + EMPTY),
    "no size": chunks(b"\r\nhello\r\n" + EMPTY),
    "a size of no digits": chunks(b"G\r\nhello\r\n" + EMPTY),
    "a size of 17 digits": chunks(b"F" * 17 + b"\r\nhello"),
    "a size of 2^64 + 5": chunks(b"10000000000000005\r\nhello\r\n" + EMPTY),
    "a size behind a space": chunks(b" 5\r\nhello\r\n" + EMPTY),
    "a chunk that is longer": chunks(b"4\r\nhello\r\n" + EMPTY),
    "a chunk that is shorter": chunks(b"6\r\nhello\r\n" + EMPTY),
    "no CRLF behind a chunk": chunks(b"5\r\nhello0\r\n\r\n"),
    "LF behind a chunk": chunks(b"5\r\nhello\n" + EMPTY),
    "CR behind a chunk": chunks(b"5\r\nhello\r" + EMPTY),
    "CR in an extension": chunks(b"5;a\rb\r\nhello\r\n" + EMPTY),
    "NUL in an extension": chunks(b"5;a\0\r\nhello\r\n" + EMPTY),
    "a trailer without a colon": chunks(b"5\r\nhello\r\n0\r\nX\r\n\r\n"),
    "a request in the trailers": chunks(b"5\r\nhello\r\n0\r\n" + HIDDEN),
}

# Where another reader is more or less strict: never two requests where it sees one, and each as it sees it.
COMPARED = {
    "CRLF before": b"\r\n" + get(),
    "two CRLF before": b"\r\n\r\n" + get(),
    "CRLF between": post(CL5, body=b"hello\r\n" + HIDDEN),
    "LF before": b"\n" + get(),
    "a size of 2^63": chunks(b"8000000000000000\r\nhello"),
    "a length of 2^63": post(b"Content-Length: 9223372036854775808"),
    "one": get(),
    "two": get() * 2,
    "three of three kinds": get() + post(CL5) + chunks(WORD),
    "a body of a GET": get(CL5, rest=b"hello"),
    "a body of a GET, and another": get(CL5, rest=b"hello" + HIDDEN),
    "a longer body": post(CL5, body=b"hello" + HIDDEN),
    "two lengths that are one": post(CL5, CL5),
    "the same in one field": post(b"Content-Length: 5, 5"),
    "a length with zeros": post(b"Content-Length: 0000005"),
    "a length in spaces": post(b"Content-Length: \t 5 \t"),
    "a body without a length": post(body=HIDDEN),
    "a length of 0": post(b"Content-Length: 0", body=HIDDEN),
    "CHUNKED": post(b"Transfer-Encoding: CHUNKED", body=WORD + HIDDEN),
    "a coding in tabs": post(b"Transfer-Encoding:\tchunked\t", body=WORD),
    "a coding without a space": post(b"Transfer-Encoding:chunked", body=WORD),
    "another name": post(b"Transfer_Encoding: chunked", CL5),
    "another name, of a length": post(b"Content_Length: 9", CL5, body=b"hello" + HIDDEN),
    "a coding that ends with a comma": post(b"Transfer-Encoding: chunked,", body=WORD),
    "a coding behind a comma": post(b"Transfer-Encoding: ,chunked", body=WORD),
    "Connection names the length": post(CL5, b"Connection: content-length", body=b"hello" + HIDDEN),
    "Connection names the coding": post(TE, b"Connection: transfer-encoding", body=WORD + HIDDEN),
    "Connection names all": post(CL5, b"Connection: host, authorization, content-length, te"),
    "Connection: close, and another": get(b"Connection: close", rest=HIDDEN),
    "close among others": get(b"Connection: x, CLOSE", rest=HIDDEN),
    "HTTP/1.0, and another": get(line=b"GET @/x HTTP/1.0", rest=HIDDEN),
    "an upgrade with a body":
        post(CL5, b"Upgrade: h2c", b"Connection: Upgrade, HTTP2-Settings", b"HTTP2-Settings: x",
             body=b"hello" + HIDDEN),
    "a websocket, and another": get(b"Upgrade: websocket", b"Connection: Upgrade", rest=HIDDEN),
    "an expectation": post(CL5, b"Expect: 100-continue", body=b"hello" + HIDDEN),
    "another expectation": post(CL5, b"Expect: x", body=b"hello" + HIDDEN),
    "HEAD, and another": get(line=b"HEAD @/x HTTP/1.1", rest=HIDDEN),
    "DELETE with a body": post(CL5, line=b"DELETE @/x HTTP/1.1", body=b"hello" + HIDDEN),
    "LF in the head": get().replace(b"\r\n", b"\n"),
    "LF in one line": post(b"X-A: y\nContent-Length: 5"),
    "LF at the end": b"GET @/x HTTP/1.1\r\nHOST\r\n\n" + HIDDEN,
    "LF before a coding": post(b"X-A: y\nTransfer-Encoding: chunked", CL5),
    "bytes beyond ASCII": get("X-A: \u00fc\u00e9".encode()),
    "an empty value": get(b"X-A:", b"X-A: "),
    "a colon in a value": get(b"X-A: a:b"),
    "a fragment": get(line=b"GET @/x#y HTTP/1.1"),
    "a target beyond ASCII": get(line=b"GET @/\xff HTTP/1.1"),
    "a quote in a target": get(line=b'GET @/"<>^`{|} HTTP/1.1'),
    "HTTP/1.9": get(line=b"GET @/x HTTP/1.9"),
    "a space behind the version": get(line=b"GET @/x HTTP/1.1 "),
    "a method in lower case": get(line=b"get @/x HTTP/1.1"),
    "a method of its own": get(line=b"X-Y_Z @/x HTTP/1.1"),
    "extensions": chunks(b"5;a\r\nhello\r\n0;b=c\r\n\r\n" + HIDDEN),
    "quoted extensions": chunks(b'5;a="x;\\"y"\r\nhello\r\n' + EMPTY + HIDDEN),
    "a quoted CRLF": chunks(b'5;a="\r\n\r\nhello"\r\nhello\r\n' + EMPTY),
    "LF in an extension": chunks(b"5;a\nhello\r\n" + EMPTY + HIDDEN),
    "LF behind a size": chunks(b"5\nhello\r\n" + EMPTY + HIDDEN),
    "LF at the end of chunks": chunks(b"5\r\nhello\r\n0\n\n" + HIDDEN),
    "a space behind a size": chunks(b"5 \r\nhello\r\n" + EMPTY),
    "a size with zeros": chunks(b"000000005\r\nhello\r\n" + EMPTY),
    "a size in capitals": chunks(b"A\r\nhellohello\r\n" + EMPTY),
    "a last chunk of many zeros": chunks(b"5\r\nhello\r\n00000000\r\n\r\n" + HIDDEN),
    "trailers": chunks(b"5\r\nhello\r\n0\r\nContent-Length: 99\r\nTransfer-Encoding: x\r\nHost: y\r\n\r\n" + HIDDEN),
    "a folded trailer": chunks(b"5\r\nhello\r\n0\r\nX-A: b\r\n c\r\n\r\n" + HIDDEN),
    "a chunk that stops": chunks(b"5\r\nhel"),
    "a large extension": chunks(b"5;" + b"e" * 20000 + b"\r\nhello\r\n" + EMPTY),
    "many small extensions": chunks(b"".join(b"1;%b\r\nx\r\n" % (b"e" * 200) for _ in range(2000)) + EMPTY),
    "an endless extension": chunks(b"5;" + b"e" * (2 << 20)),
    "an endless size": chunks(b"0" * (2 << 20)),
    "endless trailers": chunks(b"0\r\n" + b"X-A: b\r\n" * 200_000),
    "the absolute form": get(line=b"GET http://PLACE@/x HTTP/1.1"),
    "CONNECT": get(line=b"CONNECT PLACE HTTP/1.1", rest=HIDDEN),
    "OPTIONS *": get(line=b"OPTIONS * HTTP/1.1", rest=HIDDEN),
    "the same field often": get(*[b"X-A: b"] * 50),
    "a coding of HTTP/1.0": post(TE, body=EMPTY, line=b"POST @/x HTTP/1.0"),
    "HTTP/0.9": get(line=b"GET @/x HTTP/0.9"),
    "HTTP/2.0": get(line=b"GET @/x HTTP/2.0"),
    "DEL in a value": get(b"X-A: \x7f"),
    "BEL in a value": get(b"X-A: \x07"),
}


def filled(data, port, prefix):
    place = b"127.0.0.1:%d" % port
    return data.replace(b"PLACE", place).replace(b"HOST", b"Host: " + place).replace(b"@", prefix.encode())


def second_reader(scene):
    """The module h11."""
    try:
        import h11
    except ImportError:
        words = [scene.python("h11"), "-c", "import h11, os; print(os.path.dirname(os.path.dirname(h11.__file__)))"]
        sys.path.append(subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip())
        import h11
    return h11


def taken(h11, data):
    """What h11 takes the bytes for: whole requests, whether another has begun, and whether it refuses the rest."""
    found = []
    while True:
        # It takes no empty line before a request, which servers should ignore (RFC 9112 §2.2), and no second space
        # in its line, which they may (§3).
        data = re.sub(rb"\A([A-Z]+) +([^ \r\n]+) +(?=HTTP/)", rb"\1 \2 ", data.lstrip(b"\r\n"))
        request, state, data = first(h11, data)
        if request:
            found.append(request)
        if state != "again":
            return found, state in ("begun", "broken"), state in ("refused", "broken")


def first(h11, data):
    """The first request, what comes behind it (`again`, `end`, `begun`, `broken`, `refused`), and the rest."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 24)
    connection.receive_data(data)
    begun, body = None, b""
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            return None, "broken" if begun else "refused", b""
        if isinstance(event, h11.Request):
            begun = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            fields = [(name.decode(), value.decode("latin-1")) for name, value in begun.headers if name[:2] == b"x-"]
            made = begun.method.decode(), begun.target.decode("latin-1"), body, fields
            rest = connection.trailing_data[0]
            try:
                connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                connection.start_next_cycle()
            except h11.LocalProtocolError:
                return made, "end", b""
            return made, "again", rest
        else:
            return None, "begun" if begun else "end", b""


def path_of(target, prefix):
    """The target as the server sees it."""
    target = re.sub(r"^http://[^/]*", "", target)
    return target.removeprefix(prefix.rpartition("/")[0])
