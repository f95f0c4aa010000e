"""git over https: clone and push, a token that was revoked, the end of the grant; and hostile input."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from rig import MORE_MEASUREMENTS, PROMPT_SECONDS, Handler, Skip, case, has, hasnt, must, need

BACKEND = "/usr/lib/git-core/git-http-backend"


class Repository(Handler):
    """git-http-backend behind Basic authentication with a token as the password."""

    def serve(self):
        body = self.body()
        user, token = self.basic()
        self.server.seen.append((user, token))
        if not self.stage.is_alive(token):
            return self.reply(401, "no", WWW_Authenticate='Basic realm="git"')
        path, _, query = self.path.partition("?")
        answer = subprocess.run([BACKEND], input=body, capture_output=True, env={
            "GIT_PROJECT_ROOT": str(self.server.root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": user, "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "PATH": "/usr/bin:/bin"}).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self.reply(int(fields.pop("Status", "200 OK").split()[0]), content, fields.pop("Content-Type", "text/plain"))

    do_GET = do_POST = serve


def setting(stage):
    server = repository(stage)
    stage.file(".gitconfig", f"""[credential]
\thelper = grantd
[http]
\tsslCAInfo = {stage.ca}
[user]
\tname = Ada
\temail = ada@example.com
[init]
\tdefaultBranch = main
[push]
\tdefault = current
[core]
\taskPass = /bin/false
""")
    return server


def repository(stage, name="r.git"):
    need("git")
    if not os.access(BACKEND, os.X_OK):
        need("git-http-backend")
    server = stage.serve(Repository)
    server.root = stage.folder / f"repositories-{server.server_port}"
    stage.run("git", "init", "--quiet", "--bare", "-b", "main", server.root / name).ok()
    stage.run("git", "-C", server.root / name, "config", "http.receivepack", "true").ok()
    return server


def git(stage, *arguments, **options):
    return stage.run("git", *arguments, GIT_TERMINAL_PROMPT="0", **options)


@case("git.clone_push", "git")
def clone_push(stage):
    server = setting(stage)
    stage.map(server.place)
    work = stage.folder / f"work-{server.server_port}"
    git(stage, "clone", "--quiet", f"{server.url}/r.git", work).ok()
    (work / "a").write_text("a")
    git(stage, "add", "a", cwd=work).ok()
    git(stage, "commit", "--quiet", "-m", "a", cwd=work).ok()
    git(stage, "push", "--quiet", cwd=work).ok()
    has(git(stage, "ls-remote", "origin", cwd=work).ok().out, "refs/heads/main")
    must(("oauth2", stage.token()) in server.seen, "git did not send the token with the user oauth2")


@case("git.revoked", "git")
def revoked(stage):
    server = setting(stage)
    stage.map(server.place)
    url = f"{server.url}/r.git"
    git(stage, "ls-remote", url).ok()
    before = stage.token()
    stage.revoke()
    has(git(stage, "ls-remote", url).fails().err, "Authentication failed")
    git(stage, "ls-remote", url).ok()
    must(stage.token() != before, "the refused token was not replaced")


@case("git.other_helpers", "git")
def other_helpers(stage):
    server = setting(stage)
    stage.map("elsewhere.example.com")
    other = stage.file("other", f'#!/bin/sh\ncat >/dev/null\n[ "$1" = get ] || exit 0\necho username=x\n'
                       f'echo password={stage.token()}\n')
    other.chmod(0o700)
    done = git(stage, "-c", f"credential.helper={other}", "ls-remote", f"{server.url}/r.git").ok()
    must(done.err == "", f"it said something: {done.err}")
    generation = stage.daemon.json("show", stage.account)["generation"]
    stage.map(server.place)
    # Another helper's secret was refused: it is none of ours.
    git(stage, "credential", "reject", text=f"url={server.url}\nusername=x\npassword=other\n\n").ok()
    must(stage.daemon.json("show", stage.account)["generation"] == generation, "a secret of another helper was reported")


@case("git.ended", "git")
def ended(stage):
    server = setting(stage)
    stage.map(server.place)
    with stage.ended() as hint:
        done = git(stage, "ls-remote", f"{server.url}/r.git").fails()
        has(done.err, hint)
        has(done.err, "told us to quit")
    git(stage, "ls-remote", f"{server.url}/r.git").ok()


@case("git.issuer", "git")
def issuer(stage):
    """A host that is the provider's own needs no mapping."""
    place = stage.demo.issuer.removeprefix("http://")
    answer = stage.helper("git", "get", text=f"protocol=http\nhost={place}\n\n").ok()
    has(answer.out, f"password={stage.token()}\n")
    stage.sign_in("second")
    try:
        answer = stage.helper("git", "get", text=f"protocol=http\nhost={place}\n\n").ok()
        must(answer.out == "quit=1\n", f"two accounts: {answer.out}")
        has(answer.err, f"accounts second, {stage.account} are for")
        has(answer.err, f'[[host]] name = "{place}" account = "second"')
        answer = stage.helper("git", "get", text=f"protocol=http\nhost={place}\nusername=second\n\n").ok()
        has(answer.out, f"password={stage.token('second')}\n")
    finally:
        stage.daemon.ctl("logout", "second")


@case("git.bad_input", "git")
def bad_input(stage):
    stage.map("git.example.com")
    good = "protocol=https\nhost=git.example.com\n\n"
    table = {
        "10 MB": (b"a=b\n" * (5 << 19), "longer than"), "not UTF-8": (b"host=\xff\xfe\n\n", "not UTF-8"),
        "no host": (b"protocol=https\nhost=a b\n\n", "not a host name"), "no key": (b"hello\n\n", "without ="),
    }
    for name, (data, word) in table.items():
        done = stage.helper("git", "get", text=data).ok()
        must(done.out == "" and done.err.count("\n") == 1, f"{name}: {done.out!r} {done.err!r}")
        has(done.err, word)
        must(done.is_prompt, f"{name}: {done.seconds:.1f} s")
    for name, data in {"stops": b"protocol=https\nhost=git.example.com\n", "says nothing": b""}.items():
        times = []
        while not times or min(times) >= 1.5 * PROMPT_SECONDS and len(times) <= MORE_MEASUREMENTS:
            process = subprocess.Popen([stage.bin / "git-credential-grantd", "get"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=stage.environment())
            begun = time.monotonic()
            process.stdin.write(data)
            process.stdin.flush()
            # Its input stays open.
            out, err = process.stdout.read(), process.stderr.read()
            times.append(time.monotonic() - begun)
            process.stdin.close()
            must(process.wait() == 0 and out == b"" and b"stopped before its end" in err, f"{name}: {out} {err}")
        must(min(times) < 1.5 * PROMPT_SECONDS, f"{name}: {times} s")
    for name, text in {"no blank line": good[:-1], "repeated keys": "host=x\n" + good, "upper case": good.upper(),
                       "a dot and a port": good.replace(".com", ".com.:443")}.items():
        text = text.replace("PROTOCOL=HTTPS\nHOST=", "protocol=HTTPS\nhost=")
        has(stage.helper("git", "get", text=text).ok().out, f"password={stage.token()}")
    hasnt(stage.helper("git", "get", text=good.replace("host=", "host=x@")).out, "password")


@case("git.no_broker", "git")
def no_broker(stage):
    stage.map("git.example.com")
    text = "protocol=https\nhost=git.example.com\n\n"
    done = stage.helper("git", "get", text=text, GRANTD_SOCKET="/nowhere/s").ok()
    must(done.out == "" and done.is_prompt, f"{done.out!r}, {done.seconds:.1f} s")
    has(done.err, "grantd is not running")


@case("git.foreign_broker", "setpriv")
def foreign_broker(stage):
    """Another user listens where the user's own broker is expected: nothing is sent there."""
    if os.getuid() != 0:
        raise Skip("only root can start a program as another user")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="grantd-foreign-"))
    (folder / "grantd").mkdir()
    for path in (folder, folder / "grantd"):
        path.chmod(0o777)
    code = ("import socket,sys,time; s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(1,flush=True); "
            "c=s.accept()[0]; c.settimeout(2); print(len(c.recv(99)),flush=True)")
    other = subprocess.Popen(
        [need("setpriv"), "--reuid=65534", "--clear-groups", "/usr/bin/python3", "-c", code, folder / "grantd" / "grantd.sock"],
        stdout=subprocess.PIPE, text=True)
    try:
        must(other.stdout.readline() == "1\n", "the other broker does not listen")
        stage.map("git.example.com")
        environment = stage.environment(XDG_RUNTIME_DIR=str(folder))
        del environment["GRANTD_SOCKET"]
        done = stage.run(stage.bin / "grantctl", "helper", "git", "get", env=environment,
                         text="protocol=https\nhost=git.example.com\n\n").ok()
        must("password" not in done.out and done.err.count("\n") == 1 and done.is_prompt, f"{done}")
        has(done.err, "not as root or as you")
        must(other.stdout.readline() == "0\n", "something was sent to it")
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
        shutil.rmtree(folder)
