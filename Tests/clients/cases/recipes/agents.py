"""The pages of MCP clients: what `grantctl configure` writes is what the page shows."""

import json
import tomllib

from cases.recipes.listener import PLACE, listening, prepared
from recipes import recipe
from rig import must

FILES = {
    "claude-code": "~/.claude.json", "codex": "~/.codex/config.toml", "gemini": "~/.gemini/settings.json",
    "cursor": "~/.cursor/mcp.json", "vscode": "~/.config/Code/User/mcp.json", "zed": "~/.config/zed/settings.json"}


def client(name, file):
    @recipe(name)
    def page_of_client(stage, page):
        port = prepared(page)
        parse = tomllib.loads if file.endswith(".toml") else json.loads

        def written():
            return parse((stage.home / file.removeprefix("~/")).read_text())

        http, command = (parse(text) for text in page.contents(file))
        base = 'client_id = "demo"\n'
        with listening(stage, f'[http]\nlisten = "127.0.0.1:{port}"\n', change=lambda config: config.replace(
                base, f'{base}api_base = "http://127.0.0.1:{port}"\n')):
            page.run(0).ok()
            must(written() == http, f"the file is {written()}, the page has {http}")
            must(page.filled(PLACE) in json.dumps(written()), "the file has another address")
            page.run(1).ok()
            must(written() == command, f"the file is {written()}, the page has {command}")
            page.ended()


for each in FILES.items():
    client(*each)
