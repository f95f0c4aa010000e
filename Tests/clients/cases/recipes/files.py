"""Prometheus and rclone, as their pages have them."""

import getpass

from cases.files import PAUSE_SECONDS, SCRAPES, WAIT_SECONDS, configured, gone, guarded, own, scraping, there
from grantd_testing import wait_until
from recipes import ACCOUNT, recipe
from rig import Handler, has, must


@recipe("prometheus", "prometheus", "promtool", "curl")
def prometheus(stage, page):
    server, path = guarded(stage, tls=True), own(stage, "prometheus.service/token")
    page.replace({
        'user = "prometheus"': f'user = "{getpass.getuser()}"', "/run/grantd/files": path.parents[1],
        "api.example.com": server.place, "/etc/prometheus/prometheus.yml": stage.home / "prometheus.yml"})
    with configured(stage, *page.contents("/etc/grantd/grantd.toml")):
        there(path)
        (lines,) = page.contents("/etc/prometheus/prometheus.yml")
        config = stage.file("prometheus.yml", f"{SCRAPES}\n{lines}")
        has(page.run().ok().out, "SUCCESS")
        with scraping(stage, config) as api:
            page.replace({"http://127.0.0.1:9090": api})
            wait_until(lambda: server.seen, WAIT_SECONDS, "a scrape", PAUSE_SECONDS)
            must(server.seen[-1] == stage.token(), "another token")

            def run(command):
                if command.startswith("curl"):
                    stage.daemon.ctl("logout", ACCOUNT)
                    gone(path)
                    wait_until(lambda: "no such file" in page.shell(command).out, WAIT_SECONDS, "a failed scrape")
                return page.shell(command).text
            page.ended(run)


class Share(Handler):
    """A WebDAV server with one file (RFC 4918)."""

    def do_PROPFIND(self):
        self.body()
        self.server.seen.append(self.bearer())
        if not self.stage.is_alive(self.bearer()):
            return self.reply(401, "no")
        entries = {"/dav/": "<d:collection/>", "/dav/photo.jpg": ""}
        answers = "".join(
            f"<d:response><d:href>{path}</d:href><d:propstat><d:prop><d:resourcetype>{kind}</d:resourcetype>"
            "<d:getcontentlength>3</d:getcontentlength></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
            for path, kind in entries.items())
        self.reply(207, f'<?xml version="1.0"?><d:multistatus xmlns:d="DAV:">{answers}</d:multistatus>', "application/xml")


class Drive(Handler):
    """As much of Google Drive's API as `rclone lsf` asks for."""

    def do_GET(self):
        self.server.seen.append(self.bearer())
        if not self.stage.is_alive(self.bearer()):
            return self.json({"error": {"code": 401, "message": "Invalid Credentials"}}, 401)
        photo = {"id": "1", "name": "photo.jpg", "mimeType": "image/jpeg", "size": "3", "md5Checksum": "0" * 32,
                 "modifiedTime": "2026-01-01T00:00:00.000Z", "parents": ["root-id"]}
        self.json({"id": "root-id"} if self.path.startswith("/drive/v3/files/root") else {"files": [photo]})


@recipe("rclone", "rclone")
def rclone(stage, page):
    share, drive, path = stage.serve(Share), stage.serve(Drive), "~/.config/rclone/rclone.conf"
    page.answer({"files.example.com": share, "www.googleapis.com": drive})
    has(page.run(section="WebDAV").ok().out, "photo.jpg")
    page.is_written(path)
    page.add(path)
    file = stage.home / path[2:]
    page.replace({"~/.config/rclone": file.parent})
    with configured(stage, *page.contents("~/.config/grantd/grantd.toml")):
        wait_until(lambda: stage.token() in file.read_text(), WAIT_SECONDS, "the token", PAUSE_SECONDS)
        has(page.run(section="Google Drive, and other drives").ok().out, "photo.jpg")
        must({*share.seen, *drive.seen} == {stage.token()}, f"{share.seen} {drive.seen}")

        def run(command):
            if "drive:" in command:
                stage.daemon.ctl("logout", ACCOUNT)
                wait_until(lambda: "access_token" not in file.read_text(), WAIT_SECONDS, "the token is taken out", PAUSE_SECONDS)
            return page.shell(command).text
        page.ended(run)
