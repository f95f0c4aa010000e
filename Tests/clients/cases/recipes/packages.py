"""pip, uv, cargo and go, as their pages have them."""

import pathlib

from cases.languages import crates, modules, needs_goauth, rust, serve
from cases.python import Index, pips
from recipes import recipe
from rig import find, has, must

MAPPING = "~/.config/grantd/helper.toml"


def index(stage, page):
    server = stage.serve(Index)
    page.answer({"pypi.example.com": server})
    page.replace({"/usr/lib/grantd/keyring": stage.keyring, "example-package": "grantd-sample"})
    return server


def installed(stage, server):
    must((stage.home / "packages" / "grantd_sample").is_dir(), "the package is not installed")
    must(("oauth2", stage.token()) in server.seen, f"the index was asked by {server.seen}")


@recipe("pip")
def pip(stage, page):
    server = index(stage, page)
    page.more |= {"PIP_CERT": str(stage.ca), "PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_RETRIES": "0",
                  "PIP_NO_INPUT": "1"}
    newest = max(pips(stage))[1]
    (stage.home / "bin").mkdir()
    (stage.home / "bin" / "pip").symlink_to(newest)
    page.path = [stage.home / "bin"]
    page.run().ok()
    page.is_written("~/.config/pip/pip.conf")
    page.is_written(MAPPING)
    installed(stage, server)
    page.path = [stage.keyring]
    page.ended()


@recipe("uv", "uv")
def uv(stage, page):
    server = index(stage, page)
    page.run().ok()
    page.is_written("~/.config/uv/uv.toml")
    page.is_written(MAPPING)
    installed(stage, server)
    page.path = [stage.keyring]
    page.ended()


@recipe("cargo", "cargo")
def cargo(stage, page):
    server = serve(stage, crates)
    page.answer({"crates.example.com": server})
    page.more |= rust(stage) | {"CARGO_HTTP_CAINFO": str(stage.ca), "CARGO_HTTP_CHECK_REVOKE": "false"}
    page.write("~/project/Cargo.toml")
    stage.file("project/src/lib.rs", "")
    page.run().ok()
    page.is_written("~/.cargo/config.toml")
    must(("/sa/mp/sample", stage.token()) in server.seen, f"the registry saw {server.seen}")
    page.ended()


@recipe("go", "go")
def go(stage, page):
    needs_goauth(stage)
    server = serve(stage, modules)
    page.answer({"goproxy.example.com": server})
    page.path = [pathlib.Path(find("go")).parent]
    page.more |= {"GOPATH": str(stage.folder / "go"), "GOTOOLCHAIN": "local", "GO111MODULE": "on", "GOFLAGS": "-mod=mod"}
    has(page.run().ok().out, "example.com/sample v1.0.0")
    page.is_written("~/.config/go/env")
    page.is_written(MAPPING)
    page.ended()
