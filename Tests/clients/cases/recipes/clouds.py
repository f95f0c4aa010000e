"""kubectl, and the clouds' command lines and libraries."""

import urllib.parse

from cases.aws import SecurityTokenService
from cases.files import configured, gone, own, there
from cases.kubernetes import Cluster
from cases.languages import TokenService
from recipes import ACCOUNT, recipe
from rig import PYPI, ROBOT, Handler, Skip, has, must


@recipe("kubectl", "kubectl")
def kubectl(stage, page):
    server = stage.serve(Cluster)
    stage.file(".kube/config", "apiVersion: v1\nkind: Config\nclusters:\n- name: company\n  cluster:\n"
               f"    server: {server.url}\n")
    has(page.run().ok().out, "pod-1")
    page.is_written("~/.kube/config")
    must(set(server.seen) == {stage.token()}, f"the cluster saw {server.seen}")
    page.ended()


@recipe("aws", "aws", "curl")
def aws(stage, page):
    server = stage.serve(SecurityTokenService)
    page.answer({"sts.amazonaws.com": server, "sts.eu-west-1.amazonaws.com": server})
    page.more |= {"AWS_CA_BUNDLE": str(stage.ca), "CURL_CA_BUNDLE": str(stage.ca), "AWS_EC2_METADATA_DISABLED": "true",
                  "AWS_MAX_ATTEMPTS": "1"}
    # The account whose tokens are JWTs.
    page.names[ACCOUNT] = ROBOT
    has(page.run().ok().out, "123456789012")
    page.is_written("~/.aws/config")
    must(server.seen[0] == ("AssumeRoleWithWebIdentity", stage.token(ROBOT)), f"STS saw {server.seen}")
    del page.names[ACCOUNT]
    page.run(0).ok()
    page.ended()


class Buckets(Handler):
    def do_GET(self):
        self.server.seen.append(self.bearer())
        self.json({"items": [{"name": "photos"}]}, 200 if self.bearer() == "google-token" else 401)


def needs(stage, page, *modules):
    """With the Python of the path, or the one that has what `scripts/deps --tests` installs."""
    lacks = f"python3 -c 'import {', '.join(modules)}'"
    if page.shell(lacks).status and PYPI.is_dir():
        page.path.insert(0, PYPI)
    if page.shell(lacks).status:
        raise Skip(f"Python has no {' or '.join(modules)}")


@recipe("google")
def google(stage, page):
    needs(stage, page, "google.auth", "requests")
    exchange = stage.serve(TokenService)
    page.answer({"sts.googleapis.com": exchange, "storage.googleapis.com": stage.serve(Buckets)})
    page.more["REQUESTS_CA_BUNDLE"] = str(stage.ca)
    page.replace({"/usr/bin/grantctl": stage.bin / "grantctl"})
    page.names[ACCOUNT] = ROBOT
    page.write("~/.config/google.json", "~/buckets.py")
    has(page.run().ok().out, "['photos']")
    must(exchange.seen == [stage.token(ROBOT)], f"the STS saw {exchange.seen}")
    del page.names[ACCOUNT]
    page.write("~/.config/google.json")
    page.ended(GOOGLE_APPLICATION_CREDENTIALS=str(stage.home / ".config/google.json"),
               GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES="1", GOOGLE_CLOUD_PROJECT="example")


class Projects(Handler):
    def do_GET(self):
        token = self.bearer()
        self.server.seen.append(token)
        self.json({"projectId": "example", "name": "The example"}, 200 if self.stage.is_alive(token) else 401)


@recipe("gcloud", "gcloud")
def gcloud(stage, page):
    server = stage.serve(Projects)
    page.answer({"cloudresourcemanager.googleapis.com": server})
    page.more |= {"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE": str(stage.ca), "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true"}
    page.checks()
    has(page.run().ok().out, "The example")
    must(set(server.seen) == {stage.token()}, f"Google saw {server.seen}")
    page.ended()
    must(page.status == 3, f"status {page.status}")


class Entra(Handler):
    """As much of Entra as a client asks for that brings an assertion (RFC 7523)."""

    def do_GET(self):
        base = "https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555"
        self.json({"issuer": f"{base}/v2.0", "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                   "token_endpoint": f"{base}/oauth2/v2.0/token", "tenant_discovery_endpoint":
                   f"{base}/v2.0/.well-known/openid-configuration", "metadata": []})

    def do_POST(self):
        form = dict(urllib.parse.parse_qsl(self.body().decode()))
        self.server.seen.append(form.get("client_assertion"))
        if not self.stage.is_alive(form.get("client_assertion")):
            return self.json({"error": "invalid_client"}, 401)
        self.json({"access_token": "azure-token", "token_type": "Bearer", "expires_in": 3600})


@recipe("azure")
def azure(stage, page):
    needs(stage, page, "azure.identity")
    server, path = stage.serve(Entra), own(stage, "azure/token")
    page.answer({"login.microsoftonline.com": server})
    page.more["REQUESTS_CA_BUNDLE"] = str(stage.ca)
    page.replace({"$XDG_RUNTIME_DIR/grantd": path.parents[2]})
    page.write("~/entra.py")
    with configured(stage, *page.contents("~/.config/grantd/grantd.toml")):
        there(path)
        has(page.run().ok().out, "a token until")
        must(server.seen == [stage.token()], f"Entra saw {server.seen}")
        page.ended()
        stage.daemon.ctl("logout", ACCOUNT)
        gone(path)
        has(page.run().fails().text, "No such file or directory")
        stage.sign_in()
