"""The port of `[http]`: another user who listens there would get requests, and answer them with tokens of its own."""

import contextlib
import http.client
import socket
import time

from actor import READY_SECONDS, ended
from grantd_testing import wait_until
from machine import USERS, grantctl
from stage import hold

PORT = 7817
SECTION = f'[http]\nlisten = "127.0.0.1:{PORT}"\n'
FAMILIES = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}
RESTARTS = 3
PAUSE_SECONDS, HTTP_SECONDS, AGAIN_SECONDS = 0.0005, 60, 60


def grab(tell, hosts):
    """Listens at the port of each host as soon as it can; which it has got at the end."""
    held = {}
    tell("ready")
    while not ended.is_set():
        for host in set(hosts) - set(held):
            one = socket.socket(FAMILIES[host])
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                one.bind((host, PORT))
                one.listen()
                held[host] = one
                tell(host)
                continue
            one.close()
        ended.wait(PAUSE_SECONDS)
    return sorted(held)


def ask(host):
    """The status of a request for a token, as root."""
    connection = http.client.HTTPConnection(host, PORT, timeout=HTTP_SECONDS)
    try:
        connection.request("POST", "/token", "grant_type=client_credentials&client_id=shared",
                           {"Content-Type": "application/x-www-form-urlencoded"})
        return connection.getresponse().status
    except OSError as error:
        return type(error).__name__
    finally:
        connection.close()


def kept(stage):
    """Another user gets no loopback port of grantd while it restarts, and requests of that time are answered."""
    stage.begin("main", more=SECTION)
    stage.sign_in("main", "shared")
    attacker = stage.attack(stage.machine.user("ruleless"), grab, list(FAMILIES))
    attacker.next(READY_SECONDS)
    answers = []
    for _ in range(RESTARTS):
        stage.machine.restart()
        answers += [ask(host) for host in FAMILIES]
    got = attacker.finish()
    return hold([
        (not got, f"in {RESTARTS} restarts another user got {', '.join(got) or 'no port'}"),
        (set(answers) == {200}, f"requests: {', '.join(str(one) for one in answers)}")])


def listener(stage):
    """State and message of the port's listener."""
    [one] = [one for one in stage.ask("broker.status").get("listeners", []) if one["setting"] == "[http] listen"] or [{}]
    return one.get("state"), one.get("message", "")


def taken(stage):
    """A port that another user has is named in status, doctor and reload, with the user, and taken when it is free."""
    stage.begin("main")
    attacker = stage.attack(stage.machine.user("ruleless"), grab, ["::1"])
    attacker.next(READY_SECONDS)
    attacker.next(READY_SECONDS)
    stage.machine.start(stage.configuration + SECTION)
    state, message = listener(stage)
    uid = f"uid {USERS['ruleless']}"
    said = {name: grantctl(name) for name in ("reload", "doctor", "status")}
    named = [name for name, one in said.items() if "user hostile-ruleless" in one.stdout + one.stderr]
    served = ask("127.0.0.1")
    attacker.finish()
    began = time.monotonic()
    wait_until(lambda: listener(stage)[0] == "ok", AGAIN_SECONDS, "the port is taken again")
    return hold([
        (state == "failed" and uid in message, f"::1 is another user's: {state}, {message}"),
        (served == "ConnectionRefusedError", f"127.0.0.1: {served}"),
        (len(named) == 3, f"the user is named by {', '.join(named)}"),
        (said["reload"].returncode == 1, f"reload ends with {said['reload'].returncode}"),
        (said["doctor"].returncode != 0, f"doctor with {said['doctor'].returncode}"),
        (True, f"listens {time.monotonic() - began:.1f} s after the port is free")])


CASES = {"port-kept": kept, "port-taken": taken}
