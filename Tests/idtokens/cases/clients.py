"""docs/recipes/id-tokens.md with the real clients, against servers that verify the ID token (relying.py)."""

import base64
import os
import shutil
import subprocess

from grantd_testing import wait_until
from issuer import CLIENT, SUBJECT
from pages import FOLDER, blocks, is_shown, sessions
from relying import AmazonSTS, Cluster, Entra, GoogleSTS, Server, Vault
from scene import Skip, case, has, must, same

WAIT_SECONDS = 60
PAGE = FOLDER / "id-tokens.md"
TENANT, APPLICATION = "11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000"


def need(program):
    path = shutil.which(program, path=os.environ["PATH"] + ":/usr/local/bin")
    if not path:
        raise Skip(f"{program} is not installed")
    return path


def block(section, language, path=None):
    """The text of the one block of that section."""
    found = [one for one in blocks(PAGE) if (one.section, one.language, one.path) == (section, language, path)]
    must(len(found) == 1, f"{section}: {len(found)} blocks")
    return found[0]


def begin(scene, handler, tls=False, audience=CLIENT, sections=""):
    """The account and the server. The same server refuses tokens for another audience, which is checked first."""
    provider = scene.provider()
    scene.start("work", sections=sections)
    scene.certificate()
    server = scene.closed(Server(handler, provider.issuer, audience, (scene.chain, scene.key) if tls else None))
    for wrong in (scene.broker.must("token", "work").strip(), "a.b.c"):
        must(server.user(wrong) is None, "the server takes anything")
    server.refusals.clear()
    return provider, server


@case("client.kubectl")
def kubectl(scene):
    need("kubectl")
    provider, server = begin(scene, Cluster, tls=True)
    authority = base64.b64encode(scene.ca.read_bytes()).decode()
    scene.file(".kube/config", "apiVersion: v1\nkind: Config\nclusters:\n- name: company\n  cluster:\n"
               f"    server: {server.url}\n    certificate-authority-data: {authority}\n")
    has(scene.run("sh", "-ec", block("kubectl", "sh").text), "pod-1")
    same((set(server.users), server.refusals), ({SUBJECT}, []), "users and refusals")
    # client-go caches by the end of the token: a second run with an expired one asks for another.
    provider.id_ttl = 2
    scene.broker.must("refresh", "work")
    for _ in range(3):
        has(scene.run("kubectl", "--context", "company", "get", "pods"), "pod-1")
    same(server.refusals, [], "the refusals")
    # A cluster for another audience refuses it.
    server.audience = "another-cluster"
    done = subprocess.run(["kubectl", "--context", "company", "get", "pods"], env=scene.environment(), capture_output=True,
                          text=True)
    must(done.returncode != 0 and "InvalidAudience" in server.refusals[-1], f"{done}")
    # The end of the grant.
    server.audience = CLIENT
    scene.issuer.providers["p"].refresh_tokens.clear()
    scene.broker.run("refresh", "work")
    # The second refusal ends the grant.
    scene.broker.run("refresh", "work", "--now")
    shown = sessions(block("When the grant has ended", "console"))
    for command, lines in shown:
        wait_until(lambda: scene.broker.run("token", "work", "--id-token").returncode == 3, WAIT_SECONDS, "the end")
        done = subprocess.run(["sh", "-c", command], env=scene.environment(), capture_output=True, text=True)
        must(is_shown(done.stdout + done.stderr, lines), f"{command} shows {done.stdout}{done.stderr}")


@case("client.aws")
def aws(scene):
    need("aws")
    _, server = begin(scene, AmazonSTS)
    folder = os.path.dirname(need("aws"))
    shown = scene.run("sh", "-ec", block("AWS", "sh").text, AWS_ENDPOINT_URL_STS=server.url + "/", AWS_DEFAULT_REGION="eu-west-1",
                      AWS_EC2_METADATA_DISABLED="true", PATH=f"{scene.bin}:{folder}:{os.environ['PATH']}",
                      **{name: os.environ[name] for name in ("PYENV_VERSION", "PYENV_ROOT") if name in os.environ})
    has(shown, "123456789012")
    same((server.users, server.refusals), ([SUBJECT], []), "users and refusals")


BOTO = """
import boto3
print(boto3.client("sts", region_name="eu-west-1").get_caller_identity()["Account"])
"""


@case("client.botocore")
def botocore(scene):
    """`[[cloud]] kind = "aws"` with the ID token, and the file of AWS_WEB_IDENTITY_TOKEN_FILE."""
    scene.certificate()
    provider = scene.provider()
    server = scene.closed(Server(AmazonSTS, provider.issuer, CLIENT))
    path = scene.home / "token"
    scene.start("work", sections=(
        f'[[cloud]]\nkind = "aws"\naccount = "work"\ntoken = "id_token"\n'
        f'role_arn = "arn:aws:iam::123456789012:role/reader"\nsts_endpoint = "{server.url}/"\n'
        f'[[file]]\naccount = "work"\npath = "{path}"\nformat = "id_token"\n'))
    common = {"AWS_ENDPOINT_URL_STS": server.url, "AWS_EC2_METADATA_DISABLED": "true"}
    has(scene.python(BOTO, "boto3", AWS_CONTAINER_CREDENTIALS_FULL_URI=f"http://127.0.0.1:{scene.broker.address}/aws/aws",
                     **common), "123456789012")
    same((server.users, server.refusals), ([SUBJECT], []), "users and refusals")
    wait_until(path.exists, WAIT_SECONDS, "the file")


GOOGLE = """
import google.auth.pluggable, google.auth.transport.requests
credentials = google.auth.pluggable.Credentials.from_file(FILE, scopes=["x"])
credentials.refresh(google.auth.transport.requests.Request())
print(credentials.token)
"""


@case("client.google")
def google(scene):
    _, server = begin(scene, GoogleSTS)
    text = block("Google Cloud", "json", "~/.config/google-id-token.json").text
    must("grantctl helper gcp" in text, text)
    text = text.replace("https://sts.googleapis.com", server.url).replace("grantctl", str(scene.bin / "grantctl"), 1)
    path = scene.file("google.json", text)
    has(scene.python(f"FILE = {str(path)!r}{GOOGLE}", "google.auth", "requests",
                     GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES="1"), "google-token")
    same((server.users, server.refusals), ([SUBJECT], []), "users and refusals")


METADATA = """
import google.auth.transport.requests, google.auth.compute_engine
request = google.auth.transport.requests.Request()
credentials = google.auth.compute_engine.IDTokenCredentials(request, "client", use_metadata_identity_endpoint=True)
credentials.refresh(request)
print(credentials.token, credentials.expiry is not None)
"""


@case("client.metadata")
def metadata(scene):
    """google-auth gets an ID token of the metadata server's `identity`."""
    provider = scene.provider()
    scene.start("work", sections='[[cloud]]\nkind = "gcp"\naccount = "work"\n')
    place = f"127.0.0.1:{scene.broker.address}"
    shown = scene.python(METADATA, "google.auth", "requests", GCE_METADATA_HOST=place, GCE_METADATA_IP=place)
    token, known = shown.split()
    same(known, "True", "whether the end is known")
    server = scene.closed(Server(Cluster, provider.issuer, CLIENT))
    same(server.user(token), SUBJECT, "the user")


@case("client.vault")
def vault(scene):
    need("curl")
    _, server = begin(scene, Vault)
    shown = scene.run("sh", "-ec", block("Vault", "sh").text, VAULT_ADDR=server.url)
    has(shown, "hvs.test")
    same((server.users, server.refusals), ([SUBJECT], []), "users and refusals")


AZURE = """
import os
from azure.identity import WorkloadIdentityCredential
credential = WorkloadIdentityCredential(disable_instance_discovery=True)
print(credential.get_token("https://management.azure.com/.default").token)
"""


@case("client.azure")
def azure(scene):
    # Beside the socket.
    path = scene.folder / "files" / "azure" / "id-token"
    _, server = begin(scene, Entra, tls=True, sections=block("Azure", "toml", "~/.config/grantd/grantd.toml").text)
    wait_until(path.exists, WAIT_SECONDS, "the file")
    shown = scene.python(
        AZURE, "azure.identity", AZURE_TENANT_ID=TENANT, AZURE_CLIENT_ID=APPLICATION, AZURE_FEDERATED_TOKEN_FILE=str(path),
        AZURE_AUTHORITY_HOST=server.url, REQUESTS_CA_BUNDLE=str(scene.ca))
    has(shown, "azure-token")
    same((server.users, server.refusals), ([SUBJECT], []), "users and refusals")


@case("client.page")
def page(scene):
    """Each block of the page is one that a case uses."""
    used = {("kubectl", "sh", None), ("AWS", "sh", None), ("Google Cloud", "json", "~/.config/google-id-token.json"),
            ("Vault", "sh", None), ("Azure", "toml", "~/.config/grantd/grantd.toml"),
            ("When the grant has ended", "console", None)}
    same({(one.section, one.language, one.path) for one in blocks(PAGE)}, used, "the blocks of the page")
