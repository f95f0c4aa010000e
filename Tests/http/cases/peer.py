"""Who calls: browsers, names of other hosts, the socket, other users, and ports that are used again."""

import concurrent.futures
import json
import os
import pathlib
import pwd
import signal
import socket
import subprocess
import time

import people
from cases.token import FORM, WAIT_SECONDS, credentials, granted
from grantd_testing import free_ports, wait_until
from rig import Skip, case, has, must
from scene import ASKING, CAPPED, OTHER, SENDER, USER
from wire import ask, raw

BODY = "grant_type=client_credentials&client_id=work"
POST = ("POST", "/token", BODY, FORM)
ROUNDS, LONG_ROUNDS = 400, 10_000
CURL_USER = 4714
# A refusal counts as ten requests (`refusal_cost`): not so many that the user is held back.
ASKED = 100
UNITS_SECONDS = 300
DATA = ["-d", "grant_type=client_credentials", "-d", "client_id=work"]


def is_refused(place, fields, status):
    for method, target, body in (("POST", "/token", BODY), ("GET", "/forward/work/echo", None), ("GET", "/", None),
                                 ("GET", "/computeMetadata/v1/project/project-id", None), ("OPTIONS", "/token", None)):
        answer = ask(place, method, target, body, [*FORM, *fields])
        must(answer.status == status, f"{method} {target} {fields}: {answer.status}, not {status}")
        must(b"tok-" not in answer.body, f"{fields}: a token")
        must(not any(name.startswith("access-control") for name, _ in answer.fields), f"{answer.fields}")


@case("peer.browser")
def browser(scene):
    address = scene.broker.address
    before = len(scene.upstream.seen["echo"])
    for fields in (
            [("Origin", f"http://127.0.0.1:{address}")], [("Origin", "https://evil.example")], [("Origin", "null")],
            [("Origin", "")], [("Sec-Fetch-Site", "none")], [("Sec-Fetch-Mode", "navigate")],
            [("sec-fetch-dest", "image")], [("SEC-FETCH-USER", "?1")], [("Sec-Fetch-Storage-Access", "x")],
            [("Sec-Fetch-Site", "same-origin")]):
        is_refused(address, fields, 403)
        is_refused(scene.broker.unix, fields, 403)
    must(len(scene.upstream.seen["echo"]) == before, "something was sent on")
    # Before anything else: neither its rest nor its account are looked at.
    answers, _ = raw(address, f"POST /forward/unheard-of/x HTTP/1.1\r\nHost: 127.0.0.1:{address}\r\nOrigin: x\r\n"
                     "Content-Length: 5\r\n\r\nhello".encode())
    must([answer.status for answer in answers] == [403], f"{answers}")


@case("peer.hosts")
def hosts(scene):
    address = scene.broker.address
    table = {
        200: [f"127.0.0.1:{address}", f"localhost:{address}", f"[::1]:{address}", f"LOCALHOST:{address}"],
        421: ["evil.example", f"evil.example:{address}", "127.0.0.1", "localhost", f"127.0.0.1:{address + 1}",
              f"127.0.0.2:{address}", f"localhost.evil.example:{address}", f"127.0.0.1.nip.io:{address}",
              f"0.0.0.0:{address}", f"[::]:{address}",
              f"2130706433:{address}", f"0x7f.1:{address}", f"localhost.:{address}"]}
    for status, names in table.items():
        for name in names:
            answer = scene.ask("POST", "/token", BODY, [*FORM, ("Host", name)])
            must(answer.status == status, f"Host {name}: {answer.status}, not {status}")
    for name in ("", "a b", f"127.0.0.1:{address}/x", f"u@127.0.0.1:{address}", f"127.0.0.1:{address},evil.example",
                 "[::1",
                 f"127.0.0.1:0{address}", f"127.0.0.1: {address}"):
        answer = scene.ask("POST", "/token", BODY, [*FORM, ("Host", name)])
        must(answer.status in (400, 421), f"Host {name}: {answer.status}")
    ours = f"127.0.0.1:{address}"
    for lines, accepted in (
            ([], (400,)), ([ours, ours], (400,)), ([ours, "evil.example"], (400,)), (["evil.example", ours], (400,))):
        text = "".join(f"Host: {line}\r\n" for line in lines)
        answers, _ = raw(address, f"POST /token HTTP/1.1\r\n{text}{FORM[0][0]}: {FORM[0][1]}\r\n"
                         f"Content-Length: {len(BODY)}\r\n\r\n{BODY}".encode())
        must(len(answers) == 1 and answers[0].status in accepted, f"Host {lines}: {answers}")
    # RFC 9112 §3.2.2: the absolute form wins over the field.
    for target, status in ((f"http://{ours}/token", (200, 400)), ("http://evil.example/token", (400, 421))):
        answer = scene.ask("POST", target, BODY, FORM)
        must(answer.status in status, f"{target}: {answer.status}")
    answers, _ = raw(address, f"CONNECT {ours} HTTP/1.1\r\nHost: {ours}\r\n\r\n".encode())
    must(answers[0].status in (400, 404, 405, 421, 501), f"CONNECT: {answers}")


@case("peer.loopback_only")
def loopback_only(scene):
    """The port is on 127.0.0.1 alone, and other addresses of this machine do not lead to it."""
    found = subprocess.run(["ip", "-4", "-o", "addr"], capture_output=True, text=True, check=False).stdout
    addresses = [word.partition("/")[0] for line in found.splitlines() for word in line.split() if "/" in word]
    for address in {*addresses, "127.0.0.2"} - {"127.0.0.1"}:
        try:
            socket.create_connection((address, scene.broker.address), 2).close()
        except OSError:
            continue
        must(False, f"the port is open at {address}")


@case("peer.addresses", "curl")
def addresses(scene):
    """The other loopback address, and none that others can reach."""
    with scene.another(scene.plain(), host="[::1]") as broker:
        broker.imported("p", "work")
        done = scene.run("curl", "-q", "-sS", "-g", *DATA, f"{broker.url}/token").ok()
        must(json.loads(done.out)["access_token"] in scene.provider.of("work"), done.out)
    for address in ("0.0.0.0:7817", "[::]:7817", "192.168.1.1:7817", "8.8.8.8:80", "example.com:80", "127.0.0.1",
                    ":7817",
                    "127.0.0.1:99999", "[::ffff:8.8.8.8]:80", "127.0.0.1.example.com:80"):
        path = scene.file("listen.toml", f'[http]\nlisten = "{address}"\n')
        done = scene.run(scene.programs / "grantd", "--user", "--config", path, "--check-config")
        must(done.status != 0 and "listen" in done.text, f"{address}: {done.status} {done.text}")


@case("peer.moved_port")
def moved_port(scene):
    """The old port is given up only when the new one is served: until then another user could take it."""
    with scene.another(scene.plain()) as broker, socket.create_server(("127.0.0.1", free_ports()[0])) as taken:
        broker.imported("p", "work")
        old = broker.address
        text = broker.config.read_text()
        broker.config.write_text(text.replace('listen = "127.0.0.1:0"', f'listen = "127.0.0.1:{taken.getsockname()[1]}"'))
        # Nothing else of that file applies either.
        later = '\n[provider.later]\nissuer = "https://login.example.com"\nclient_id = "x"\n'
        broker.config.write_text(broker.config.read_text() + later)
        done = broker.ctl("reload")
        must(done.returncode == 78, f"the reload to a port that is taken: status {done.returncode}")
        said = done.stdout + done.stderr
        owner = f"user {pwd.getpwuid(os.getuid()).pw_name}"
        must(str(taken.getsockname()[1]) in said and owner in said, f"the port and its owner: {said}")
        must("later" not in broker.ctl("provider", "list").stdout, "a part of the file is active")
        answer = ask(old, *POST)
        must(answer.status == 200, f"the old port: {answer}")
        new = taken.getsockname()[1]
        taken.close()
        broker.must("reload")
        must(ask(new, *POST).status == 200, "the new port")
        try:
            socket.create_connection(("127.0.0.1", old), 2).close()
        except OSError:
            return
        must(False, "the old port is still open")


@case("peer.two_reloads")
def two_reloads(scene):
    """Of two reloads at once after a changed port the one with the newer file applies, and both succeed."""
    with scene.another(scene.plain()) as broker:
        broker.imported("p", "work")
        text = broker.config.read_text()
        command = [broker.products / "grantctl", "--socket", broker.socket, "reload"]
        for number in range(8):
            ports = free_ports(2)
            reloads = []
            # The same port twice, or another one.
            for port in (ports[number % 2], ports[1]):
                new = broker.config.with_suffix(".new")
                new.write_text(text.replace('listen = "127.0.0.1:0"', f'listen = "127.0.0.1:{port}"'))
                new.replace(broker.config)
                reloads.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
            for made in reloads:
                said = made.communicate()[0]
                must(made.returncode == 0, f"a reload: status {made.returncode}: {said}")
            must(ask(ports[1], *POST).status == 200, "the port of the newer file")
            try:
                socket.create_connection(("127.0.0.1", ports[0]), 2).close()
            except OSError:
                continue
            must(False, "the port of the older file is open")


@case("peer.socket")
def by_socket(scene):
    answer = ask(scene.broker.unix, *POST)
    granted(scene, answer)
    # A name says nothing there: curl sends that of the address that it was given.
    done = scene.run("curl", "-q", "-sS", "--unix-socket", scene.broker.unix, *DATA, "http://localhost/token").ok()
    has(done.out, "access_token")
    answer = ask(scene.broker.unix, "GET", "/forward/work/echo/x")
    must(answer.status == 200 and json.loads(answer.body)["target"] == "/echo/x", f"{answer}")


# ---- other users

@case("peer.users", "setpriv", "curl")
def users(scene):
    broker = scene.system
    for place in (broker.address, broker.unix):
        status, text = people.ask(USER, place, *POST)
        must(status == 200 and json.loads(text)["access_token"] in scene.provider.of("work"),
             f"{place}: {status} {text}")
        status, text = people.ask(OTHER, place, *POST)
        must(status == 400 and json.loads(text)["error"] == "unauthorized_client", f"{place}: {status} {text}")
        has(json.loads(text)["error_description"], "rule")
        must(people.ask(0, place, *POST)[0] == 200, "root")
        status, text = people.ask(OTHER, place, "GET", "/forward/work/echo")
        must(status == 403, f"/forward: {status} {text}")
        must(set(json.loads(text)) >= {"error", "message", "hint"}, text)
    status, text = people.curl(USER, *DATA, f"{broker.url}/token")
    must(status == 200, f"{status} {text}")
    wanted = {USER: "ok", OTHER: "not_permitted"}

    def found():
        rows = broker.json("audit", "--account", "work")["records"]
        return wanted.items() <= {(row.get("uid"), row["result"]) for row in rows}
    wait_until(found, WAIT_SECONDS, "the trail names both users")


@case("peer.executable", "setpriv", "curl")
def executable(scene):
    """A rule with `exe` is for the socket alone, where the kernel tells the process."""
    broker = scene.system
    status, text = people.curl(CURL_USER, "--unix-socket", broker.unix, *DATA, "http://localhost/token")
    must(status == 200, f"curl by the socket: {status} {text}")
    status, text = people.curl(CURL_USER, *DATA, f"{broker.url}/token")
    must(status == 400, f"curl by TCP: {status} {text}")
    status, text = people.ask(CURL_USER, broker.unix, *POST)
    must(status == 400, f"Python by the socket: {status} {text}")


@case("peer.requests", "setpriv")
def requests(scene):
    """A rule with `requests` allows these, and no token."""
    broker, place = scene.system, scene.second.place
    for one in (scene.upstream, scene.second):
        for name in ("allowed", "both", "exact", "other"):
            one.route(name, lambda exchange: exchange.refused() or exchange.reply(200, exchange.target))
    status, text = people.ask(SENDER, broker.address, *POST)
    must(status == 400 and json.loads(text)["error"] == "unauthorized_client", f"a token: {status} {text}")
    table = [
        ("GET", "/allowed/x", 200), ("GET", "/allowed/x?q=/other", 200), ("GET", "/allowed/", 200),
        ("POST", "/allowed/x", 403),
        ("HEAD", "/allowed/x", 403), ("GET", "/allowed", 403), ("GET", "/other", 403),
        ("GET", "/other?/allowed/x", 403),
        ("POST", f"/@{place}/both/x", 200), ("POST", "/both/x", 403), ("GET", f"/@{place}/both/x", 403),
        ("PUT", "/exact", 200), ("DELETE", "/exact", 200), ("PUT", "/exact/x", 403), ("GET", "/exactly", 403)]
    for method, target, expected in table:
        body = "x" if method in ("POST", "PUT") else None
        status, text = people.ask(SENDER, broker.address, method, f"/forward/work{target}", body)
        must(status == expected, f"{method} {target}: {status}, not {expected}: {text[:200]}")


@case("peer.capped", "setpriv")
def capped(scene):
    """A rule with `scopes` is a cap for what is sent on as well."""
    broker = scene.system
    status, text = people.ask(CAPPED, broker.address, *POST)
    must(status == 200 and json.loads(text)["scope"] == "a", f"{status} {text}")
    must(scene.provider.tokens[json.loads(text)["access_token"]].scope == "a", "the token has more")
    status, text = people.ask(CAPPED, broker.address, "POST", "/token", f"{BODY}&scope=b", FORM)
    must(status == 400 and json.loads(text)["error"] in ("invalid_scope", "unauthorized_client"), f"{status} {text}")
    seen = scene.upstream.route("capped", lambda exchange: exchange.refused() or exchange.reply(200, "ok"))
    status, text = people.ask(CAPPED, broker.address, "GET", "/forward/work/capped")
    if status == 200:
        must(scene.provider.tokens[seen[-1].token].scope == "a", "a request with a token of more scopes")
    else:
        must(status == 403, f"{status} {text}")


@case("peer.confirmed", "setpriv")
def confirmed(scene):
    """A person is asked, once for each answer."""
    broker = scene.system

    def asked(words, answer):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(people.ask, ASKING, broker.address, *words)
            waiting = wait_until(lambda: broker.json("approve").get("waiting"), WAIT_SECONDS, "somebody waits")
            broker.must("approve", str(waiting[0]["id"]), *answer)
            return running.result()
    for words, good, bad in ((POST, 200, 400), (("GET", "/forward/work/echo"), 200, 403)):
        status, text = asked(words, [])
        must(status == good, f"{words}: {status} {text}")
        status, text = asked(words, ["--deny"])
        must(status == bad, f"{words}, denied: {status} {text}")


@case("peer.reload", "setpriv")
def reload(scene):
    """A rule that is gone holds for the next request on a connection that is open."""
    broker = scene.system
    text = """
import json, sys
port, body = json.loads(sys.argv[1])
fields = [("Content-Type", "application/x-www-form-urlencoded")]
data = wire.request("POST", "/token", port, body.encode(), fields, False)
with wire.dial(port) as stream:
    reader = wire.Reader(stream)
    for line in sys.stdin:
        stream.sendall(data)
        print(reader.answer().status, flush=True)
"""
    program = subprocess.Popen(people.command(USER, text, json.dumps([broker.address, BODY])), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, cwd="/", env={"PATH": os.environ["PATH"]})

    def status():
        program.stdin.write("\n")
        program.stdin.flush()
        return program.stdout.readline().strip()
    whole = broker.config.read_text()
    try:
        must(status() == "200", "the first")
        broker.config.write_text(whole.replace(f"uid = {USER}\n", f"uid = {USER + 1000}\n"))
        broker.must("reload")
        must(status() == "400", "after the reload")
        broker.config.write_text(whole)
        broker.must("reload")
        must(status() == "200", "with the rule again")
    finally:
        program.kill()
        program.communicate()
        broker.config.write_text(whole)
        broker.ctl("reload")


# ---- ports that are used again

VICTIM = """
import json, os, signal, socket, struct, sys
port, source, body = json.loads(sys.argv[1])
head = (f"POST /token HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nContent-Type: application/x-www-form-urlencoded\\r\\n"
        f"Content-Length: {len(body)}\\r\\n\\r\\n").encode()
for line in sys.stdin:
    child = os.fork()
    if not child:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            made.bind(("127.0.0.1", source))
            made.settimeout(5)
            made.connect(("127.0.0.1", port))
            # Every other time its end comes before the rest of what it asks.
            whole = head + body.encode()
            made.sendall(whole if int(line) % 2 else whole[:-3])
        except OSError as error:
            os.write(2, str(error).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    print("done", flush=True)
"""

THIEF = """
import json, os, socket, struct, sys
port, source, body = json.loads(sys.argv[1])
head = (f"POST /token HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nContent-Type: application/x-www-form-urlencoded\\r\\n"
        f"Content-Length: {len(body)}\\r\\nConnection: close\\r\\n\\r\\n").encode()
for line in sys.stdin:
    made, text = socket.socket(), b""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    made.settimeout(5)
    try:
        made.bind(("127.0.0.1", source))
        made.connect(("127.0.0.1", port))
        # Now and then it only listens for what was meant for another.
        made.sendall(head + body.encode() if int(line) % 3 else head[:5])
        while int(line) % 3 and (piece := made.recv(65536)):
            text += piece
        if not int(line) % 3:
            made.settimeout(0.002)
            text = made.recv(65536)
    except OSError as error:
        text += b"!" + str(error).encode()
    made.close()
    print(json.dumps(text.decode("latin-1")), flush=True)
"""


@case("peer.reused_ports", "setpriv")
def reused_ports(scene):
    """A user dies, and another connects from the same port: never with the first one's token."""
    broker = scene.system
    (source,) = free_ports()
    rounds = LONG_ROUNDS if scene.is_long else ROUNDS
    programs = []
    try:
        for uid, text in ((USER, VICTIM), (OTHER, THIEF)):
            programs.append(subprocess.Popen(
                people.command(uid, text, json.dumps([broker.address, source, BODY])), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True, cwd="/", env={"PATH": os.environ["PATH"]}))
        counts = {"refused": 0, "none": 0}
        for number in range(rounds):
            answers = []
            for program in programs:
                program.stdin.write(f"{number}\n")
                program.stdin.flush()
                answers.append(program.stdout.readline())
            text = json.loads(answers[1])
            must("tok-" not in text and "200 OK" not in text, f"round {number}: {text}")
            counts["refused" if "unauthorized_client" in text else "none"] += 1
    finally:
        for program in programs:
            program.send_signal(signal.SIGKILL)
            program.wait()
    # Otherwise nothing was tried.
    must(counts["refused"] > rounds / 3, f"{counts}")
    must(people.ask(USER, broker.address, *POST)[0] == 200, "the first user is served no more")


@case("peer.namespace", "unshare", "setpriv")
def namespace(scene):
    """A network of one's own has no way in by the port."""
    inside = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    done = subprocess.run([*inside, "true"], capture_output=True, check=False)
    if done.returncode:
        raise Skip("no network namespace can be made")
    words = ["curl", "-q", "-sS", "-m", "5", *DATA, f"{scene.broker.url}/token"]
    done = subprocess.run([*inside, *words], capture_output=True, text=True, check=False)
    must(done.returncode == 7, f"{done}")


@case("peer.units", "systemd-run", "curl")
def units(scene):
    """Rules on units, under a real systemd in a boot of its own."""
    top = pathlib.Path(__file__).resolve().parents[3]
    boot = top / "Tests" / "Support" / "with-systemd"
    done = subprocess.run([boot, "--check"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skip(done.stderr)
    # A debug build takes the Swift runtime from the toolchain, which may be a mount of its own.
    listed = subprocess.run(["ldd", scene.programs / "grantd"], capture_output=True, text=True, check=False).stdout
    found = {pathlib.Path(line.split()[2]).resolve().parent for line in listed.splitlines() if "=> /" in line}
    folders = [folder for folder in found if not str(folder).startswith(("/lib", "/usr/lib"))]
    words = [word for folder in (top, scene.programs, *folders) for word in ("--ro", folder)]
    done = subprocess.run(
        [boot, *words, "--", people.SYSTEM_PYTHON, top / "Tests" / "http" / "units.py", scene.programs],
        capture_output=True, text=True, timeout=UNITS_SECONDS, check=False, stdin=subprocess.DEVNULL)
    must(done.stdout.splitlines()[-1:] == ["ok"], f"{done.stdout[-1500:]} {done.stderr[-1500:]}")


@case("peer.many_users", "setpriv")
def many_users(scene):
    """Two users at once, on connections that stay: each gets what is theirs."""
    broker, begun = scene.system, time.monotonic()
    text = """
import json, sys
port, body, count = json.loads(sys.argv[1])
fields = [("Content-Type", "application/x-www-form-urlencoded")]
data = wire.request("POST", "/token", port, body.encode(), fields, False)
found = set()
with wire.dial(port) as stream:
    reader = wire.Reader(stream)
    for _ in range(count):
        stream.sendall(data)
        found.add(reader.answer().status)
print(json.dumps(sorted(found)))
"""
    programs = [subprocess.Popen(people.command(uid, text, json.dumps([broker.address, BODY, ASKED])),
                                 stdout=subprocess.PIPE,
                                 text=True, cwd="/", stdin=subprocess.DEVNULL) for uid in (USER, OTHER) * 3]
    found = [json.loads(program.communicate(timeout=120)[0]) for program in programs]
    must(found == [[200], [400]] * 3, f"{found} after {time.monotonic() - begun:.1f} s")
    granted(scene, credentials(scene, "work"))


@case("peer.redirected_root", "setpriv")
def redirected_root(scene):
    """A server redirects root's curl to the forward endpoint: no request is sent with root's token."""
    broker = scene.system
    refused = ask(broker.address, "GET", "/forward/work/echo")
    must(refused.status == 403 and b"Grantd-Request" in refused.body, f"{refused.status} {refused.body[:200]}")
    allowed = ask(broker.address, "GET", "/forward/work/echo", fields=[("Grantd-Request", "1")])
    must(allowed.status == 200, f"with the header: {allowed.status} {allowed.body[:200]}")


@case("peer.hidden_account", "setpriv")
def hidden_account(scene):
    """A caller without a right does not learn which account is behind a handle, or a cloud's endpoint."""
    sections = ('[[handle]]\nname = "mail"\naccount = "work"\n[[cloud]]\nkind = "azure"\nname = "prod"\naccount = "work"\n'
                'resource = "https://management.azure.com/"\n')
    with scene.another(scene.plain() + sections, "system") as broker:
        broker.imported("p", "work")
        body = "grant_type=client_credentials&client_id=mail"
        must(ask(broker.address, "POST", "/token", body, FORM).status == 200, "root is refused")
        status, text = people.ask(OTHER, broker.address, "POST", "/token", body, FORM)
        must(status == 400 and "mail" in text and "work" not in text, f"{status} {text}")
        cloud = "GET", "/azure/prod?api-version=2019-08-01&resource=https%3A%2F%2Fmanagement.azure.com%2F", None
        fields = [("X-IDENTITY-HEADER", "x"), ("Metadata", "true")]
        must(ask(broker.address, *cloud, fields).status == 200, "root is refused at the cloud's endpoint")
        status, text = people.ask(OTHER, broker.address, *cloud, fields)
        must(400 <= status < 500 and "work" not in text, f"{status} {text}")
