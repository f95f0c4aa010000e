"""Containers, ssh and CI runners: the caller is whom the kernel of the broker's machine sees."""

import contextlib
import getpass
import os
import pathlib
import re
import subprocess

from cases.files import guarded
from cases.registries import Registry
from grantd_testing import Program, free_ports, wait_until
from recipes import ACCOUNT, recipe
from rig import HOST, find, has, must, need
from system_broker import system_broker

BROKER = "/etc/grantd/grantd.toml"
WAIT_SECONDS = 60
# Of the pages: a user of the host, one without a rule, and where a user namespace begins.
USER, OTHER, FIRST = 4711, 4712, 100000


def in_namespace(broker, *words, **more):
    """grantctl as the root of a user namespace, whose ids begin at FIRST on the host."""
    made = broker.stage.environment(GRANTD_SOCKET=str(broker.socket), HOME="/") | more
    process = subprocess.Popen(
        ["unshare", "--user", "--keep-caps", "sh", "-c",
         'echo; read line; exec setpriv --reuid=0 --regid=0 --clear-groups "$@"', "sh", broker.grantctl, *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/",
        env={name: value for name, value in made.items() if value is not None})
    try:
        process.stdout.readline()
        for name in ("uid_map", "gid_map"):
            pathlib.Path(f"/proc/{process.pid}/{name}").write_text(f"0 {FIRST} 65536\n")
        return process.communicate("\n", WAIT_SECONDS)[0], process.returncode
    finally:
        process.kill()
        process.wait()


def callers(broker):
    """The users in the audit trail, and their programs."""
    return set(re.findall(r"(?m)^[0-9-]+ [0-9:]+ +(\S+) +(?:\S+ → )?(\S+) +token\.get ", broker.ctl("audit").stdout))


@recipe("containers", "unshare", "setpriv")
def containers(stage, page):
    with system_broker(stage, ACCOUNT, "".join(page.contents(BROKER))) as broker:
        for uid in (USER, None):
            broker.ask("token", ACCOUNT, uid=uid).ok()
        # As the root of a container of one's own.
        own = ("unshare", "--user", "--map-root-user")
        if not stage.run("setpriv", f"--reuid={USER}", *own, "true").status:
            broker.ask("token", ACCOUNT, uid=USER, inside=own).ok()
            has(broker.ask("token", ACCOUNT, uid=OTHER, inside=own).fails().err, f"uid {OTHER}")
        refused = broker.ask("token", ACCOUNT, uid=OTHER)
        must(refused.status == 4, f"status {refused.status}")
        has(page.text, refused.err.splitlines()[0])
        out, status = in_namespace(broker, "token", ACCOUNT)
        must(status == 0, f"the root of a user namespace: {out}")
        # Where the socket would be found by itself.
        out, status = in_namespace(broker, "token", ACCOUNT, GRANTD_SOCKET=None, XDG_RUNTIME_DIR=str(broker.folder))
        must(status != 0, "grantctl knew whose broker it is")
        has(out, "not as root or as you")
        must(callers(broker) == {(str(user), "grantctl") for user in (USER, "root", OTHER, FIRST)}, f"{callers(broker)}")
        command = page.commands()
        if find("podman"):
            created(stage, page, broker, command)
    page.ended()


def created(stage, page, broker, command):
    """podman makes the container of the page, and does not start it."""
    page.answer({"registry.example.com": stage.serve(OpenRegistry)})
    storage = stage.folder / "containers"
    page.more |= {"XDG_RUNTIME_DIR": str(stage.home), "CONTAINERS_STORAGE_CONF": str(stage.file(
        "storage.conf", f'[storage]\ndriver = "vfs"\ngraphroot = "{storage}/graph"\nrunroot = "{storage}/run"\n'))}
    if page.shell("podman info").status:
        return
    command = command.replace("podman run --rm", "podman create").replace("/run/grantd/grantd.sock", str(broker.socket))
    name = page.shell(command).ok().out.strip()
    form = "{{.Config.User}} {{range .Mounts}}{{.Source}} {{.Destination}}{{end}}"
    has(page.shell(f"podman inspect --format '{form}' {name}").ok().out, f"{USER} {broker.socket} {broker.socket}")


class OpenRegistry(Registry):
    """It wants no token."""

    def bearer(self):
        return "ticket-for-nobody"


# ---- ssh

@contextlib.contextmanager
def ssh_server(folder, path):
    """sshd on a port of loopback, for keys of one's own; the port."""
    (port,) = free_ports()
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True, capture_output=True)
    (folder / "key.pub").replace(folder / "authorized")
    config = folder / "sshd_config"
    config.write_text(f"""Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
SetEnv PATH={path}
""")
    # As root it wants an empty folder in /run.
    alone = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec "$@"', "sh"]
    server = Program([*(alone if os.getuid() == 0 else []), need("sshd"), "-D", "-e", "-f", config], folder / "sshd.log")
    try:
        wait_until(lambda: "Server listening" in (folder / "sshd.log").read_text(), WAIT_SECONDS, "sshd listens")
        yield port
    finally:
        server.kill()
        server.wait()


@recipe("ssh", "ssh", "sshd", "ssh-keygen", "setpriv")
def ssh(stage, page):
    # Root signs in as somebody else there, as far as another user can be told.
    person = "games" if os.getuid() == 0 else getpass.getuser()
    rules = f'[[rule]]\nuser = "{person}"\naccounts = ["{ACCOUNT}"]\naccess = ["use"]\n'
    path = "~/.ssh/config"
    with system_broker(stage, ACCOUNT, rules) as there, ssh_server(there.folder, page.environment()["PATH"]) as port:
        page.replace({
            "build.example.com": HOST, "files.example.com": HOST, "/home/ada": stage.home, "$HOME": stage.home,
            "/run/user/1000/grantd/grantd.sock": stage.daemon.socket, "/run/grantd/grantd.sock": there.socket})
        page.write(path)
        with open(stage.home / ".ssh" / "config", "a") as file:
            file.write(f"Host files\n  User {person}\nHost *\n  User {getpass.getuser()}\n  Port {port}\n  LogLevel ERROR\n"
                       f"  IdentityFile {there.folder}/key\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n")
        # ssh reads the file in the home folder of the password database alone.
        program = stage.file("bin/ssh", f'#!/bin/sh\nexec {find("ssh")} -F {stage.home}/.ssh/config "$@"\n')
        program.chmod(0o700)
        page.path = [program.parent]

        left = stage.home / ".grantd.sock"

        def from_there(command=None):
            left.unlink(missing_ok=True)
            return page.shell(command) if command else page.run(0)
        must(from_there().ok().out.strip() == stage.token(), "another token")
        must(left.stat().st_mode & 0o777 == 0o600, "others can open the forwarded socket")
        has(stage.daemon.ctl("audit", "--account", ACCOUNT).stdout, f" {getpass.getuser()} ")
        must((getpass.getuser(), "ssh") in callers(stage.daemon), f"{callers(stage.daemon)}")

        tunnel = Program(["sh", "-c", f"exec {page.commands(1).strip()}"], stage.folder / "ssh.log", env=page.environment())
        try:
            wait_until((stage.home / ".files.sock").exists, WAIT_SECONDS, "the forwarded socket", 0.05)
            must(page.run(2).ok().out.strip() == there.token(ACCOUNT), "another token")
            must((person, "sshd") in callers(there), f"{callers(there)}")
        finally:
            tunnel.kill()
            tunnel.wait()
        page.ended(lambda command: from_there(command).text)


# ---- CI

@recipe("ci-runners", "bash", "curl", "setpriv")
def ci_runners(stage, page):
    server = guarded(stage, tls=True)
    page.answer({"api.example.com": server})
    page.more["CURL_CA_BUNDLE"] = str(stage.ca)
    page.replace({'user = "gitlab-runner"': f"uid = {USER}"})
    rules = "".join(page.contents(BROKER))
    with system_broker(stage, ACCOUNT, rules) as broker:
        broker.ask("token", ACCOUNT, uid=USER).ok()
        broker.ask("token", ACCOUNT, uid=OTHER).fails()
        page.session("Configuration", lambda command: broker.ask(*command.split()[1:]).text)
        has(broker.ask("explain", ACCOUNT, "--uid", "998", "--unit", "other.service").text, "not allowed")
    (github,), (gitlab,) = page.contents("~/project/.github/workflows/deploy.yml"), page.contents("~/project/.gitlab-ci.yml")
    step = "\n".join(line.strip() for line in github.partition("run: |\n")[2].splitlines())
    lines = "\n".join(re.findall(r"(?m)^    - (.+)$", gitlab))

    def run(text):
        return stage.run("bash", "-e", "-o", "pipefail", "-c", text, env=page.environment())
    for text in (step, lines):
        run(text).ok()
    must(server.seen == [stage.token()] * 2, f"the server saw {server.seen}")
    with stage.ended():
        for text in (step, lines):
            page.text_is(run(text).fails().text)
    must(len(server.seen) == 2 and not server.refused, "curl ran without a token")
