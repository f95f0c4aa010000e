"""Whether the page of each system begins with a configuration that grantd takes as it stands, and with what is then printed."""

import re
import subprocess

from grantd_testing import environment
from grantd_testing.places import ROOT

PAGES = [f"docs/providers/{system}.md" for system in ("vms", "7pass", "dropbox", "uber", "zephr")]
CHECK_SECONDS = 20
COLUMNS = 80
# Where the pages say that the configuration is.
INSTALLED = "/etc/grantd/grantd.toml"


def first_block(text, language):
    """The number of its first line and its lines; nothing where none stands above the first section."""
    top = re.split(r"(?m)^## ", text)[0]
    found = re.search(rf"(?ms)^```{language}\n(.*?)^```$", top)
    return (top[:found.start(1)].count("\n") + 1, found[1].splitlines()) if found else (0, [])


def wrong_in(page, text, grantd, folder):
    """What is wrong at the beginning of one page, each with the page's line."""
    number, configuration = first_block(text, "toml")
    if not configuration:
        return [f"{page}:1: no ```toml block above the first section"]
    path = folder / "page.toml"
    # Empty lines before it: so grantd counts the lines of the page.
    path.write_text("\n" * (number - 1) + "\n".join(configuration) + "\n")
    done = subprocess.run(
        [grantd, "--user", "--config", path, "--check-config"], capture_output=True, text=True, timeout=CHECK_SECONDS,
        env=environment(folder))
    said = (done.stdout + done.stderr).strip().replace(str(path), page)
    if done.returncode != 0:
        return [f"{page}:{number}: grantd --check-config ends with {done.returncode}: {said}"]
    found = [said] if "warning:" in said else []
    number, printed = first_block(text, "text")
    if said.replace(page, INSTALLED) not in printed:
        found.append(f"{page}:{number or 1}: the block of what is printed has no line {said.replace(page, INSTALLED)!r}")
    return found + [
        f"{page}:{number + count}: wider than {COLUMNS} columns" for count, line in enumerate(printed) if len(line) > COLUMNS]


def mistakes(products, folder):
    """What is wrong at the beginning of the pages, a line each."""
    return [line for page in PAGES for line in wrong_in(page, (ROOT / page).read_text(), products / "grantd", folder)]
