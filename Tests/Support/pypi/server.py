"""A server of PyPI as a process, and the questions that a test asks it."""

import base64
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

from grantd_testing import Program, Wrong, environment, get, wait_until

SUPPORT = pathlib.Path(__file__).resolve().parent
ROOT = SUPPORT.parents[2]
START_SECONDS, REQUEST_SECONDS = 90, 60
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def python_with(*modules):
    """A Python that has these modules: the environment that scripts/deps fills, else this one. None: there is none."""
    own = ROOT / ".build" / "python" / "bin" / "python3"
    test = "import importlib.util as u, sys; sys.exit(not all(u.find_spec(name) for name in sys.argv[1:]))"
    for program in (os.environ.get("GRANTD_TEST_PYTHON"), own):
        if program and os.access(program, os.X_OK) and subprocess.run(
                [program, "-c", test, *modules], timeout=REQUEST_SECONDS, check=False).returncode == 0:
            return program
    return sys.executable if all(importlib.util.find_spec(name) for name in modules) else None


class Server:
    """`info` has the issuer and what else the site says of itself."""

    def __init__(self, name, python, folder):
        self.log, self.folder, self.info = folder / f"{name}.log", folder / name, None
        self.folder.mkdir(mode=0o700)
        self.process = Program([python, SUPPORT / "serve.py", name, self.folder], self.log, env=environment(folder))
        wait_until(self.find_info, START_SECONDS, f"{name} is ready")
        self.metadata = json.loads(get(self.info["issuer"] + "/.well-known/openid-configuration"))

    def find_info(self):
        text = self.log.read_text(errors="replace")
        if found := re.search(r"^ready (.*)\n", text, re.M):
            self.info = json.loads(found[1])
        elif self.process.status is not None:
            raise Wrong(f"the server does not start: {text[-2000:]}")
        return self.info

    def ask(self, url, fields=None, headers=None, method=None, body=None):
        """Status and JSON of one request, with the fields of a form or a body in JSON."""
        data = urllib.parse.urlencode(fields).encode() if fields else None
        if body:
            data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(url, data=data, headers=headers or {}, method=method)
        try:
            answer = OPENER.open(request, timeout=REQUEST_SECONDS)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            text = answer.read()
        return answer.status, json.loads(text) if text[:1] == b"{" else {}

    def userinfo(self, token):
        """Status and claims."""
        return self.ask(self.metadata["userinfo_endpoint"], headers={"Authorization": f"Bearer {token}"})

    def introspect(self, token):
        """What the server says of a token (RFC 7662)."""
        credentials = base64.b64encode(":".join(self.info["inspector"]).encode()).decode()
        status, members = self.ask(self.info["introspection"], {"token": token}, {"Authorization": f"Basic {credentials}"})
        assert status == 200, f"introspection: {status} {members}"
        return members

    def scopes(self, token):
        """Those of a token that is good; none of another."""
        members = self.introspect(token)
        return set(members.get("scope", "").split()) if members["active"] else set()

    def refresh(self, token):
        """A refresh that another program sends with a refresh token that it should not have."""
        return self.ask(self.metadata["token_endpoint"], {
            "grant_type": "refresh_token", "refresh_token": token, "client_id": self.info["client"]})

    def requests(self, grant_type):
        """The requests to the token endpoint so far: their fields as lists, `status`, and the members of the `answer`."""
        path = self.folder / "requests.jsonl"
        entries = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [entry for entry in entries if entry["fields"].get("grant_type") == [grant_type]]

    def close(self):
        self.process.stop()
