"""The languages: how each driver is built and run, and which cases do not apply."""

import os
import pathlib
import subprocess
import sys

from grantd_testing.places import ROOT
from rig import Skip, need

CLIENTS = ROOT / "clients"
DRIVERS = pathlib.Path(__file__).resolve().parent / "drivers"
# Debian's modules are those of Debian's own Python.
SYSTEM_PYTHON = "/usr/bin/python3"


class Language:
    name = ""
    # How the test interrupts a call, and whether the call then waits on.
    interrupts_by_signal, goes_on = False, False
    connects_before_the_check = True
    unusable = None
    # The cases of a variant of a language; None: all.
    only = None

    def build(self, stage):
        pass

    def need(self):
        if self.unusable:
            raise self.unusable

    def command(self, stage):
        raise NotImplementedError


class Python(Language):
    name, arguments, interrupts_by_signal = "python", (), True

    def command(self, stage):
        python = SYSTEM_PYTHON if os.path.exists(SYSTEM_PYTHON) else sys.executable
        return [python, "-B", "-W", "error", DRIVERS / "driver.py", CLIENTS / "python" / "src", *self.arguments]


class Asyncio(Python):
    name, arguments, interrupts_by_signal = "asyncio", ("--async",), False


class PyPI(Python):
    """With libraries that scripts/deps --tests installs."""

    name, only = "python-pypi", ("adapter-azure", "adapter-postgresql")

    def build(self, stage):
        own = ROOT / ".build" / "python" / "bin" / "python3"
        self.program = os.environ.get("GRANTD_TEST_PYTHON") or own
        if not os.access(self.program, os.X_OK):
            raise Skip("the libraries of PyPI are not installed: scripts/deps --tests installs them")

    def command(self, stage):
        return [self.program, *super().command(stage)[1:]]


class JavaScript(Language):
    name = "js"
    # It looks at the file of the socket.
    connects_before_the_check = False
    oldest = 18

    def build(self, stage):
        version = subprocess.run([need("node"), "--version"], capture_output=True, text=True, check=True).stdout
        if int(version.lstrip("v").split(".")[0]) < self.oldest:
            raise Skip(f"Node {version.strip()} is too old")

    def command(self, stage):
        return [need("node"), DRIVERS / "driver.js", CLIENTS / "js"]


class C(Language):
    name, interrupts_by_signal, goes_on = "c", True, True
    options = ("-O2",)
    prefix = ()

    def build(self, stage):
        self.program = stage.folder / f"driver-{self.name}"
        subprocess.run(
            [need("gcc"), "-std=c11", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-pedantic", "-g", *self.options,
             "-I", CLIENTS / "c", DRIVERS / "driver.c", "-o", self.program, "-pthread"], check=True)

    def command(self, stage):
        return [*self.prefix, self.program]


class Valgrind(C):
    name, options = "valgrind", ("-O1",)
    only = (
        "garbage", "deep", "a-mebibyte", "half-then-closed", "escapes", "errors", "parameters", "closes", "shutting-down",
        "unknown-member", "one-connection", "fork", "token", "report")

    def build(self, stage):
        self.prefix = (need("valgrind"), "-q", "--error-exitcode=99", "--leak-check=full")
        super().build(stage)


class Sanitized(C):
    name, options = "thread-sanitizer", ("-O1", "-fsanitize=thread")
    only = ("one-connection", "closed-among-many", "long-lines", "mixed-lines", "shutting-down", "interrupted", "restart")


class Go(Language):
    name = "go"
    options = ()

    def build(self, stage):
        self.program = stage.folder / f"driver-{self.name}"
        own = {"GOCACHE": str(ROOT / ".build" / "go"), "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
        for arguments in (["build", *self.options, "-o", self.program, "."], ["vet", "./...", "grantd.invalid/grantd"]):
            subprocess.run([need("go"), *arguments], cwd=DRIVERS / "go", env=os.environ | own, check=True)

    def command(self, stage):
        return [self.program]


class Race(Go):
    name, options = "go-race", ("-race",)
    only = ("one-connection", "interrupted", "shutting-down", "restart", "events")


class Swift(Language):
    name = "swift"
    options = ("--product", "driver")

    def build(self, stage):
        self.program = built(DRIVERS / "swift-driver", *self.options) / "driver"

    def command(self, stage):
        return [self.program]


def built(package, *options):
    """The folder of its programs: one for all packages, so that the library is compiled once."""
    results = ROOT / ".build" / "swift"
    done = subprocess.run(
        [need("swift"), "build", "--package-path", package, "--scratch-path", results, *options], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stdout[-3000:] + done.stderr[-500:])
    return results / ("release" if "release" in options else "debug")


LANGUAGES = [Swift(), Go(), Race(), C(), Valgrind(), Sanitized(), JavaScript(), Python(), PyPI(), Asyncio()]
