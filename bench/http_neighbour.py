"""A user with a rule who asks the HTTP port for a token, at a rate: the p99 in ms and the number of errors, as JSON.

    http_neighbour.py PORT UID RATE SECONDS (kept|new)

Latency counts from the time that a request was due.
"""

import http.client
import json
import os
import sys
import time

BODY = "grant_type=client_credentials&client_id=alice"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
HTTP_SECONDS = 5


def main():
    port, uid, rate, seconds, kind = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    # Loaded before this user can read no folder of root's.
    "127.0.0.1".encode("idna")
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    connection, times, errors, began = None, [], 0, time.monotonic()
    for number in range(rate * seconds):
        due = began + number / rate
        time.sleep(max(0, due - time.monotonic()))
        try:
            connection = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=HTTP_SECONDS)
            connection.request("POST", "/token", BODY, FORM)
            answer = connection.getresponse()
            answer.read()
            errors += answer.status != 200
            times.append(time.monotonic() - due)
        except (OSError, http.client.HTTPException):
            errors += 1
            connection = None
        if kind == "new" and connection:
            connection.close()
            connection = None
    times.sort()
    p99 = 1000 * times[int(len(times) * 0.99)] if times else 1000 * HTTP_SECONDS
    print(json.dumps({"p99_ms": p99, "errors": errors}))


main()
