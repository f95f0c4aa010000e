"""Cases that are not of one language."""

import json
import os
import shutil
import subprocess
import sys
import zipfile

from grantd_testing.places import ROOT
from languages import DRIVERS, SYSTEM_PYTHON, built
from rig import Skip, must, need

CASES = {}
PYTHON = ROOT / "clients" / "python"
TYPESCRIPT = """
import * as grantd from 'FOLDER'
async function main(): Promise<void> {
  const token: grantd.Token = await grantd.token('work', { scopes: ['a'], minTtl: 60, signal: new AbortController().signal })
  const text: string = token.headers.authorization
  const status: number = (await grantd.fetch('work')('https://api.example.com/' + text, { method: 'POST' })).status
  for await (const event of grantd.events(['token.refreshed'])) console.log(event.account, event.at, status)
  try {
    await new grantd.Client({ socket: '/s' }).reportRejected(token)
  } catch (error) {
    if (error instanceof grantd.errors.LoginRequired) console.log(error.hint, error.retryAfter)
  }
}
main()
"""


def case(action):
    CASES[action.__name__.replace("_", "-")] = action
    return action


@case
def generated(stage):
    """No table of a library is behind the method types."""
    done = subprocess.run(
        [sys.executable, ROOT / "clients" / "generate", "--check", "--products", stage.programs], capture_output=True, text=True)
    must(done.returncode == 0, done.stdout + done.stderr)


@case
def python_types(stage):
    """mypy --strict accepts the Python library."""
    done = subprocess.run(
        [need("mypy"), "--cache-dir", ROOT / ".build" / "mypy", "src/grantd"], cwd=PYTHON, capture_output=True, text=True)
    must(done.returncode == 0, done.stdout + done.stderr)


@case
def python_wheel(stage):
    """`python -m build` makes a wheel with the types, and without other files."""
    if subprocess.run([SYSTEM_PYTHON, "-c", "import build, setuptools, wheel"], capture_output=True).returncode != 0:
        raise Skip("python3-build is not installed")
    source, made = stage.folder / "wheel", stage.folder / "dist"
    shutil.copytree(PYTHON, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    done = subprocess.run(
        [SYSTEM_PYTHON, "-m", "build", "--wheel", "--no-isolation", "--outdir", made, source], capture_output=True, text=True)
    must(done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:])
    names = {name for name in zipfile.ZipFile(next(made.glob("*.whl"))).namelist() if "dist-info" not in name}
    wanted = {str(path.relative_to(PYTHON / "src")) for path in (PYTHON / "src").rglob("*") if path.suffix in (".py", ".typed")}
    must(names == wanted, f"{names ^ wanted}")


@case
def python_import(stage):
    """The import loads no large module."""
    large = {"asyncio", "socket", "typing", "json", "re", "threading", "weakref", "ssl"}
    text = f"import sys, grantd; print(sorted({large} & set(sys.modules)))"
    done = subprocess.run([SYSTEM_PYTHON, "-S", "-c", text], capture_output=True, text=True,
                          env={"PYTHONPATH": str(PYTHON / "src"), "PYTHONDONTWRITEBYTECODE": "1"})
    must(done.stdout == "[]\n", done.stdout + done.stderr)


@case
def go_tests(stage):
    """The quick reader of answers takes only texts that encoding/json takes, with the same meaning."""
    own = {"GOCACHE": str(ROOT / ".build" / "go"), "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    done = subprocess.run(
        [need("go"), "test", "./..."], cwd=ROOT / "clients" / "go", env=os.environ | own, capture_output=True, text=True)
    must(done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:])


@case
def swift_texts(stage):
    """The quick reader of answers takes only texts that the reader of JSON takes, with the same meaning."""
    done = subprocess.run(
        [built(DRIVERS / "swift-driver", "--product", "texts") / "texts"], capture_output=True, text=True)
    must(done.stdout == "compared\n", done.stdout[-1500:] + done.stderr[-1500:])


@case
def swift_documentation(stage):
    """DocC has no complaint about the documentation of the library: its links and parameters exist."""
    need("docc")
    graph, made = stage.folder / "graph", stage.folder / "doccarchive"
    scratch = ROOT / ".build" / "swift"
    done = subprocess.run(
        [need("swift"), "package", "--package-path", ROOT / "clients" / "swift", "--scratch-path", scratch, "dump-symbol-graph",
         "--minimum-access-level", "public"], capture_output=True, text=True)
    must(done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:])
    graph.mkdir()
    shutil.copy(next(scratch.glob("*/symbolgraph/Grantd.symbols.json")), graph)
    done = subprocess.run(
        [need("docc"), "convert", ROOT / "clients" / "swift" / "Sources" / "Grantd" / "Grantd.docc",
         "--additional-symbol-graph-dir", graph, "--fallback-display-name", "Grantd", "--fallback-bundle-identifier", "grantd",
         "--output-path", made, "--warnings-as-errors"], capture_output=True, text=True)
    must(done.returncode == 0 and (made / "data").exists(), done.stdout[-1500:] + done.stderr[-1500:])


@case
def javascript_types(stage):
    """tsc accepts the types of the JavaScript library."""
    program = stage.folder / "types.ts"
    program.write_text(TYPESCRIPT.replace("FOLDER", str(ROOT / "clients" / "js")))
    done = subprocess.run([need("tsc"), "--noEmit", "--strict", "--target", "es2021", "--moduleResolution", "node",
                           program], capture_output=True, text=True)
    must(done.returncode == 0, done.stdout + done.stderr)


@case
def javascript_version(stage):
    """The version of the package is that of the broker."""
    package = json.loads((ROOT / "clients" / "js" / "package.json").read_text())
    must(f"'{package['version']}'" in (ROOT / "clients" / "js" / "reasons.js").read_text(), package["version"])


@case
def installed(stage):
    """`make install` puts each library in a place where its language finds it, and a compiler warns of nothing."""
    root = stage.folder / "root"
    usr = root / "usr"
    done = subprocess.run(
        [need("make"), "-s", "install-libraries", f"DESTDIR={root}", "PREFIX=/usr"], cwd=ROOT, capture_output=True, text=True)
    must(done.returncode == 0 and not done.stderr, done.stdout + done.stderr)
    program = stage.folder / "uses.c"
    program.write_text("#include <grantd.h>\nint main(void) { grantd_wipe(0, 0); return 0; }\n")
    (stage.folder / "uses.go").write_text(
        'package main\n\nimport "grantd.invalid/grantd"\n\nfunc main() { println(grantd.Version) }\n')
    python = "import grantd, importlib.metadata as m; print(m.version('grantd') == grantd.__version__, grantd.__file__)"
    flags = "$(pkg-config --cflags --libs grantd)"
    for tool, command, more in (
            (SYSTEM_PYTHON, [SYSTEM_PYTHON, "-B", "-c", python], {"PYTHONPATH": f"{usr}/lib/python3/dist-packages"}),
            ("pkg-config", ["sh", "-c", f"cc -o {program}.out {program} {flags} && {program}.out && echo True"],
             {"PKG_CONFIG_PATH": f"{usr}/lib/pkgconfig", "PKG_CONFIG_SYSROOT_DIR": str(root)}),
            ("node", ["node", "-e", "console.log(require('grantd').token ? 'True' : '')"], {"NODE_PATH": f"{usr}/share/nodejs"}),
            ("go", ["sh", "-c", f"go build -o {stage.folder}/uses-go {stage.folder}/uses.go && echo True"],
             {"GO111MODULE": "off", "GOPATH": f"{usr}/share/gocode", "GOCACHE": str(ROOT / ".build" / "go")})):
        if shutil.which(tool):
            done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **more})
            must(done.stdout.startswith("True"), f"{tool}: {done.stdout}{done.stderr}")
