"""The pages of docs/recipes are fixtures: what stands in their blocks (pages.py) is written, run and compared.

Of what is shown, the lines are compared in their order, with `…` for anything.
"""

import os
import re

from grantd_testing import Wrong
from grantd_testing.places import ROOT
from pages import FOLDER, blocks, is_shown, names, sessions
from rig import CASES, PROVIDER, PYPI, case, must
from tunnel import Tunnel

COLUMNS = 88
LINES = 80
ACCOUNT = "work"
TITLE_OF_END = "When the grant has ended"
# Pages with a case in another suite, Tests/idtokens.
ELSEWHERE = {"id-tokens"}


class Recipe:
    """A page, with the stage's names in the place of those that are examples."""

    def __init__(self, stage, name):
        self.stage, self.name, file = stage, name, FOLDER / f"{name}.md"
        self.text, self.blocks = file.read_text(), blocks(file)
        self.names = {f"login {name} {ACCOUNT}": f"login {PROVIDER} {ACCOUNT}"
                      for name in re.findall(rf"grantctl login ([a-z-]+) {ACCOUNT}", self.text)}
        # Before its commands, in their environment, and first in their path.
        self.prefix, self.more, self.path = (), {}, []
        self.status = None

    def replace(self, names):
        """The examples of the page, and what is there in their place."""
        for name in names:
            must(name in self.text, f"{self.name}: {name} is not on the page")
        self.names |= {name: str(value) for name, value in names.items()}

    def filled(self, text):
        names = sorted(self.names, key=len, reverse=True)
        if not names:
            return text
        return re.sub(rf"(?<![\w.-])({'|'.join(map(re.escape, names))})(?![\w-])", lambda found: self.names[found[1]], text)

    def taken(self, accept):
        found = [block for block in self.blocks if accept(block)]
        for block in found:
            block.is_used = True
        return found

    def answer(self, servers):
        """The hosts of the page are these servers."""
        for name in servers:
            must(name in self.text, f"{self.name}: {name} is not on the page")
        self.more |= Tunnel(self.stage, servers).environment

    # ---- files

    def contents(self, path):
        """What the page has in that file, in parts."""
        found = self.taken(lambda block: block.path == path)
        must(found, f"{self.name}: no block is {path}")
        return [self.filled(block.text) for block in found]

    def write(self, *paths, mode=0o600):
        for path in paths:
            must(path.startswith("~/"), f"{path} is not of the home folder")
            self.stage.file(path[2:], "\n".join(self.contents(path))).chmod(mode)

    def is_written(self, path):
        """The file that is there has the first block of the page."""
        text = (self.stage.home / path.removeprefix("~/")).read_text()
        if self.contents(path)[0] not in text:
            raise Wrong(f"{self.name}: not what the page says of {path}: {text}")

    def add(self, path):
        """The blocks of the page behind the first."""
        with open(self.stage.home / path.removeprefix("~/"), "a") as file:
            file.write("".join(self.contents(path)[1:]))

    def checks(self, path="~/.config/grantd/grantd.toml", home="/home/ada"):
        """grantd takes the page's configuration, with the secrets that it names."""
        text = "\n".join(self.contents(path)).replace(home, str(self.stage.home))
        for name in re.findall(rf"{re.escape(str(self.stage.home))}/([^\"]*\.secret)", text):
            self.stage.file(name, "x").chmod(0o600)
        file = self.stage.file("page.toml", text)
        done = self.stage.run(self.stage.programs / "grantd", "--user", "--templates", ROOT / "config" / "providers.d",
                              "--config", file, "--check-config").ok()
        must("warning" not in done.text, done.text)

    # ---- commands

    def environment(self, **more):
        """Also with the programs that only the tests' user has."""
        made = self.stage.environment(**more)
        folders = [*map(str, self.path), str(self.stage.bin), os.environ.get("PATH", ""), made["PATH"], str(PYPI)]
        return made | self.more | {"PATH": os.pathsep.join(folders)}

    def shell(self, text, **more):
        done = self.stage.run(*self.prefix, "sh", "-ec", text, env=self.environment(**more))
        self.status = done.status
        return done

    def commands(self, number=None, section=None):
        """The blocks of commands, or one of them."""
        found = [block for block in self.blocks if block.language == "sh" and block.path is None
                 and (section is None or block.section == section)]
        chosen = found if number is None else [found[number]]
        for block in chosen:
            block.is_used = True
        return self.filled("".join(block.text for block in chosen))

    def run(self, number=None, section=None, **more):
        return self.shell(self.commands(number, section), **more)

    def session(self, section, run=None, **more):
        """Each command of the section's sessions shows what the page says."""
        run = run or (lambda command: self.shell(command, **more).text)
        found = self.taken(lambda block: block.section == section and block.language == "console")
        must(found, f"{self.name}: no session in {section}")
        for block in found:
            for command, lines in sessions(block):
                shows(run(self.filled(command)), [self.filled(line) for line in lines], f"{self.name}: {command}")

    def text_is(self, shown):
        """What the page quotes of a program."""
        found = self.taken(lambda block: block.language == "text")
        must(found, f"{self.name}: no block is text")
        for block in found:
            shows(shown, self.filled(block.text).splitlines(), self.name)

    def ended(self, run=None, **more):
        with self.stage.ended():
            self.session(TITLE_OF_END, run, **more)

    def check_use(self):
        unused = [block.text for block in self.blocks if not block.is_used]
        must(not unused, f"{self.name}: no test uses {unused}")


def shows(text, lines, what):
    if not is_shown(text, lines):
        raise Wrong(f"{what}: it does not show {lines}, but {text[-1500:]!r}")


def recipe(name, *programs):
    """The case of a page. Its account has the name that the pages use."""
    def register(action):
        @case(f"recipe.{name}", *programs)
        def run(stage):
            with stage.another_home(name):
                stage.rename(ACCOUNT)
                page = Recipe(stage, name)
                action(stage, page)
                page.check_use()
        return action
    return register


@case("recipes.pages")
def all_pages(stage):
    """Each page has a case, stands in the table of contents, and is short. Lines of files and tables are as long as they are."""
    index = (FOLDER / "README.md").read_text()
    wrong = [f"{name}: no case" for name in names() if f"recipe.{name}" not in CASES and name not in ELSEWHERE]
    wrong += [f"{name}: no page" for name in CASES if name.startswith("recipe.") and name[7:] not in names()]
    wrong += [f"{name}: README.md has no row" for name in names() if f"]({name}.md)" not in index]
    wrong += ["README.md: its first screen does not lead to docs/recipes"] * (
        "(docs/recipes/README.md)" not in (ROOT / "README.md").read_text().partition("\n## ")[0])
    for path in FOLDER.glob("*.md"):
        lines, files = path.read_text().splitlines(), {line for block in blocks(path) if block.path for line in block.lines}
        wrong += [f"{path.name}:{number}: wider than {COLUMNS} columns" for number, line in enumerate(lines, 1)
                  if len(line) > COLUMNS and not line.startswith("|") and line not in files]
        if path.name != "README.md":
            wrong += [f"{path.name}: {len(lines)} lines"] * (len(lines) > LINES)
            wrong += [f"{path.name}: no section {TITLE_OF_END}"] * (f"\n## {TITLE_OF_END}\n" not in path.read_text())
        wrong += [f"{path.name}: leads to {target}, which is not there"
                  for target in re.findall(r"\]\(([^)#:]+)[^)]*\)", path.read_text()) if not (FOLDER / target).exists()]
    must(not wrong, "\n".join(wrong))
