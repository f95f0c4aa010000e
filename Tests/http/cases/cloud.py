"""The clouds' façades, as bytes and with the clouds' own libraries."""

import concurrent.futures
import datetime
import json
import subprocess
import time

from cases.token import SHORT_SECONDS, WAIT_SECONDS
from grantd_testing import wait_until
from rig import case, find, has, hasnt, must
from scene import restart
from sts import ROLE, SECRET_KEY, SESSION_TOKEN

PROCESSES = 50
FLAVOR = [("Metadata-Flavor", "Google")]
METADATA = "/computeMetadata/v1"
ACCOUNTS = f"{METADATA}/instance/service-accounts"
MANAGEMENT = "https://management.azure.com/"
AZURE = "/azure/prod?api-version=2019-08-01&resource=https%3A%2F%2Fmanagement.azure.com%2F"
IMDS = "/metadata/identity/oauth2/token?api-version=2018-02-01&resource="
IDENTITY = [("X-IDENTITY-HEADER", "x"), ("Metadata", "true")]


# ---- AWS

def aws(scene, name="prod", fields=()):
    return scene.ask("GET", f"/aws/{name}", fields=[("Accept", "application/json"), *fields])


def assumed(scene):
    return [form for form, _ in scene.sts.asked if form["Action"] == "AssumeRoleWithWebIdentity"]


def forget(scene):
    """The credentials that the broker keeps are in its memory."""
    restart(scene.broker)
    scene.sts.asked.clear()


@case("cloud.aws")
def aws_credentials(scene):
    forget(scene)
    answer = aws(scene)
    must(answer.status == 200 and answer.get("content-type", "").startswith("application/json"), f"{answer}")
    value = json.loads(answer.body)
    must((value["AccessKeyId"], value["SecretAccessKey"], value["Token"]) == ("ASIATEST", SECRET_KEY, SESSION_TOKEN),
         f"{value}")
    end = datetime.datetime.strptime(value["Expiration"],
                                     "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc).timestamp()
    must(abs(end - time.time() - 3600) < 30, f"Expiration {value['Expiration']}")
    must(value.get("AccountId", "123456789012") == "123456789012", f"{value}")
    (form,) = assumed(scene)
    must(form["RoleArn"] == ROLE and form["RoleSessionName"] == "grantd-test" and form["DurationSeconds"] == "3600"
         and form["Version"] == "2011-06-15" and form["WebIdentityToken"] in scene.provider.of("jwt"), f"{form}")
    must(not any("authorization" in {name.lower() for name in fields} for _, fields in scene.sts.asked),
         "it was signed")
    for _ in range(5):
        must(json.loads(aws(scene, fields=[("Authorization", "anything")]).body) == value, "other credentials")
    must(len(assumed(scene)) == 1, "they were not kept")
    for method, path, status in (("POST", "/aws/prod", 405), ("GET", "/aws/unheard-of", 404), ("GET", "/aws/", 404),
                                 ("GET", "/aws/prod/x", 404)):
        answer = scene.ask(method, path, "" if method == "POST" else None)
        must(answer.status == status, f"{method} {path}: {answer.status}")


@case("cloud.aws_lifetime")
def aws_lifetime(scene):
    """What ends in less than sixteen minutes is not kept: the SDKs would ask again and again for the same."""
    scene.sts.lifetime = 15 * 60
    try:
        forget(scene)
        for count in (1, 2):
            must(aws(scene).status == 200 and len(assumed(scene)) == count,
                 f"{len(assumed(scene))} exchanges, not {count}")
        scene.sts.lifetime = 16 * 60 + 1
        aws(scene)
        time.sleep(2)
        aws(scene)
        must(len(assumed(scene)) == 4, f"{len(assumed(scene))} exchanges, not 4")
        # A minute, in which a busy machine has the next answer.
        forget(scene)
        scene.sts.lifetime = 17 * 60
        aws(scene)
        aws(scene)
        must(len(assumed(scene)) == 1, f"{len(assumed(scene))} exchanges, not 1")
    finally:
        scene.sts.lifetime = None


@case("cloud.aws_processes", "curl")
def aws_processes(scene):
    forget(scene)
    words = [find("curl"), "-q", "-sS", "-f", "-H", "Accept: application/json", f"{scene.broker.url}/aws/prod"]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, env=scene.environment()) for _ in range(PROCESSES)]
    found = [process.communicate(timeout=120)[0] for process in running]
    must(all(json.loads(one)["AccessKeyId"] == "ASIATEST" for one in found), f"{found[:2]}")
    must(len(assumed(scene)) == 1, f"{len(assumed(scene))} exchanges")


@case("cloud.aws_refused")
def aws_refused(scene):
    """AWS refuses the token, the token is no JWT, STS is away: the words reach the person by boto's log."""
    forget(scene)
    answer = aws(scene, "opaque")
    must(answer.status >= 400, f"{answer}")
    has(answer.body.decode(), "JWT")
    for fault in ("AccessDenied", "InvalidIdentityToken"):
        scene.sts.fault = fault
        try:
            answer = aws(scene)
            must(400 <= answer.status < 600 and answer.status != 401, f"{answer}")
            has(answer.body.decode(), fault)
            # As ECS has it: {"code", "message"}.
            must(json.loads(answer.body).get("message") or json.loads(answer.body).get("Message"), f"{answer.body}")
            hasnt(answer.body.decode(), "eyJ")
        finally:
            scene.sts.fault = None
    must(aws(scene).status == 200, "it does not recover")
    must(json.loads(aws(scene).body)["AccessKeyId"] == "ASIATEST", "after the errors")


BOTO = """
import boto3
print(boto3.client("sts").get_caller_identity()["Account"])
frozen = boto3.Session().get_credentials()
print(frozen.method, frozen.get_frozen_credentials().token)
"""


def aws_environment(scene, name="prod"):
    return {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{scene.broker.url}/aws/{name}", "AWS_DEFAULT_REGION": "eu-west-1",
            "AWS_ENDPOINT_URL_STS": scene.sts.url, "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1"}


@case("cloud.boto3")
def boto3(scene):
    done = scene.run(scene.python("boto3"), "-c", BOTO, **aws_environment(scene)).ok()
    must(done.out.split() == ["123456789012", "container-role", SESSION_TOKEN], done.out)
    done = scene.run(scene.python("boto3"), "-c", BOTO, **aws_environment(scene, "unheard-of")).fails()
    has(done.err, "404")


@case("cloud.aws_command", "aws")
def aws_command(scene):
    done = scene.run(find("aws"), "sts", "get-caller-identity", "--output", "text", "--query", "Account",
                     **aws_environment(scene))
    must(done.ok().out.strip() == "123456789012", done.text)


# ---- Google

@case("cloud.gcp")
def gcp(scene):
    def get(path, fields=FLAVOR):
        return scene.ask("GET", path, fields=fields)
    for path, wanted in ((f"{METADATA}/project/project-id", "my-project"),
                         (f"{ACCOUNTS}/default/email", "me@example.com")):
        answer = get(path)
        must((answer.status, answer.body.decode()) == (200, wanted), f"{path}: {answer}")
        must(answer.get("metadata-flavor") == "Google", f"{path}: {answer.fields}")
    answer = get("/")
    must(answer.status == 200 and answer.get("metadata-flavor") == "Google", f"/: {answer}")
    answer = get(f"{ACCOUNTS}/default/?recursive=true")
    value = json.loads(answer.body)
    must(value["email"] == "me@example.com" and "default" in value["aliases"] and isinstance(value["scopes"], list),
         f"{value}")
    for name in ("default", "me@example.com", "me%40example.com"):
        answer = get(f"{ACCOUNTS}/{name}/token")
        must(answer.status == 200, f"{name}: {answer}")
        value = json.loads(answer.body)
        must(set(value) == {"access_token", "expires_in", "token_type"} and value["token_type"] == "Bearer"
             and type(value["expires_in"]) is int and value["access_token"] in scene.provider.of("google"), f"{value}")
    value = json.loads(get(f"{ACCOUNTS}/default/token?scopes=a").body)
    must(scene.provider.tokens[value["access_token"]].scope == "a", "the scope was not asked for")
    must(json.loads(get(f"{ACCOUNTS}/default/token?scopes=a,b").body)["access_token"], "both scopes")
    for path in (f"{ACCOUNTS}/default/token", f"{METADATA}/project/project-id", f"{ACCOUNTS}/default/?recursive=true"):
        for fields in ([], [("Metadata-Flavor", "google")], [("Metadata-Flavor", "Other")],
                       [("X-Metadata-Flavor", "Google")]):
            answer = get(path, fields)
            must(answer.status == 403 and b"tok-" not in answer.body, f"{path} {fields}: {answer.status}")
    answer = get(f"{ACCOUNTS}/default/token", [*FLAVOR, ("X-Forwarded-For", "1.2.3.4")])
    must(answer.status in (200, 403), "Google's own refuses it")
    for path in (f"{METADATA}/universe/universe-domain", f"{ACCOUNTS}/other@example.com/token",
                 f"{METADATA}/instance/zone"):
        must(get(path).status in (200, 404), f"{path}: {get(path).status}")
    must(get(f"{ACCOUNTS}/other@example.com/token").status == 404, "the token of another service account")


GOOGLE = """
import google.auth, google.auth.transport.requests as r, sys
c, project = google.auth.default(scopes=sys.argv[1:] or None)
c.refresh(r.Request())
print(type(c).__module__, project, c.token)
"""

BY_HOST = """
import google.auth.compute_engine as e, google.auth.transport.requests as r
c = e.Credentials(scopes=["a"])
c.refresh(r.Request())
print(c.token, c.service_account_email, (c.expiry - __import__("datetime").datetime.utcnow()).total_seconds())
"""


@case("cloud.google_auth")
def google_auth(scene):
    """The two variables, and nothing else; by the host alone where the detection is not asked."""
    place = f"127.0.0.1:{scene.broker.address}"
    python, both = scene.python("google.auth", "requests"), {"GCE_METADATA_HOST": place, "GCE_METADATA_IP": place}
    for scopes in ([], ["a"]):
        module, project, token = scene.run(python, "-c", GOOGLE, *scopes, **both).ok().out.split()
        must("compute_engine" in module and project == "my-project", f"{module} {project}")
        must(token in scene.provider.of("google"), token)
    token, email, seconds = scene.run(python, "-W", "ignore", "-c", BY_HOST, GCE_METADATA_HOST=place).ok().out.split()
    must(token in scene.provider.of("google") and email == "me@example.com" and 0 < float(seconds) <= 3600,
         f"{email} {seconds}")


# ---- Azure

def azure_token(scene, answer, resource, account="entra"):
    must(answer.status == 200, f"{answer}")
    value = json.loads(answer.body)
    must(value["access_token"] in scene.provider.of(account) and value["resource"] == resource
         and value["token_type"] == "Bearer", f"{value}")
    return value


@case("cloud.azure")
def azure(scene):
    value = azure_token(scene, scene.ask("GET", AZURE, fields=IDENTITY), MANAGEMENT)
    must(isinstance(value["expires_on"], (str, int)) and 0 < int(value["expires_on"]) - time.time() <= 3700, f"{value}")
    value = azure_token(scene, scene.ask("GET", IMDS + MANAGEMENT, fields=IDENTITY[1:]), MANAGEMENT)
    must(0 < int(value["expires_in"]) <= 3600 and int(value["expires_on"]) > time.time(), f"{value}")
    # Another resource is another token, of its default scope.
    answer = scene.ask("GET", AZURE.replace("management.azure.com%2F", "vault.azure.net"), fields=IDENTITY)
    if answer.status == 200:
        value = azure_token(scene, answer, "https://vault.azure.net")
        must(scene.provider.tokens[value["access_token"]].scope == "https://vault.azure.net/.default", "its scope")
    else:
        must(400 <= answer.status < 500, f"another resource: {answer}")
    for path, fields, statuses in (
            (AZURE, [], (400, 401, 403)), (AZURE, IDENTITY[1:], (400, 401, 403)), (IMDS + MANAGEMENT, [], (400, 403)),
            (IMDS + MANAGEMENT, [("Metadata", "false")], (400, 403)),
            ("/azure/prod?api-version=2019-08-01", IDENTITY, (400,)), ("/azure/unheard-of" + AZURE[11:], IDENTITY,
                                                                       (400, 404)),
            (IMDS, IDENTITY, (400,))):
        answer = scene.ask("GET", path, fields=fields)
        must(answer.status in statuses and b"tok-" not in answer.body, f"{path} {fields}: {answer.status}")
        value = json.loads(answer.body)
        must(value.get("message") or value.get("error_description") or value.get("error"), f"{path}: {value}")


AZURE_SDK = """
import azure.identity, sys
print(getattr(azure.identity, sys.argv[1])().get_token("https://management.azure.com/.default").token)
"""


@case("cloud.azure_identity")
def azure_identity(scene):
    python = scene.python("azure.identity")
    service = {"IDENTITY_ENDPOINT": f"{scene.broker.url}/azure/prod", "IDENTITY_HEADER": "anything"}
    for kind in ("ManagedIdentityCredential", "DefaultAzureCredential"):
        token = scene.run(python, "-c", AZURE_SDK, kind, **service).ok().out.strip()
        must(token in scene.provider.of("entra"), f"{kind}: {token}")
    token = scene.run(python, "-c", AZURE_SDK, "ManagedIdentityCredential",
                      AZURE_POD_IDENTITY_AUTHORITY_HOST=scene.broker.url)
    must(token.ok().out.strip() in scene.provider.of("entra"), token.text)


# ---- the end of a grant

@case("cloud.ended")
def ended(scene):
    """What each tool shows says which command to run."""
    broker, hints = scene.broker, {"google": "grantctl login p google", "entra": "grantctl login p entra"}
    try:
        for account in hints:
            scene.provider.kill(account)
            scene.provider.faults[account] = "invalid_grant"
            broker.lost(account)
        google = scene.ask("GET", f"{ACCOUNTS}/default/token", fields=FLAVOR)
        must(google.status >= 400 and google.get("metadata-flavor") == "Google", f"{google}")
        has(google.body.decode(), hints["google"])
        # The libraries try these again, for a minute.
        must(google.status not in (408, 429, 500, 503, 504), f"{google.status}: google-auth would try again")
        for path, fields in ((AZURE, IDENTITY), (IMDS + MANAGEMENT, IDENTITY[1:])):
            answer = scene.ask("GET", path, fields=fields)
            must(400 <= answer.status < 500 and answer.status not in (404, 410, 429), f"{path}: {answer.status}")
            has(answer.body.decode(), hints["entra"])
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            place = f"127.0.0.1:{broker.address}"
            first = pool.submit(scene.run, scene.python("google.auth", "requests"), "-c", GOOGLE,
                                GCE_METADATA_HOST=place,
                                GCE_METADATA_IP=place)
            second = pool.submit(scene.run, scene.python("azure.identity"), "-c", AZURE_SDK,
                                 "ManagedIdentityCredential",
                                 IDENTITY_ENDPOINT=f"{broker.url}/azure/prod", IDENTITY_HEADER="x")
            has(first.result().fails().text, hints["google"])
            has(second.result().fails().text, hints["entra"])
    finally:
        for account in hints:
            scene.provider.faults.pop(account, None)
            broker.imported("p", account)
    must(scene.ask("GET", f"{ACCOUNTS}/default/token", fields=FLAVOR).status == 200, "after the sign-in")


@case("cloud.outage")
def outage(scene):
    """An outage of STS and of the provider: later, not never."""
    scene.provider.lifetimes["google"] = SHORT_SECONDS
    scene.provider.kill("google")
    try:
        scene.broker.must("refresh", "google")
        scene.provider.faults["google"] = 503
        wait_until(lambda: not any(map(scene.provider.is_alive, scene.provider.of("google"))), WAIT_SECONDS,
                   "the token ends")
        answer = scene.ask("GET", f"{ACCOUNTS}/default/token", fields=FLAVOR)
        must(answer.status == 503, f"{answer}")
    finally:
        del scene.provider.lifetimes["google"]
        scene.provider.faults.pop("google", None)
        scene.broker.must("refresh", "google")
