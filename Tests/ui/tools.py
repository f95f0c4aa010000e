"""Use in …: Undo of a tool whose file has other entries, and the snippets, which are run as they are shown."""

import json
import os
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request

from grantd_testing import free_ports
from views import clean, press, shown
from world import ANSWER_SECONDS, Skip

KUBECONFIG = {
    "apiVersion": "v1", "kind": "Config", "clusters": [{"name": "lab", "cluster": {"server": "https://k8s.example.com"}}],
    "contexts": [], "users": [{"name": "admin", "user": {"username": "root"}}], "preferences": {}, "current-context": ""}
DOCKER = {"auths": {}, "credHelpers": {"other.example.com": "pass"}}


def change(page, button, words):
    press(page, button)
    shown(page, words)


def merged_docker(stage):
    """Write adds an entry to a file of the user; Undo removes only this one."""
    world = stage.world(accounts=["work"])
    file = world.folder / ".docker/config.json"
    file.parent.mkdir()
    file.write_text(json.dumps(DOCKER, indent="\t") + "\n")
    before = file.read_text()
    page = world.open("/use?account=work&tool=docker&server=registry.example.com")
    change(page, "Write", "The files are written")
    helpers = json.loads(file.read_text())["credHelpers"]
    assert helpers.pop("registry.example.com") and helpers == DOCKER["credHelpers"], helpers
    page.open(world.origin + "/use?account=work&tool=docker&server=registry.example.com")
    change(page, "Undo", "The configuration is removed")
    assert json.loads(file.read_text()) == json.loads(before), file.read_text()
    clean(page)


def users(file):
    """The users of a kubeconfig, as kubectl reads it."""
    done = subprocess.run(["kubectl", "config", "view", f"--kubeconfig={file}", "-o", "json", "--raw"], capture_output=True,
                          text=True, timeout=ANSWER_SECONDS, check=True)
    return {user["name"]: user["user"] for user in json.loads(done.stdout)["users"] or []}


def merged_kubectl(stage):
    """The same for kubectl, which changes its file itself."""
    if not shutil.which("kubectl"):
        raise Skip("there is no kubectl")
    world = stage.world(accounts=["work"])
    file = world.folder / ".kube/config"
    file.parent.mkdir()
    file.write_text(json.dumps(KUBECONFIG))
    page = world.open("/use?account=work&tool=kubectl")
    change(page, "Write", "The files are written")
    found = users(file)
    assert found["admin"] == {"username": "root"} and found["grantd-work"]["exec"]["command"] == "grantctl", found
    page.open(world.origin + "/use?account=work&tool=kubectl")
    change(page, "Undo", "The configuration is removed")
    assert users(file) == {"admin": {"username": "root"}}, users(file)
    clean(page)


def with_api(world):
    text = world.broker.config.read_text()
    world.broker.config.write_text(text.replace(
        'client_id = "demo"\n', f'client_id = "demo"\napi_base = "{world.demo.issuer}"\n'))


def snippets(stage):
    """Shell, Python, a variable and the URL of an MCP client work as they are shown; the lines of Go compile to the same."""
    (port,) = free_ports()
    world = stage.world(sections=f'[http]\nlisten = "127.0.0.1:{port}"\n', accounts=["work"], before=with_api)
    page = world.open("/use?account=work")
    texts = dict(page.evaluate(
        "[...document.querySelectorAll('.panels .panel')].map(e => ['h3', 'pre'].map(n => e.querySelector(n).textContent))"))
    clean(page)
    token = world.broker.token("work")
    variables = {"PATH": f"{world.products}:{os.environ['PATH']}", "GRANTD_SOCKET": str(world.broker.socket),
                 "HOME": str(world.folder)}

    def run(*command):
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=ANSWER_SECONDS)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout.strip()

    assert "https://api.example.com/" in texts["Shell"]
    answer = run("sh", "-c", texts["Shell"].replace("https://api.example.com/", f"-s {world.demo.issuer}/resource"))
    assert "alice" in answer or "sub" in answer, answer
    assert run(sys.executable, "-c", texts["Python"] + "\nprint(repr(token))") == repr(token)
    assert run("sh", "-c", texts["A program with a variable"].replace("PROGRAM", "printenv ACCESS_TOKEN")) == token
    assert 'exec.Command("grantctl", "token", "work")' in texts["Go"], texts
    server = json.loads(texts["An MCP client"])["mcpServers"]["work"]
    url = urllib.parse.urlsplit(server["url"])
    assert (server["type"], url.netloc, url.path) == ("http", f"127.0.0.1:{port}", "/forward/work/mcp"), server
    # The broker adds the token.
    with urllib.request.urlopen(server["url"].replace("/mcp", "/resource"), timeout=ANSWER_SECONDS) as forwarded:
        assert forwarded.status == 200
    off = stage.world(accounts=["work"])
    page = off.open("/use?account=work")
    assert '"command": "grantctl"' in page.text() and '"args": ["mcp", "work"]' in page.text(), page.text()


CASES = {"merged-docker": merged_docker, "merged-kubectl": merged_kubectl, "snippets": snippets}
