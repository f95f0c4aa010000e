"""Answers that differ from a provider's usual ones. Each is a function of the request and of the usual answer."""

import gzip
import json
import zlib

from server import Answer


def changed(*without, **members):
    """The usual JSON object without some members and with others."""
    def answer(request, usual):
        found = usual()
        value = {name: one for name, one in found.value.items() if name not in without} | members
        return Answer.json(value, found.status)
    return answer


def compressed(coding, compress=None):
    """The usual answer in that content coding (RFC 9110 §8.4.1)."""
    compress = compress or {"gzip": gzip.compress, "deflate": zlib.compress}[coding]

    def answer(request, usual):
        found = usual()
        return Answer(found.status, compress(found.body), [*found.fields, ("Content-Encoding", coding)])
    return answer


def moved(location, status=301):
    """A redirect to a path of this server, or to another URL."""
    return lambda request, usual: Answer.redirect(location, status)


def raw_json(text, status=200):
    return Answer.text(text if isinstance(text, str) else json.dumps(text), status, "application/json")


HTML = "<!doctype html><html><head><title>Sign in to Wi-Fi</title></head><body><h1>Welcome</h1></body></html>"
