#!/usr/bin/env python3
"""Answers each request with the document at API_URL, fetched with the token of ACCOUNT: service.py [PORT]"""

import http.server
import os
import sys
import urllib.error
import urllib.request

import grantd

ACCOUNT, API_URL = os.environ.get("ACCOUNT", "work"), os.environ["API_URL"]


def fetch(again=True):
    token = grantd.token(ACCOUNT)
    request = urllib.request.Request(API_URL)
    # A redirect to another host does not get the token.
    request.add_unredirected_header("Authorization", token.authorization)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        if error.code != 401 or not again:
            raise
    grantd.report_rejected(token.account, token.generation)
    return fetch(again=False)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, body, headers = 200, b"", {}
        try:
            body = fetch()
        except grantd.LoginRequired as error:
            # The hint is for the administrator, not for the service's users.
            print(error, file=sys.stderr, flush=True)
            status = 503
        except grantd.TemporarilyUnavailable as error:
            status, headers = 503, {"Retry-After": str(round(error.retry_after or 60))}
        except (grantd.GrantdError, OSError) as error:
            print(error, file=sys.stderr, flush=True)
            status = 502
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
