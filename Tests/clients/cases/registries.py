"""skopeo and docker against a registry that wants a bearer token, which its token service gives for ours."""

import hashlib
import json
import pathlib
import urllib.parse

from rig import Handler, case, find, has, must

CONFIG = b'{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]},"config":{}}'


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


MANIFEST = json.dumps({
    "schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json", "layers": [],
    "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(CONFIG),
               "digest": digest(CONFIG)}}).encode()
TICKET = "ticket-for-"


class Registry(Handler):
    """The registry and its token service (distribution's specification of tokens)."""

    def do_GET(self):
        if self.path.startswith("/token"):
            user, token = self.basic()
            self.server.seen.append((user, token))
            if not self.stage.is_alive(token):
                return self.json({"errors": [{"code": "UNAUTHORIZED", "message": "bad credentials"}]}, 401)
            return self.json({"token": TICKET + user, "expires_in": 60})
        if not (self.bearer() or "").startswith(TICKET):
            service = urllib.parse.quote(self.server.place)
            return self.json({"errors": [{"code": "UNAUTHORIZED"}]}, 401, WWW_Authenticate=(
                f'Bearer realm="https://{self.headers["Host"]}/token",service="{service}",scope="repository:team/image:pull"'))
        if self.path.rstrip("/") == "/v2":
            return self.json({})
        if self.path.startswith("/v2/team/image/manifests/"):
            return self.reply(200, MANIFEST, json.loads(MANIFEST)["mediaType"], Docker_Content_Digest=digest(MANIFEST))
        if self.path == f"/v2/team/image/blobs/{digest(CONFIG)}":
            return self.reply(200, CONFIG, "application/octet-stream")
        if self.path == "/v2/team/image/tags/list":
            return self.json({"name": "team/image", "tags": ["latest"]})
        self.json({"errors": [{"code": "NOT_FOUND"}]}, 404)

    do_HEAD = do_GET


def setting(stage):
    server = stage.serve(Registry)
    stage.map(server.place, username="robot")
    stage.file(".docker/config.json", json.dumps({"credHelpers": {server.place: "grantd"}}))
    return server


def skopeo(stage, server, *words):
    auth = stage.home / ".docker" / "config.json"
    certificates = pathlib.Path(stage.folder / "certificates")
    certificates.mkdir(exist_ok=True)
    (certificates / "ca.crt").write_bytes(stage.ca.read_bytes())
    return stage.run(
        find("skopeo"), *(words or ("inspect",)), "--authfile", auth, "--cert-dir", certificates,
        f"docker://{server.place}/team/image:latest")


@case("skopeo.inspect", "skopeo")
def inspect(stage):
    server = setting(stage)
    has(skopeo(stage, server).ok().out, '"latest"')
    must(("robot", stage.token()) in server.seen, f"the token service was asked by {server.seen}")


@case("skopeo.nobody", "skopeo")
def nobody(stage):
    server = setting(stage)
    stage.map("other.example.com")
    has(skopeo(stage, server).fails().err, "nauthorized")
    must(server.seen in ([], [(None, None)] * len(server.seen)), f"a credential was sent: {server.seen}")


@case("skopeo.ended", "skopeo")
def ended(stage):
    server = setting(stage)
    with stage.ended() as hint:
        has(skopeo(stage, server).fails().err, hint)


@case("skopeo.login", "skopeo")
def login(stage):
    """A password is not kept, and the program may believe that only where the helper answers for the registry."""
    server = setting(stage)
    certificates = stage.folder / "certificates"
    certificates.mkdir(exist_ok=True)
    (certificates / "ca.crt").write_bytes(stage.ca.read_bytes())

    def run():
        return stage.run(find("skopeo"), "login", "--authfile", stage.home / ".docker" / "config.json", "--cert-dir",
                         certificates, "-u", "robot", "--password-stdin", server.place, text=stage.token())
    run().ok()
    stage.map("other.example.com")
    has(run().fails().err, f"grantd keeps no passwords, and no account is for {server.place}")


@case("docker.manifest", "docker")
def manifest(stage):
    server = setting(stage)
    command = [find("docker"), "manifest", "inspect", f"{server.place}/team/image:latest"]
    has(stage.run(*command, DOCKER_CLI_EXPERIMENTAL="enabled").ok().out, digest(CONFIG))
    must(("robot", stage.token()) in server.seen, f"the token service was asked by {server.seen}")
    with stage.ended() as hint:
        has(stage.run(*command).fails().err, hint)


@case("docker.bad_input")
def bad_input(stage):
    stage.map("registry.example.com:5000")
    for text in (b"", b"a b", b"\xff\xfe", b"x" * (10 << 20), b"registry.example.com:99999"):
        done = stage.helper("docker", "get", text=text)
        must(done.status == 1 and done.is_prompt, f"{text[:20]}: {done}")
        must(done.out.count("\n") == 1 and done.out.strip() in done.err, f"{text[:20]}: {done}")
    for text in ("other.example.com", "registry.example.com", "registry.example.com:5001"):
        done = stage.helper("docker", "get", text=text)
        must((done.status, done.out, done.err) == (1, "credentials not found in native keychain\n", ""), f"{text}: {done}")
    must(json.loads(stage.helper("docker", "get", text="REGISTRY.example.com.:5000\n").ok().out)["Secret"] == stage.token(),
         "upper case and a dot")
