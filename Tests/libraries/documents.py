"""The programs of docs/libraries.md, each as it is on the page, but with the test's server as the API."""

import os
import pathlib
import re

from examples import case, folder, run, variables
from grantd_testing.places import ROOT
from languages import CLIENTS, SYSTEM_PYTHON, built
from rig import PROVIDER, must, need

API = "https://api.example.com"
PACKAGE = """// swift-tools-version: 6.0
import PackageDescription

let package = Package(
  name: "page", dependencies: [.package(path: "{folder}")],
  targets: [.executableTarget(name: "page", dependencies: [.product(name: "Grantd", package: "swift")])])
"""
MODULE = """module page

go 1.19

require (
    golang.org/x/oauth2 v0.0.0
    grantd.invalid/grantd v0.0.0
)

replace golang.org/x/oauth2 => ./oauth2

replace grantd.invalid/grantd => {folder}
"""

# The types of golang.org/x/oauth2 that the page uses.
OAUTH2 = """package oauth2

import "time"

type Token struct {
    AccessToken, TokenType string
    Expiry                 time.Time
}

type TokenSource interface{ Token() (*Token, error) }
"""
SOURCE = """package main

import (
    "context"
    "fmt"
    "time"

    "golang.org/x/oauth2"
    "grantd.invalid/grantd"
)

type source struct{ account string }

func main() {
    var source oauth2.TokenSource = source{"work"}
    token, err := source.Token()
    if err != nil {
        fmt.Println(err)
        return
    }
    fmt.Println("work", token.TokenType, token.AccessToken != "", token.Expiry.After(time.Now()))
}

"""


def blocks(stage, language):
    """The blocks of a language, in their order."""
    page = (ROOT / "docs" / "libraries.md").read_text()
    return [text.replace(API, stage.server.url) for text in re.findall(rf"(?m)^```{language}\n((?s:.*?))^```$", page)]


def both(stage, home, command, printed, text, status=0):
    """The program prints that of an account with a token. For another whose grant has ended it prints the hint, and ends with
    the status."""
    def done(account):
        found = run(command(text.replace('"work"', f'"{account}"').replace("'work'", f"'{account}'")),
                    env=variables(stage, home, NODE_PATH=str(home / "modules")) | {"PATH": os.environ["PATH"]}, cwd=home)
        must("secret-" not in found.stdout + found.stderr, "a token is printed")
        return found
    good = done("work")
    must(good.returncode == 0 and re.fullmatch(printed, good.stdout), f"{good}")
    ended = done("ended")
    must(f"grantctl login {PROVIDER} ended" in ended.stdout + ended.stderr and ended.returncode == status, f"{ended}")


@case("page-python")
def python(stage):
    first, second = blocks(stage, "python")
    home = folder(stage, "page-python")

    def command(text):
        return [SYSTEM_PYTHON, "-c", "import grantd\n" + text]
    both(stage, home, command, r"work \d+\n", first, status=1)
    # The account of the test has the scope x.
    both(stage, home, command, "", second.replace("mail.read", "x"))


@case("page-js")
def javascript(stage):
    (text,) = blocks(stage, "js")
    home = folder(stage, "page-js")
    (home / "modules").mkdir()
    (home / "modules" / "grantd").symlink_to(CLIENTS / "js")
    both(stage, home, lambda text: [need("node"), "-e", text], r"work \d+\n200\n", text)


@case("page-c")
def c(stage):
    (text,) = blocks(stage, "c")
    home = folder(stage, "page-c")

    def command(text):
        (home / "page.c").write_text(text)
        done = run([need("gcc"), "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", CLIENTS / "c", "-o", home / "page",
                    home / "page.c", CLIENTS / "c" / "grantd.c", "-pthread"])
        must(done.returncode == 0, done.stderr)
        return [home / "page"]
    both(stage, home, command, "signed in\n", text, status=3)


@case("page-go")
def go(stage):
    text, method = blocks(stage, "go")
    home = folder(stage, "page-go")
    own = {"GOCACHE": str(ROOT / ".build" / "go"), "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
    (home / "oauth2").mkdir()
    (home / "oauth2" / "oauth2.go").write_text(OAUTH2)
    (home / "oauth2" / "go.mod").write_text("module golang.org/x/oauth2\n\ngo 1.19\n")

    def command(text):
        (home / "page.go").write_text(text)
        (home / "go.mod").write_text(MODULE.format(folder=CLIENTS / "go"))
        done = run([need("go"), "build", "-o", home / "page", "."], cwd=home, env=os.environ | own)
        must(done.returncode == 0, done.stderr)
        return [home / "page"]
    both(stage, home, command, r"work .*\n", text)
    both(stage, home, command, "work Bearer true true\n", SOURCE + method)


@case("page-swift")
def swift(stage):
    _, text, _ = blocks(stage, "swift")
    home = folder(stage, "page-swift")
    sources = pathlib.Path(home / "Sources" / "page")
    sources.mkdir(parents=True)
    (home / "Package.swift").write_text(PACKAGE.format(folder=CLIENTS / "swift"))

    def command(text):
        (sources / "Page.swift").write_text(text)
        return [built(home) / "page"]
    both(stage, home, command, r"work \d+\n", text)
