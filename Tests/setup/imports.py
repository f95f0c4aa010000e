"""Accounts of other programs: of the real program if it is installed, else with files as its documentation has them."""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.parse

from cases import case, finish, same, shows
from grantd_testing import Wrong, environment, wait_until
from person import Skip, visit

PROGRAM_SECONDS = 90
# At which rclone listens for the end of a sign-in. It is one of the ports that the kernel chooses for connections.
RCLONE_PORT = 53682
# A connection that has ended keeps its port for a minute.
PORT_SECONDS = 100


def need(*names):
    if missing := [name for name in names if not shutil.which(name)]:
        raise Skip(f"not installed: {' '.join(missing)}")


def refresh_token(issuer, client="hand", secret="s3cret"):
    """Of a sign-in by another program."""
    parts = urllib.parse.urlsplit(issuer)
    query = {"response_type": "code", "client_id": client, "redirect_uri": "http://127.0.0.1:9/cb", "state": "0" * 32,
             "scope": "openid email offline_access", "prompt": "consent"}

    def ask(method, path, body=None, headers=()):
        connection = http.client.HTTPConnection(parts.netloc, timeout=PROGRAM_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer.headers, answer.read()

    headers, _ = ask("GET", "/authorize?" + urllib.parse.urlencode(query))
    code = urllib.parse.parse_qs(urllib.parse.urlsplit(headers["Location"]).query)["code"][0]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": query["redirect_uri"], "client_id": client,
            "client_secret": secret}
    _, body = ask("POST", "/token", urllib.parse.urlencode(form), [("Content-Type", "application/x-www-form-urlencoded")])
    return json.loads(body)["refresh_token"]


def started(person):
    """Its broker runs."""
    same(person.run("setup", "nothing").returncode, 7, "the exit status of an unknown name, with which the broker starts")


def imported(person, answer, account, *notes):
    if answer.returncode:
        raise Wrong(f"not imported: {answer.returncode}, {answer.stdout} {answer.stderr}")
    shows(answer.stdout, "Imported: ", *notes)
    person.token(account)


@contextlib.contextmanager
def held(port):
    """No connection gets the port from the kernel, while a program with SO_REUSEADDR can listen there."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def is_bound():
            with contextlib.suppress(OSError):
                holder.bind(("127.0.0.1", port))
                return True
            return False

        wait_until(is_bound, PORT_SECONDS, f"port {port} is free")
        yield


@case
def import_rclone(stage, person):
    """The real rclone signs in by its own web server."""
    need("rclone")
    with held(RCLONE_PORT):
        sign_in_by_rclone(stage, person)


def sign_in_by_rclone(stage, person):
    started(person)
    config = person.home / "rclone.conf"
    env = environment(person.home, RCLONE_CONFIG=str(config))
    command = ["rclone", "config", "create", "drive", "drive", "client_id=hand", "client_secret=s3cret", "scope=drive.readonly",
               f"auth_url={stage.closed.issuer}/authorize", f"token_url={stage.closed.issuer}/token", "config_is_local=true",
               "config_change_team_drive=false"]
    with open(person.home / "rclone.log", "wb") as log:
        rclone = subprocess.Popen(command, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        pattern = re.compile(r"http://127\.0\.0\.1:\d+/auth\?state=\S+(?=\s)")

        def shown():
            return (person.home / "rclone.log").read_text(errors="replace")

        wait_until(lambda: pattern.search(shown()) or rclone.poll() is not None, PROGRAM_SECONDS, "rclone's link")
        if not (link := pattern.search(shown())):
            raise Wrong(f"rclone ends without a link: {shown()}")
        visit(link[0])
        same(rclone.wait(PROGRAM_SECONDS), 0, "the exit status of rclone")
    finally:
        rclone.kill()
        rclone.wait()
    answer = person.run("import", "--from", "rclone", RCLONE_CONFIG=str(config))
    imported(person, answer, "drive", "Stop mounts and jobs of the remote drive")
    secret = person.home / ".config" / "grantd" / "drive.secret"
    same(secret.stat().st_mode & 0o777, 0o600, "the mode of the secret's file")
    if "s3cret" in answer.stdout + answer.stderr:
        raise Wrong("the secret is shown")


@case
def import_oidc_agent(stage, person):
    """The real oidc-agent signs in; its account file is printed by oidc-gen."""
    need("oidc-agent", "oidc-gen")
    started(person)
    env = environment(person.home)
    shown = subprocess.run(["oidc-agent"], env=env, capture_output=True, text=True, timeout=PROGRAM_SECONDS).stdout
    agent = dict(re.findall(r"(OIDC\w+)=([^;]+);", shown))
    env |= agent
    password = person.home / "password"
    password.write_text("pw\n")
    # The agent takes a port of localhost.
    command = ["oidc-gen", "work", "--manual", f"--issuer={stage.closed.issuer}", "--client-id=hand",
               "--client-secret=s3cret", "--scope=openid profile email offline_access",
               f"--redirect-uri=http://localhost:{stage.agent_port}", f"--pw-file={password}", "--no-url-call",
               "--confirm-default", "--flow=code"]
    try:
        with open(person.home / "gen.log", "wb") as log:
            gen = subprocess.Popen(command, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        pattern = re.compile(re.escape(stage.closed.issuer) + r"/authorize\?\S+(?=\s)")

        def shown_log():
            return (person.home / "gen.log").read_text(errors="replace")

        wait_until(lambda: pattern.search(shown_log()) or gen.poll() is not None, PROGRAM_SECONDS, "the link of oidc-gen")
        if not (link := pattern.search(shown_log())):
            raise Wrong(f"oidc-gen ends without a link: {shown_log()}")
        link = link[0]
        visit(link)
        same(gen.wait(PROGRAM_SECONDS), 0, "the exit status of oidc-gen")
        printed = subprocess.run(["oidc-gen", "--print", "work", f"--pw-file={password}"], env=env, capture_output=True,
                                 text=True, timeout=PROGRAM_SECONDS).stdout
    finally:
        with contextlib.suppress(ProcessLookupError, KeyError):
            os.kill(int(agent["OIDCD_PID"]), signal.SIGTERM)
    answer = person.run("import", "--from", "oidc-agent")
    same(answer.returncode, 64, "the exit status without an export")
    shows(answer.stderr, "oidc-gen --print work | grantctl import --from oidc-agent --file -")
    answer = person.run("import", "--from", "oidc-agent", "--file", "-", text=printed)
    imported(person, answer, "work", "(alice@demo.example)", "oidc-add --remove work")


@case
def import_rclone_refuses(stage, person):
    """rclone's own client, and an encrypted configuration."""
    started(person)
    config = person.home / "rclone.conf"
    config.write_text('[a]\ntype = drive\ntoken = {"refresh_token":"r"}\n\n[b]\ntype = drive\nclient_id = x\n'
                      'token = {"refresh_token":"r"}\n')
    answer = person.run("import", "--from", "rclone", "--file", config)
    same(answer.returncode, 64, "the exit status of several accounts")
    shows(answer.stderr, "a, b", "--entry NAME")
    answer = person.run("import", "--from", "rclone", "--file", config, "--entry", "a")
    same(answer.returncode, 1, "the exit status for rclone's own client")
    shows(answer.stderr, "uses rclone's own client")
    config.write_text("# Encrypted rclone configuration File\n\nRCLONE_ENCRYPT_V0:\nAAAA\n")
    shows(person.run("import", "--from", "rclone", "--file", config).stderr, "is encrypted", "rclone config dump |")


@case
def import_mutt_oauth2(stage, person):
    started(person)
    made = person.run("provider", "register", stage.closed.issuer, "--name", "mail", "--client-id", "hand",
                      "--client-secret-file", "-", text="s3cret")
    same(made.returncode, 0, "the exit status of the registration")
    token = {"registration": "google", "authflow": "authcode", "email": "ada@example.com", "access_token": "a",
             "access_token_expiration": "2026-01-01T00:00:00", "refresh_token": refresh_token(stage.closed.issuer)}
    answer = person.run("import", "--from", "mutt_oauth2", "--file", "-", "--provider", "mail", "--scope",
                        "openid email offline_access", text=json.dumps(token))
    imported(person, answer, "ada@example.com", "Replace the commands that call mutt_oauth2.py")
    shows(person.run("import", "--from", "mutt_oauth2").stderr, "gpg --decrypt TOKENFILE |")


@case
def import_without_refresh_token(stage, person):
    """pizauth and email-oauth2-proxy show only their clients: the provider is added, and one sign-in is left."""
    started(person)
    folder = person.home / ".config"
    folder.mkdir(exist_ok=True)
    urls = (f"{stage.closed.issuer}/authorize", f"{stage.closed.issuer}/token")
    (folder / "pizauth.conf").write_text(f'''
        auth_notify_cmd = "notify-send \\"$PIZAUTH_ACCOUNT\\"";
        account "officesmtp" {{
            // a comment
            auth_uri = "{urls[0]}";
            token_uri = "{urls[1]}";
            client_id = "hand";
            client_secret = "s3cret";
            scopes = ["openid", "email", "offline_access"];
            auth_uri_fields = {{ "login_hint": "ada@example.com" }};
        }}''')
    answer = person.run("import", "--from", "pizauth", "work")
    same(answer.returncode, 0, f"the exit status: {answer.stderr}")
    shows(answer.stdout, "Sign in once: grantctl login officesmtp work", "pizauth shutdown")
    shows((folder / "grantd" / "grantd.d" / "officesmtp.toml").read_text(), 'scopes = ["openid", "email", "offline_access"]')
    proxy = person.home / "emailproxy.config"
    proxy.write_text(f"[Server setup]\n[IMAP-1993]\nserver_address = imap.example.com\n\n[Account setup]\n"
                     f"[ada@example.com]\npermission_url = {urls[0]}\ntoken_url = {urls[1]}\noauth2_scope = openid email\n"
                     f"redirect_uri = http://localhost\nclient_id = hand\nclient_secret = s3cret\n")
    answer = person.run("import", "--from", "email-oauth2-proxy")
    same(answer.returncode, 0, f"the exit status: {answer.stderr}")
    # The provider of the same client is used again.
    shows(answer.stdout, "Sign in once: grantctl login officesmtp ada@example.com", "Stop the proxy")


@case
def import_cloud_commands(stage, person):
    started(person)
    shutil.copytree(stage.templates, person.home / ".config" / "grantd" / "providers.d")
    folder = person.home / ".config" / "gcloud"
    folder.mkdir()
    key = {"type": "authorized_user", "client_id": "1.apps.googleusercontent.com", "client_secret": "s3cret",
           "refresh_token": refresh_token(stage.closed.issuer), "account": ""}
    (folder / "application_default_credentials.json").write_text(json.dumps(key))
    made = person.run("provider", "register", stage.closed.issuer, "--name", "g", "--client-id", "hand",
                      "--client-secret-file", "-", text="s3cret")
    same(made.returncode, 0, "the exit status of the registration")
    answer = person.run("import", "--from", "gcloud", "cloud", "--provider", "g", "--scope", "openid email offline_access")
    imported(person, answer, "cloud", "Do not run `gcloud auth revoke`")
    gh = person.home / ".config" / "gh"
    gh.mkdir()
    (gh / "hosts.yml").write_text("github.com:\n    user: ada\n    oauth_token: gho_secret\n    git_protocol: https\n")
    answer = person.run("import", "--from", "gh")
    same(answer.returncode, 1, "the exit status for gh")
    shows(answer.stderr, "github.com cannot be imported", "grantctl setup github")
    if "gho_secret" in answer.stdout + answer.stderr:
        raise Wrong("the token is shown")


@case
def setup_offers_import(stage, person):
    config = person.home / ".config" / "rclone"
    config.mkdir(parents=True)
    (config / "rclone.conf").write_text("")
    shown = person.setup(columns=40)
    shown.answer("Template or issuer URL", "")
    shown.answer("There was no answer[^$]*Template or issuer URL", "foo bar")
    shown.answer("“foo bar” is not a provider[^$]*Template or issuer URL", stage.demo.issuer)
    finish(shown)
    shows(shown, "Accounts of rclone can be imported: `grantctl import --from rclone`", "Templates: google, ")
