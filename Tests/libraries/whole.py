"""Cases that are not of one language."""

import shutil
import subprocess
import sys
import zipfile

from grantd_testing.places import ROOT
from languages import SYSTEM_PYTHON
from rig import Skip, must, need

CASES = {}
PYTHON = ROOT / "clients" / "python"


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
    """The import loads neither asyncio nor another large module."""
    text = "import sys, grantd; print(sorted({'asyncio', 'socket', 'typing', 'inspect', 'ssl'} & set(sys.modules)))"
    done = subprocess.run([SYSTEM_PYTHON, "-S", "-c", text], capture_output=True, text=True,
                          env={"PYTHONPATH": str(PYTHON / "src"), "PYTHONDONTWRITEBYTECODE": "1"})
    must(done.stdout == "[]\n", done.stdout + done.stderr)
