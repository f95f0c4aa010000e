"""Token files ([[file]]), with programs that read them."""

import contextlib
import ctypes
import json
import os
import pathlib
import select
import signal
import struct
import subprocess
import time

from grantd_testing import free_ports, wait_until
from rig import Handler, case, has, must

WAIT_SECONDS = 60
ROTATIONS = 100
REMOVAL_SECONDS = 20
PAUSE_SECONDS = 0.02
SCRAPES = "global: {scrape_interval: 50ms, scrape_timeout: 50ms}"
# inotify(7).
CLOSE_WRITE, MOVED_TO, CREATE = 0x8, 0x80, 0x100


class Guarded(Handler):
    """Takes live tokens alone, and keeps the others."""

    def do_GET(self):
        token = self.bearer()
        if not token or not self.stage.is_alive(token):
            self.server.refused.append(token)
            return self.reply(401, "no")
        self.server.seen.append(token)
        self.reply(200, "up 1\n")


class HiDrive(Guarded):
    """As much of that API as `rclone lsd` asks for."""

    def reply(self, status, body=b"", kind="text/plain", **headers):
        if status == 200:
            body, kind = json.dumps({"id": "1", "members": [], "nmembers": 0, "type": "dir"}), "application/json"
        super().reply(status, body, kind, **headers)


def guarded(stage, handler=Guarded, tls=False):
    server = stage.serve(handler, tls=tls)
    server.refused = []
    return server


def section(stage, path, **keys):
    lines = [f'\n[[file]]\naccount = "{stage.account}"\npath = "{path}"']
    return "\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]) + "\n"


def done(stage, *arguments):
    answer = stage.daemon.ctl(*arguments)
    must(answer.returncode == 0, f"{arguments}: {answer.stderr}")


@contextlib.contextmanager
def configured(stage, *sections):
    config = stage.daemon.config
    before = config.read_text()
    config.write_text(before + "".join(sections))
    done(stage, "reload")
    try:
        yield
    finally:
        config.write_text(before)
        done(stage, "reload")


def there(path):
    wait_until(path.exists, WAIT_SECONDS, f"{path} is written", PAUSE_SECONDS)
    return path


def gone(path):
    wait_until(lambda: not path.exists(), REMOVAL_SECONDS, f"{path} is removed", PAUSE_SECONDS)


def own(stage, name):
    return pathlib.Path(stage.daemon.socket).parent / "files" / name


@contextlib.contextmanager
def scraping(stage, config):
    """Prometheus runs; the address of its API."""
    port = free_ports()[0]
    process = subprocess.Popen(
        ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={stage.folder / f'tsdb-{port}'}",
         f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=stage.environment())
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@case("file.prometheus", "prometheus")
def prometheus(stage):
    server = guarded(stage)
    path = own(stage, "prometheus/token")
    with configured(stage, section(stage, "prometheus/token")):
        there(path)
        config = stage.file("prometheus.yml", f"""{SCRAPES}
scrape_configs:
  - job_name: test
    authorization: {{credentials_file: {path}}}
    static_configs: [{{targets: ["127.0.0.1:{server.server_port}"]}}]
""")
        with scraping(stage, config):
            wait_until(lambda: server.seen, WAIT_SECONDS, "a scrape", PAUSE_SECONDS)
            tokens = set()
            end, count = time.monotonic() + WAIT_SECONDS, 0
            # More, if the scrapes are slow.
            while count < ROTATIONS or len(set(server.seen)) <= ROTATIONS / 4 and time.monotonic() < end:
                count += 1
                done(stage, "refresh", stage.account)
                tokens.add(wait_until(
                    lambda: path.read_text() if path.read_text() not in tokens else None, WAIT_SECONDS, "a new token",
                    PAUSE_SECONDS))
            wait_until(lambda: server.seen[-1] == stage.token(), WAIT_SECONDS, "a scrape with the latest", PAUSE_SECONDS)
    must(not server.refused, f"{len(server.refused)} of {len(server.seen)} scrapes were refused")
    must(len(set(server.seen)) > ROTATIONS / 4, f"the scrapes had {len(set(server.seen))} tokens")


@case("file.inotify")
def watched(stage):
    libc = ctypes.CDLL(None, use_errno=True)
    path, found = own(stage, "watched/token"), []
    with configured(stage, section(stage, "watched/token")):
        there(path)
        watch = libc.inotify_init1(os.O_NONBLOCK)
        must(libc.inotify_add_watch(watch, os.fsencode(path.parent), CLOSE_WRITE | MOVED_TO | CREATE) > 0, "no watch")
        try:
            for _ in range(ROTATIONS):
                done(stage, "refresh", stage.account)
                wait_until(lambda: path.read_text() == stage.token(), WAIT_SECONDS, "the new token", PAUSE_SECONDS)
                while select.select([watch], [], [], 0)[0]:
                    events, at = os.read(watch, 65536), 0
                    while at < len(events):
                        _, mask, _, length = struct.unpack_from("iIII", events, at)
                        found.append((mask, events[at + 16:at + 16 + length].rstrip(b"\0"), path.read_text()))
                        at += 16 + length
        finally:
            os.close(watch)
    must(len(found) == ROTATIONS and {(mask, name) for mask, name, _ in found} == {(MOVED_TO, b"token")},
         f"other events than a whole file for each token: {sorted({(mask, name) for mask, name, _ in found})}")
    must(all(stage.is_alive(text) for _, _, text in found), "a part of a token")


@case("file.curl", "curl")
def curl(stage):
    server = guarded(stage)
    with configured(stage, section(stage, "a.curl", format="curl"), section(stage, "a.header", format="header")):
        for arguments in (["-K", there(own(stage, "a.curl"))], ["-H", f"@{there(own(stage, 'a.header'))}"]):
            stage.run("curl", "-fsS", *arguments, f"{server.url}/x").ok()
            must(server.seen[-1] == stage.token(), "another token")
    must(len(server.seen) == 2 and not server.refused, "a request was refused")


@case("file.formats")
def formats(stage):
    with configured(
            stage, section(stage, "env", format="env", variable="GH_TOKEN"), section(stage, "json", format="json"),
            section(stage, "text", format="template", template='{"a": "{{access_token|json}}", "b": "{{account}}"}'),
            section(stage, "mode", mode="0640")):
        out = stage.run("sh", "-c", f'. {there(own(stage, "env"))}; printf %s "$GH_TOKEN"').ok().out
        must(out == stage.token(), "the variable")
        value = json.loads(there(own(stage, "json")).read_text())
        must(value["access_token"] == stage.token() and value["token_type"] == "Bearer", f"{value}")
        must(time.time() < value["expires_at"] <= time.time() + 400, f"{value}")
        must(json.loads(there(own(stage, "text")).read_text()) == {"a": stage.token(), "b": stage.account}, "the template")
        must(there(own(stage, "mode")).stat().st_mode & 0o777 == 0o640, "the mode")
        must(own(stage, "env").stat().st_mode & 0o777 == 0o600, "others can read it")


@case("file.rclone", "rclone")
def rclone(stage):
    server = guarded(stage, HiDrive)
    path = stage.file(".config/rclone/rclone.conf", f"""# kept
[other]
type = local

[drive]
type = hidrive
# kept too
unknown = 1
endpoint = {server.url}
token = {{"access_token":"old","expiry":"2020-01-01T00:00:00Z"}}
""")
    before = path.read_text()
    with configured(stage, section(stage, path, format="json", ini_section="drive", ini_key="token")):
        for _ in range(2):
            wait_until(lambda: stage.token() in path.read_text(), WAIT_SECONDS, "the token", PAUSE_SECONDS)
            stage.run("rclone", "--config", path, "lsd", "drive:").ok()
            must(server.seen[-1] == stage.token(), "another token")
            done(stage, "refresh", stage.account)
        must([line for line in path.read_text().splitlines() if "token" not in line]
             == [line for line in before.splitlines() if "token" not in line], path.read_text())
    wait_until(lambda: "access_token" not in path.read_text(), REMOVAL_SECONDS, "the token is taken out", PAUSE_SECONDS)
    must(not server.refused, "a request was refused")


@case("file.hook")
def hook(stage):
    log = stage.folder / "hook.log"
    program = stage.file("hook", f'#!/bin/sh\nprintf "%s\\n" "$GRANTD_EVENT $GRANTD_ACCOUNT" >>{log}\n')
    program.chmod(0o755)
    event = f'\n[[on_event]]\ncommand = ["{program}"]\nevents = ["file.written"]\n'
    with configured(stage, section(stage, "hooked"), event):
        for count in (1, 2):
            wait_until(lambda: log.exists() and log.read_text() == f"file.written {stage.account}\n" * count,
                       WAIT_SECONDS, f"run {count}", PAUSE_SECONDS)
            done(stage, "refresh", stage.account)


@case("file.removed")
def removed(stage):
    path = own(stage, "removed")
    with configured(stage, section(stage, "removed")):
        there(path)
    gone(path)
    with configured(stage, section(stage, "removed")):
        there(path)
        stage.daemon.ctl("logout", stage.account)
        gone(path)
        stage.sign_in()
        there(path)
        config = stage.daemon.config
        whole = config.read_text()
        stage.daemon.end(signal.SIGKILL)
        must(path.exists(), "a killed broker removes nothing")
        config.write_text(whole.replace('path = "removed"', 'path = "another"'))
        stage.daemon.start()
        gone(path)
        there(own(stage, "another"))
        config.write_text(whole)


@case("file.refused")
def refused(stage):
    folder = stage.home / "folder"
    folder.mkdir()
    elsewhere = stage.file("elsewhere", "x")
    (folder / "link").symlink_to(elsewhere)
    with configured(stage, section(stage, folder / "link"), section(stage, stage.home / "gone" / "token")):
        def told():
            out = stage.daemon.ctl("status").stdout
            return out if "is a link" in out and "cannot be opened" in out else None
        out = wait_until(told, WAIT_SECONDS, "both are told", PAUSE_SECONDS)
        has(" ".join(out.split()), "Name the file that it leads to in `path`.")
        has(" ".join(out.split()), "Make the folder, or change `path`.")
        must(elsewhere.read_text() == "x", "the link was followed")
        (stage.home / "gone").mkdir()
        there(stage.home / "gone" / "token")
