"""What the checks against glewlwyd share: the server, the broker, and how a check is reported."""

import base64
import http.cookiejar
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

from grantd_testing import Checks, CommandedDaemon, Program, redirected, wait_until

SUPPORT = pathlib.Path(__file__).resolve().parent
WAIT_SECONDS, PAUSE_SECONDS = 120, 0.2
COMMAND_SECONDS = 120
REQUEST_SECONDS = 60


def until(condition, what):
    return wait_until(condition, WAIT_SECONDS, what, PAUSE_SECONDS)


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, **more)


def parameters(url):
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query, keep_blank_values=True))


def claims(token):
    """Of a JWT's header and payload; nothing is verified."""
    return tuple(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in token.split(".")[:2])


class Glewlwyd:
    """A new server with users and clients, its pids known."""

    def __init__(self, folder, redirect_uri, *options):
        self.folder = folder / "glewlwyd"
        started = run([sys.executable, SUPPORT / "start.py", "--port", "0", "--serialize", "--detach", "--dir", self.folder,
                       "--redirect-uri", redirect_uri, *options])
        if started.returncode:
            raise RuntimeError(f"glewlwyd did not start: {started.stdout}{started.stderr}")
        self.info = json.loads((self.folder / "info.json").read_text())
        self.pids = [int(pid) for pid in (self.folder / "pid").read_text().split()]

    def sign_in(self, url, user="alice", *options):
        return run([sys.executable, SUPPORT / "headless_login.py", "--authorization-url", url, "--user", user,
                    "--password", f"{user}-password", *options])

    def endpoint(self, name):
        with urllib.request.urlopen(self.info["discovery"], timeout=REQUEST_SECONDS) as answer:
            return json.load(answer)[name]

    def userinfo(self, token, **headers):
        request = urllib.request.Request(
            self.endpoint("userinfo_endpoint"), headers={"Authorization": f"Bearer {token}"} | headers)
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
            return json.load(answer)

    def introspect(self, token, client, secret):
        basic = base64.b64encode(f"{client}:{secret}".encode()).decode()
        request = urllib.request.Request(
            self.endpoint("introspection_endpoint"), data=urllib.parse.urlencode({"token": token}).encode(),
            headers={"Authorization": f"Basic {basic}"})
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
            return json.load(answer)

    def is_active(self, token, client, secret):
        return self.introspect(token, client, secret)["active"]

    def admin(self, method, path, body=None):
        """The API of the server's administrator."""
        request = urllib.request.Request(
            self.info["base"] + "/api" + path, method=method, data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": "token " + self.info["admin_api_key"], "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def person(self, user="alice"):
        """A browser in which somebody has signed in: sends a request, returns the status and where it ended."""
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))

        def send(method, path, body=None):
            url = path if path.startswith("http") else self.info["base"] + path
            request = urllib.request.Request(
                url, method=method, data=None if body is None else json.dumps(body).encode(),
                headers={"Content-Type": "application/json"})
            with opener.open(request, timeout=REQUEST_SECONDS) as answer:
                return answer.status, answer.url

        send("POST", "/api/auth/", {"username": user, "password": f"{user}-password"})
        return send

    def confirm_device(self, user_code, client, scope):
        """What a person does on the telephone: signs in, consents, confirms the code."""
        send = self.person()
        send("PUT", f"/api/auth/grant/{client}", {"scope": scope})
        _, page = send("GET", f"/api/oidc/device?code={user_code}&g_continue")
        assert "deviceComplete" in page, page

    def end_session(self, url):
        """What the page that asks “sign out here too?” does at yes; where the browser is sent then."""
        send = self.person()
        _, page = send("GET", url)
        asked = parameters(page)
        assert asked.get("prompt") == "end_session", page
        send("DELETE", f"/api/{asked['plugin']}/session/{asked['sid']}")
        return asked["callback_url"]

    def allow_client_properties(self, *names):
        module = self.admin("GET", "/mod/client/database")
        for name in names:
            module["parameters"]["data-format"][name] = {"multiple": False, "read": True, "write": True}
        self.admin("PUT", "/mod/client/database", module)
        self.admin("PUT", "/mod/client/database/reset/")

    def consent_to_details(self, client, kind):
        """Consents to what is asked in detail (RFC 9396), once and for all."""
        self.person()("PUT", f"/api/oidc/rar/{client}/{kind}/1")

    def kill_refresh_tokens(self, client):
        """What an administrator over there does to end a grant."""
        with sqlite3.connect(self.folder / "glewlwyd.db", timeout=10) as database:
            changed = database.execute(
                "update gpo_refresh_token set gpor_enabled = 0 where gpor_client_id = ?", (client,)).rowcount
        assert changed > 0, "no refresh token of that client"

    def pause(self, paused):
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP if paused else signal.SIGCONT)

    def log(self):
        return (self.folder / "glewlwyd.log").read_text(errors="replace")

    def close(self):
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass


class Broker(CommandedDaemon):
    """grantd with sections of a provider that a person signs in at."""

    def call(self, method, **params):
        return self.json("call", method, json.dumps(params))

    def account(self, name):
        return next((a for a in self.json("list")["accounts"] if a["account"] == name), None)

    def refresh(self, name):
        """A new token, now."""
        before = self.account(name)["generation"]
        answer = self.ctl("refresh", name)
        assert answer.returncode == 0, answer.stderr
        after = self.account(name)["generation"]
        assert after > before, (before, after)

    def login(self, glewlwyd, provider, account, user="alice", options=(), consent=()):
        """The authorization request. As a person does it: grantctl prints the address, the browser calls back."""
        waiting = self.waiting("login", provider, account, "--no-browser", *options)
        try:
            line = waiting.stdout.readline()
            url = re.search(r"http://\S+", line)
            assert url, f"no address: {line!r} {waiting.stderr.read() if waiting.status is not None else ''}"
            request = redirected(url.group(0))
            page = glewlwyd.sign_in(request, user, *consent)
            assert page.returncode == 0, f"sign-in: {page.stdout}{page.stderr}"
            out, err = waiting.communicate(timeout=COMMAND_SECONDS)
            assert waiting.returncode == 0, f"grantctl login: {waiting.returncode} {out}{err}"
        finally:
            waiting.kill()
        return request

    def waiting(self, *arguments):
        """grantctl, while something else is done."""
        command = [self.products / "grantctl", "--socket", self.socket, *arguments]
        return Program(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def provider_section(name, issuer, client, secret_file=None, method=None, more=""):
    secret = f'client_secret_file = "{secret_file}"\ntoken_endpoint_auth_method = "{method}"\n' if secret_file else ""
    scopes = "" if "scopes = " in more else 'scopes = ["openid", "profile", "email", "offline_access"]\n'
    return (f'[provider.{name}]\nkind = "oidc"\nissuer = "{issuer}"\nclient_id = "{client}"\n{secret}'
            f'{scopes}prompt = "consent"\nallow_insecure_http = true\n{more}\n')


def secret_file(folder, name, secret):
    path = folder / f"{name}.secret"
    path.write_text(secret + "\n")
    path.chmod(0o600)
    return path


class Scene(Checks):
    """A server, a broker, and what is checked of them."""

    glewlwyd = broker = None

    def close(self):
        for part in (self.broker, self.glewlwyd):
            if part:
                part.close()
