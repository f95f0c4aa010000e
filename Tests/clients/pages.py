#!/usr/bin/env python3
"""The blocks of the pages in docs/recipes.

    pages.py PAGE PATH         prints the block that is this file
    pages.py PAGE COMMAND      prints what the page says that this command shows

A block below a line that begins with a path in backquotes and ends with a colon is that file. A block of `sh` is commands,
one of `console` is commands (`$ `) and what they show, one of `text` is what a program shows or sends.
"""

import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "recipes"
PARTS = re.compile(
    r"(?m)^## (?P<section>.+)$|^(?P<path>`[~/][^`]*`.*:)\n\n(?=```)|^```(?P<language>\w*)\n(?P<text>(?s:.*?))^```$")


class Block:
    def __init__(self, section, path, language, text):
        self.section, self.path, self.language, self.text, self.is_used = section, path, language, text, False

    @property
    def lines(self):
        return self.text.splitlines()


def names():
    return sorted(path.stem for path in FOLDER.glob("*.md") if path.name != "README.md")


def blocks(file):
    made, section, path = [], "", None
    for found in PARTS.finditer(file.read_text()):
        if found["section"]:
            section = found["section"]
        elif found["path"]:
            path = found["path"].split("`")[1]
        else:
            made.append(Block(section, path, found["language"], found["text"]))
            path = None
    return made


def sessions(block):
    """The commands of a block of `console`, and the lines that each shows."""
    made = []
    for line in block.lines:
        if line.startswith("$ "):
            made.append((line[2:], []))
        else:
            made[-1][1].append(line)
    return made


def is_shown(text, lines):
    """Whether the text has the lines in their order, wherever the program breaks its own; `…` stands for anything."""
    words = [re.escape(" ".join(line.split())).replace("…", ".*?") for line in lines]
    return bool(re.search(r".*?".join(words).replace(r"\ ", " "), " ".join(text.split())))


if __name__ == "__main__":
    page, wanted = sys.argv[1:]
    for block in blocks(FOLDER / f"{page}.md"):
        if block.path == wanted:
            print(block.text, end="")
        elif block.language == "console":
            print("".join(f"{line}\n" for command, lines in sessions(block) if command == wanted for line in lines), end="")
