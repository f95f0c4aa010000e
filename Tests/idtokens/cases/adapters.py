"""ID tokens in each protocol of grantctl and the daemon."""

import json
import subprocess
import time

from grantd_testing import wait_until
from issuer import CLIENT, TOKEN_TYPE, verified
from scene import case, has, must, same

WAIT_SECONDS = 60
# Less than the time between two looks of the keeper, if no ID token ends.
KEPT_SECONDS = 20
# Prints the first two ID tokens of the file, or twice the first after so many seconds.
WATCH = """
import os, sys, time
file, end = os.environ["F"], time.monotonic() + float(sys.argv[1])
one = other = open(file).read()
while other == one and time.monotonic() < end:
    time.sleep(0.1)
    other = open(file).read()
print(one, other)
"""


@case("adapter.token")
def token(scene):
    provider = scene.provider()
    scene.start("work")
    text = scene.run("grantctl", "token", "work", "--id-token")
    verified(text.strip(), provider.issuer)
    same(scene.run("grantctl", "token", "work", "--id-token", "--as-header"), f"Authorization: Bearer {text}", "the header")
    has(scene.broker.refused("token", "work", "--id-token", "--scope", "email"), "--id-token")
    has(scene.broker.refused("token", "work", "--id-token", "--min-ttl", "2h"), "min_ttl")


@case("adapter.exec")
def execute(scene):
    provider = scene.provider()
    provider.id_ttl = 6
    scene.start("work")
    program = ("sh", "-c", 'printf %s "$ID_TOKEN$ACCESS_TOKEN"')
    verified(scene.run("grantctl", "exec", "work", "--id-token", "--", *program), provider.issuer)
    # Kept fresh for a program that runs longer than the ID token lives.
    before, after = scene.run("grantctl", "exec", "work", "--id-token", "--file-env", "F", "--", "python3", "-c",
                              WATCH, KEPT_SECONDS).split()
    must(before != after, "the file was not replaced")
    verified(after, provider.issuer)


@case("adapter.helpers")
def helpers(scene):
    """kubectl's ExecCredential with the end of the ID token, and Google's executable; others refuse the option."""
    provider = scene.provider()
    scene.start("work")
    credential = json.loads(scene.run("grantctl", "helper", "kubectl", "--account", "work", "--id-token"))
    claims = verified(credential["status"]["token"], provider.issuer)
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(claims["exp"]))
    same(credential["status"]["expirationTimestamp"], end, "expirationTimestamp")
    kind = TOKEN_TYPE + "id_token"
    answer = json.loads(scene.run("grantctl", "helper", "gcp", "--id-token", "--account", "work",
                                  GOOGLE_EXTERNAL_ACCOUNT_TOKEN_TYPE=kind))
    same((answer["success"], answer["token_type"], answer["expiration_time"]), (True, kind, claims["exp"]), "the answer")
    verified(answer["id_token"], provider.issuer)
    has(scene.broker.refused("helper", "docker", "--account", "work", "--id-token", "get"), "--id-token")
    # Without the option it is the access token, which is no JWT here: the error names the option.
    has(json.loads(scene.run("grantctl", "helper", "gcp", "--account", "work"))["message"], "--id-token")


@case("adapter.file")
def file(scene):
    """`[[file]] format = "id_token"` is replaced before the ID token ends, and removed if there is none."""
    provider = scene.provider()
    provider.id_ttl = 8
    path = scene.home / "federated"
    scene.start("work", sections=f'[[file]]\naccount = "work"\npath = "{path}"\nformat = "id_token"\nmin_ttl = "2s"\n')
    wait_until(path.exists, WAIT_SECONDS, "the file")
    first = path.read_text()
    verified(first, provider.issuer)
    wait_until(lambda: path.read_text() != first, WAIT_SECONDS, "another ID token")
    verified(path.read_text(), provider.issuer)
    records = scene.broker.call("audit.list", account="work", action="id_token")["records"]
    must(any(one["method"] == "file" for one in records), f"the records: {records}")
    provider.at_refresh = "none"
    wait_until(lambda: not path.exists(), WAIT_SECONDS, "the file is removed")
    files = scene.broker.call("broker.status")["files"]
    same(files[0]["reason"], "unsupported_by_provider", "the reason in the status")


@case("adapter.configuration")
def configuration(scene):
    """What does not fit together is an error of the configuration."""
    scene.provider()
    head = scene.broker.config.read_text()
    wrong = {
        '[[file]]\naccount = "a"\npath = "/x/y"\nformat = "id_token"\nscopes = ["a"]\n': "access tokens",
        '[[credential]]\nid = "c"\naccount = "a"\ntoken = "id_token"\nresource = "https://a.example/"\n': "access tokens",
        '[[cloud]]\nkind = "gcp"\naccount = "a"\ntoken = "id_token"\n': 'kind = \\"aws\\"',
        '[[rule]]\nuid = 1\naccounts = ["a"]\naccess = ["id-token"]\n': "id_token",
        '[provider.q]\nkind = "oidc"\nissuer = "https://a.example"\nclient_id = "c"\naudience = "x"\n': "audience_parameter",
        '[account.r]\nprovider = "p"\ngrant = "client_credentials"\naudience = "x"\n': "audience_parameter",
    }
    for text, word in wrong.items():
        scene.broker.config.write_text(head + text)
        words = [scene.broker.products / "grantd", "--user", "--check-config", "--config", scene.broker.config]
        checked = subprocess.run(words, capture_output=True, text=True)
        must(checked.returncode != 0, f"it is accepted: {text}")
        has(checked.stdout + checked.stderr, word.replace("\\", ""))


@case("adapter.http")
def http(scene):
    """The HTTP token endpoint as an STS (RFC 8693): an ID token for a handle."""
    provider = scene.provider()
    scene.start("work", sections='[[handle]]\nname = "robot"\naccount = "work"\n')
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": "robot",
            "subject_token_type": TOKEN_TYPE + "refresh_token", "requested_token_type": TOKEN_TYPE + "id_token"}
    for handle in ("robot", "work"):
        status, headers, body = scene.broker.http("POST", "/token", form | {"subject_token": handle})
        same(status, 200, f"the status ({body})")
        answer = json.loads(body)
        same((answer["issued_token_type"], answer["token_type"]), (TOKEN_TYPE + "id_token", "N_A"), "the types")
        verified(answer["access_token"], provider.issuer)
        same(headers["Cache-Control"], "no-store", "Cache-Control")
    status, _, body = scene.broker.http("POST", "/token", form | {"requested_token_type": TOKEN_TYPE + "access_token"})
    answer = json.loads(body)
    same((status, answer["token_type"], answer["issued_token_type"]), (200, "Bearer", TOKEN_TYPE + "access_token"), body)
    for change, word in (({"subject_token": ""}, "subject_token"), ({"subject_token_type": TOKEN_TYPE + "saml2"}, "refresh"),
                         ({"requested_token_type": TOKEN_TYPE + "saml2"}, "id_token"), ({"scope": "email"}, "scope"),
                         ({"actor_token": "x"}, "actor_token")):
        status, _, body = scene.broker.http("POST", "/token", form | change)
        same((status, json.loads(body)["error"]), (400, "invalid_request"), f"{change}: {body}")
        has(body, word)


@case("adapter.gce")
def gce(scene):
    """The metadata server of Google's virtual machines: `identity?audience=`."""
    provider = scene.provider()
    scene.start("work", sections='[[cloud]]\nkind = "gcp"\naccount = "work"\n')
    path, google = "/computeMetadata/v1/instance/service-accounts/default/identity", {"Metadata-Flavor": "Google"}
    status, headers, body = scene.broker.http("GET", f"{path}?audience={CLIENT}", headers=google)
    same((status, headers["Metadata-Flavor"]), (200, "Google"), f"the answer {body}")
    verified(body, provider.issuer)
    same(scene.broker.http("GET", path, headers=google)[0], 400, "the status without an audience")
    status, _, body = scene.broker.http("GET", f"{path}?audience=https://run.example.com", headers=google)
    same(status, 403, "the status for another audience")
    has(body, "https://run.example.com")
    same(scene.broker.http("GET", f"{path}?audience={CLIENT}")[0], 403, "the status without the header")


@case("adapter.configure")
def configure(scene):
    scene.provider()
    scene.start()
    has(scene.broker.must("configure", "kubectl", "work", "--id-token"), "--id-token")
    role = "arn:aws:iam::123456789012:role/reader"
    has(scene.broker.must("configure", "aws", "work", "--role", role, "--id-token"), "helper aws")
    has(scene.broker.refused("configure", "gcp", "work"), "//iam.googleapis.com/")
    pool = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/x"
    shown = scene.broker.run("configure", "gcp", "work", pool, "--id-token")
    has(shown.stdout + shown.stderr, "token-type:id_token")
    shown = scene.broker.run("configure", "vault", "work", "--role", "reader", "--id-token")
    has(shown.stdout + shown.stderr, "auth/jwt/login role=reader")
    has(scene.broker.refused("configure", "git", "work", "git.example.com", "--id-token"), "takes no ID token")
