"""pip and uv against an index that wants Basic authentication with a token."""

import base64
import hashlib
import io
import os
import pathlib
import re
import shutil
import zipfile

from rig import Handler, Skip, case, find, has, must

NAME, VERSION = "grantd_sample", "1.0"
WHEEL = f"{NAME}-{VERSION}-py3-none-any.whl"


def wheel():
    files = {
        f"{NAME}/__init__.py": "",
        f"{NAME}-{VERSION}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n",
        f"{NAME}-{VERSION}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text)}\n"
        for name, text in files.items())
    files[f"{NAME}-{VERSION}.dist-info/RECORD"] = record + f"{NAME}-{VERSION}.dist-info/RECORD,,\n"
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return output.getvalue()


class Index(Handler):
    def do_GET(self):
        user, token = self.basic()
        self.server.seen.append((user, token))
        if not self.stage.is_alive(token):
            return self.reply(401, "no", WWW_Authenticate='Basic realm="index"')
        if self.path.endswith(".whl"):
            return self.reply(200, wheel(), "application/octet-stream")
        if "grantd-sample" not in self.path:
            return self.reply(404)
        self.reply(200, f'<a href="/files/{WHEEL}">{WHEEL}</a>', "text/html")

    do_HEAD = do_GET


def pips(stage):
    """Each that can ask the command keyring, which came with 23.1, and its version."""
    folders = os.environ.get("PATH", "").split(os.pathsep) + ["/usr/bin"]
    found = {pathlib.Path(folder, name).resolve(): pathlib.Path(folder, name) for folder in folders
             for name in ("pip", "pip3") if os.access(pathlib.Path(folder, name), os.X_OK)}
    versions = {}
    for path in found.values():
        text = stage.run(path, "--version", env=real(stage)).out
        if (match := re.search(r"pip (\d+)\.(\d+)", text)) and (number := tuple(map(int, match.groups()))) >= (23, 1):
            versions[number] = path
    if not versions:
        raise Skip("no pip of 23.1 or newer is installed")
    return versions.items()


def real(stage, **more):
    """Where keyring is in the path first. A Python of the user's own needs its own folders."""
    made = stage.environment(**more)
    made["PATH"] = f"{stage.keyring}:{made['PATH']}"
    made |= {"PIP_CERT": str(stage.ca), "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_CACHE_DIR": "1",
             "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_KEYRING_PROVIDER": "subprocess", "PIP_RETRIES": "0"}
    return made


def download(stage, pip, server, user):
    target = stage.folder / "pip-target"
    shutil.rmtree(target, ignore_errors=True)
    address = server.url.replace("://", f"://{user}@" if user else "://") + "/simple/"
    return stage.run(
        pip, "download", "--no-input", "--no-deps", "--no-build-isolation", "-d", target, "--index-url", address,
        "grantd-sample", env=real(stage))


@case("pip.download")
def pip_download(stage):
    server = stage.serve(Index)
    for number, pip in pips(stage):
        stage.map(server.place)
        download(stage, pip, server, "oauth2accesstoken").ok()
        must(("oauth2accesstoken", stage.token()) in server.seen, f"pip {number} did not send user and token")
        if number >= (26, 2):
            server.seen.clear()
            download(stage, pip, server, None).ok()
            must(("oauth2", stage.token()) in server.seen, f"pip {number} did not send the helper's user")
        stage.map("other.example.com")
        done = download(stage, pip, server, "oauth2accesstoken").fails()
        must("grantd:" not in done.err, f"a host of nobody's: {done.err}")


@case("pip.foreign_options")
def pip_foreign_options(stage):
    """The user name of an address is an argument of keyring, and no option of grantctl."""
    server = stage.serve(Index)
    for number, pip in pips(stage):
        for user in (f"--account={stage.account}", f"--account%3D{stage.account}"):
            server.seen.clear()
            download(stage, pip, server, user).fails()
            must(server.seen, f"pip {number} did not ask the index")
            must(stage.token() not in str(server.seen), f"pip {number} sent the token to a host of nobody's")


@case("pip.ended")
def pip_ended(stage):
    server = stage.serve(Index)
    stage.map(server.place)
    with stage.ended() as hint:
        for number, pip in pips(stage):
            done = download(stage, pip, server, "oauth2accesstoken").fails()
            if number < (26, 2):
                has(done.err, hint)
            else:
                # It throws away what keyring says; a person asks keyring.
                has(done.err, "401")
                has(stage.run(stage.keyring / "keyring", "get", server.url).err, hint)


def uv(stage, server, user="oauth2accesstoken@", **more):
    address = server.url.replace("://", f"://{user}") + "/simple/"
    target = stage.folder / "uv-target"
    shutil.rmtree(target, ignore_errors=True)
    return stage.run(
        find("uv"), "pip", "install", "--no-cache", "--keyring-provider", "subprocess", "--default-index", address,
        "--python", find("python3"), "--target", target, "grantd-sample", "-v",
        env=real(stage, **more))


@case("uv.install", "uv")
def uv_install(stage):
    server = stage.serve(Index)
    stage.map(server.place)
    uv(stage, server).ok()
    must(("oauth2accesstoken", stage.token()) in server.seen, "uv did not send user and token")
    stage.map("other.example.com")
    uv(stage, server).fails()


@case("uv.always", "uv")
def uv_always(stage):
    """Without a user name, where the index is to be authenticated always."""
    server = stage.serve(Index)
    stage.map(server.place)
    project = stage.folder / "uv-project"
    project.mkdir(exist_ok=True)
    (project / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "1"\ndependencies = ["grantd-sample"]\n[[tool.uv.index]]\nname = "own"\n'
        f'url = "{server.url}/simple/"\ndefault = true\nauthenticate = "always"\n')
    stage.run(find("uv"), "lock", "--no-cache", "--keyring-provider", "subprocess", "--python", find("python3"),
              cwd=project, env=real(stage)).ok()
    must(("oauth2", stage.token()) in server.seen, "uv did not send the helper's user")


@case("uv.ended", "uv")
def uv_ended(stage):
    server = stage.serve(Index)
    stage.map(server.place)
    with stage.ended() as hint:
        has(uv(stage, server).fails().text, hint)


@case("keyring.bad_input")
def bad_input(stage):
    stage.map("pypi.example.com")
    done = stage.helper("keyring", "get", "https://PyPI.example.com./simple/", "ada").ok()
    must(done.out == stage.token() + "\n", done.out)
    for words in (["get", "a b", "x"], ["get", "https://user@pypi.example.com:1/", "x"], ["get", "\udcff", "x"]):
        done = stage.helper("keyring", *words)
        must(done.status == 1 and done.out == "" and done.is_prompt, f"{words}: {done}")
    done = stage.helper("keyring", "get", "https://pypi.example.com", "x", GRANTD_SOCKET="/nowhere/s")
    must(done.status == 1 and done.out == "", f"{done}")
    has(done.err, "grantd is not running")
