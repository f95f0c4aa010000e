"""The pages of the project, their links, and the commands and configurations in their blocks."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests" / "clients"))

from pages import blocks, sessions  # noqa: E402

TOP = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
TARGET = r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)"
# The text of a link may be an image.
LINK = re.compile(r"(?<!!)\[(?:[^\]\[]|\[[^\]]*\])*" + TARGET)
IMAGE = re.compile(r"!\[[^\]]*" + TARGET + r"|<img\b[^>]*\bsrc=\"([^\"]+)\"")
FENCED = re.compile(r"(?ms)^```.*?^```$")


def pages():
    return [ROOT / name for name in TOP] + sorted((ROOT / "docs").rglob("*.md")) + sorted((ROOT / "clients").glob("*/README.md"))


def name_of(page):
    return str(page.relative_to(ROOT) if page.is_relative_to(ROOT) else page)


def anchors(page):
    """As GitHub makes them of headings; a repeated heading gets a number."""
    found, seen = set(), {}
    for heading in re.findall(r"(?m)^#{1,6} (.+)$", FENCED.sub("", page.read_text())):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        found.add(f"{anchor}-{count}" if count else anchor)
    return found


def targets(text):
    """Of its links and images, except in fenced blocks."""
    text = FENCED.sub("", text)
    return [found[1] for found in LINK.finditer(text)] + [found[1] or found[2] for found in IMAGE.finditer(text)]


def broken_links(all_pages):
    wrong, known = [], {}
    for page in all_pages:
        for target in targets(page.read_text()):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists():
                wrong.append(f"{name_of(page)}: {target} does not exist")
            elif anchor and file.suffix == ".md":
                known.setdefault(file, anchors(file))
                if anchor not in known[file]:
                    wrong.append(f"{name_of(page)}: {target}: no such heading")
    return wrong


def untested_promises():
    """Pages with numbered promises whose tests, on a page for developers, have other numbers."""
    wrong = []
    for page, tests in (("docs/reliability.md", "reliability-tests.md"), ("SECURITY.md", "threats.md")):
        numbers, tested = (
            re.findall(r"(?m)^\| (\d+|[a-z]) \|", (ROOT / name).read_text()) for name in (page, f"docs/developers/{tests}"))
        if numbers != tested:
            wrong.append(f"{page}: rows {' '.join(numbers)}, but docs/developers/{tests} has {' '.join(tested)}")
    return wrong


def commands(page):
    """The lines of shell in its blocks, with continued lines joined."""
    for block in blocks(page):
        if block.language == "console":
            yield from (command for command, _ in sessions(block))
        elif block.language == "sh":
            yield from re.sub(r"\\\n\s*", " ", block.text).splitlines()


def configurations(page):
    """Its blocks of TOML, in order."""
    return [block for block in blocks(page) if block.language == "toml"]
