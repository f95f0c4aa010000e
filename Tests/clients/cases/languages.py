"""cargo, go, Terraform, and Bazel's protocol; Google's library with an executable."""

import hashlib
import io
import json
import pathlib
import shutil
import sys
import tarfile
import urllib.parse

from rig import PYPI, ROBOT, Handler, Skip, case, find, has, hasnt, must


class Protected(Handler):
    """Some pages for a bearer token."""

    def do_GET(self):
        token = self.bearer()
        self.server.seen.append((self.path, token))
        if not self.stage.is_alive(token):
            return self.reply(401, "no", WWW_Authenticate="Bearer")
        page = self.server.pages.get(self.path.partition("?")[0])
        self.reply(200 if page is not None else 404, page or "no")


def serve(stage, pages):
    server = stage.serve(Protected)
    server.pages = {}
    server.pages.update(pages(server))
    return server


# ---- cargo

def cargo(stage, server, *provider):
    project = stage.folder / f"crate-{server.server_port}"
    (project / "src").mkdir(parents=True, exist_ok=True)
    (project / "src" / "lib.rs").write_text("")
    (project / "Cargo.toml").write_text(
        '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n'
        'sample = { version = "1", registry = "own" }\n')
    words = json.dumps(list(provider or ("cargo-credential-grantd",)))
    (project / ".cargo").mkdir(exist_ok=True)
    (project / ".cargo" / "config.toml").write_text(
        f'[registries.own]\nindex = "sparse+{server.url}/"\ncredential-provider = {words}\n[http]\n'
        f'cainfo = "{stage.ca}"\ncheck-revoke = false\n')
    return stage.run(find("cargo"), "generate-lockfile", cwd=project, **rust(stage))


def rust(stage):
    """cargo with a cache of its own, and the toolchain of the user who runs the tests."""
    home = stage.folder / "cargo-home"
    shutil.rmtree(home, ignore_errors=True)
    return {"RUSTUP_HOME": str(pathlib.Path.home() / ".rustup"), "CARGO_HOME": str(home), "CARGO_NET_RETRY": "0"}


def crates(server):
    archive = crate()
    entry = {"name": "sample", "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(archive).hexdigest(), "features": {},
             "yanked": False}
    return {"/config.json": json.dumps({"dl": f"{server.url}/dl", "auth-required": True}),
            "/sa/mp/sample": json.dumps(entry) + "\n", "/dl/sample/1.0.0/download": archive}


def crate():
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w:gz") as archive:
        for name, text in {"Cargo.toml": '[package]\nname = "sample"\nversion = "1.0.0"\n', "src/lib.rs": ""}.items():
            member = tarfile.TarInfo(f"sample-1.0.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return output.getvalue()


@case("cargo.fetch", "cargo")
def cargo_fetch(stage):
    server = serve(stage, crates)
    stage.map(server.place)
    cargo(stage, server).ok()
    must(("/sa/mp/sample", stage.token()) in server.seen, f"the registry saw {server.seen}")
    stage.map("other.example.com")
    has(cargo(stage, server).fails().err, "no credential providers could handle the request")
    cargo(stage, server, "cargo-credential-grantd", "--account", stage.account).ok()


@case("cargo.ended", "cargo")
def cargo_ended(stage):
    server = serve(stage, crates)
    stage.map(server.place)
    with stage.ended() as hint:
        has(cargo(stage, server).fails().err, hint)


# ---- go

def modules(server):
    return {"/example.com/sample/@v/list": "v1.0.0\n", "/example.com/sample/@latest": '{"Version":"v1.0.0"}',
            "/example.com/sample/@v/v1.0.0.info": '{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}',
            "/example.com/sample/@v/v1.0.0.mod": "module example.com/sample\n"}


def needs_goauth(stage):
    if "GOAUTH" not in stage.run(find("go"), "env").out:
        raise Skip("go is older than 1.24")


def go(stage, server, *options, **more):
    program = find("go")
    needs_goauth(stage)
    own = {"GOAUTH": "grantctl helper go", "GOPROXY": server.url, "GONOSUMDB": "*", "GOFLAGS": "-mod=mod", "GO111MODULE": "on",
           "GOPATH": str(stage.folder / "go"), "GOTOOLCHAIN": "local"} | more
    return stage.run(program, "list", *options, "-m", "-versions", "example.com/sample",
                     **{name: value for name, value in own.items() if value is not None})


@case("go.list", "go")
def go_list(stage):
    server = serve(stage, modules)
    stage.map(server.place)
    has(go(stage, server).ok().out, "example.com/sample v1.0.0")
    stage.map("other.example.com")
    go(stage, server).fails()
    with stage.ended() as hint:
        stage.map(server.place)
        has(go(stage, server, "-x").fails().err, hint)


# ---- Terraform

def discovery(server):
    return {VERSIONS: '{"modules":[{"versions":[{"version":"1.0.0"}]}]}'}


VERSIONS = "/v1/modules/team/sample/demo/versions"


def terraform(stage, server, *hosts, settings=""):
    """The command `init`, for a module of each host; the hosts are that server."""
    plugins = stage.home / ".terraform.d" / "plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    link = plugins / "terraform-credentials-grantd"
    if not link.is_symlink():
        link.symlink_to(stage.bin / "grantctl")
    stage.file(".terraformrc", settings + "".join(
        f'host "{host}" {{\n  services = {{ "modules.v1" = "{server.url}/v1/modules/" }}\n}}\n' for host in hosts))
    project = stage.folder / "terraform"

    def init(*used, **more):
        shutil.rmtree(project, ignore_errors=True)
        project.mkdir()
        (project / "main.tf").write_text("".join(
            f'module "sample-{number}" {{\n  source = "{host}/team/sample/demo"\n  version = "1.0.0"\n}}\n'
            for number, host in enumerate(used or hosts)))
        server.seen.clear()
        # Its download is not served: what counts is that the versions were, which want the token.
        return stage.run(find("terraform"), "init", "-no-color", cwd=project, CHECKPOINT_DISABLE="1", **more)
    return init


@case("terraform.module", "terraform")
def terraform_module(stage):
    server, host = serve(stage, discovery), "registry.example.com"
    stage.map(host)
    init = terraform(stage, server, host, settings='credentials_helper "grantd" {}\n')
    init()
    must((VERSIONS, stage.token()) in server.seen, f"the registry saw {server.seen}")
    stage.map("other.example.com")
    init().fails()
    must(all(token is None for _, token in server.seen), f"a credential was sent: {server.seen}")
    with stage.ended() as hint:
        stage.map(host)
        # For modules it shows what a helper says in its log alone.
        has(init(TF_LOG="warn").fails().err, hint)


# ---- Bazel's protocol, without Bazel

@case("bazel.protocol")
def bazel(stage):
    stage.map("cache.example.com")
    done = stage.helper("bazel", "get", text='{"uri":"grpcs://cache.example.com/x.Service/Method"}').ok()
    must(json.loads(done.out)["headers"] == {"Authorization": [f"Bearer {stage.token()}"]}, done.out)
    done = stage.helper("bazel", "get", text='{"uri":"https://other.example.com/"}').ok()
    must(json.loads(done.out) == {"headers": {}} and done.err == "", f"{done}")
    for text in (b"", b"{", b"\xff", b'{"uri":"' + b"x" * (10 << 20), b'{"uri":"https://a b/"}'):
        done = stage.helper("bazel", "get", text=text)
        must(done.status == 1 and done.out == "" and done.err.count("\n") == 1 and done.is_prompt, f"{text[:20]}: {done}")
    with stage.ended() as hint:
        has(stage.helper("bazel", "get", text='{"uri":"https://cache.example.com"}').fails().err, hint)


# ---- Google's library

class TokenService(Handler):
    """Google's STS: a token for a token (RFC 8693)."""

    def do_POST(self):
        form = dict(urllib.parse.parse_qsl(self.body().decode()))
        self.server.seen.append(form.get("subject_token"))
        if not self.stage.is_alive(form.get("subject_token")):
            return self.json({"error": "invalid_grant", "error_description": "the subject token is dead"}, 400)
        self.json({"access_token": "google-token", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
                   "token_type": "Bearer", "expires_in": 3600})


GOOGLE = """
import google.auth.pluggable as p, google.auth.transport.requests as r, sys
c = p.Credentials.from_file(sys.argv[1], scopes=["x"])
c.refresh(r.Request())
print(c.token)
"""


@case("gcp.executable")
def gcp(stage):
    python = PYPI / "python3" if PYPI.is_dir() else find("python3") or sys.executable
    if stage.run(python, "-c", "import google.auth, requests").status:
        raise Skip("Python's google-auth is not installed")
    server = stage.serve(TokenService)

    def run(account):
        path = stage.file("google.json", json.dumps({
            "type": "external_account", "token_url": f"{server.url}/v1/token",
            "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/x",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "credential_source": {"executable": {
                "command": f"{stage.bin / 'grantctl'} helper gcp --account {account}", "timeout_millis": 30000}}}))
        return stage.run(python, "-c", GOOGLE, path, GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES="1",
                         REQUESTS_CA_BUNDLE=str(stage.ca))
    must(run(ROBOT).ok().out.strip() == "google-token", "no token")
    must(server.seen == [stage.token(ROBOT)], f"the STS saw {server.seen}")
    has(run(stage.account).fails().err, "Google's STS takes a JWT")
    with stage.ended() as hint:
        done = run(stage.account).fails()
        has(done.err, hint)
        hasnt(done.err, "JSONDecodeError")
