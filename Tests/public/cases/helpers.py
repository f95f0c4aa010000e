"""Credential helpers: what git, docker, keyring, kubectl, AWS and mail programs send and accept."""

import base64
import json
import re

from provider import Provider
from rig import must, same
from server import Answer
from table import oauth2, row

HOST = "git.example.com"
GROUP = "client.authentication.k8s.io"
QUESTION = f"protocol=https\nhost={HOST}\n"


def entry(account, host=HOST, **keys):
    lines = [f'name = "{host}"', f'account = "{account}"', *(f"{name} = {json.dumps(value)}" for name, value in keys.items())]
    return "\n".join(["[[host]]", *lines, ""])


def git(scene, text, status=0):
    """The answer of the helper as pairs."""
    done = scene.helper("git", "get", text=text + "\n")
    same(done.returncode, status, f"the exit status of the helper: {done.stderr}")
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line), done.stderr


@row("H01", "heroku/heroku-buildpack-go#683", oauth2())
def capabilities(scene, site):
    """git's capability[], state[] and wwwauth[] break the helper"""
    site.sign_in()
    scene.hosts(entry(site.name))
    for more in ("capability[]=authtype\ncapability[]=state\n", 'wwwauth[]=Basic realm="x=y"\nwwwauth[]=\n',
                 "capability[]=\nstate[]=other:1\nstate[]=\nfuture[]=1\nfuture=2\n"):
        found, _ = git(scene, QUESTION + more)
        same(found.get("password"), site.token(), f"the password after {more!r}")
        must(found.get("username"), f"there is no user name: {found}")
        for command in ("store", "erase"):
            given = f"{QUESTION}username={found['username']}\npassword=other\n{more}\n"
            same(scene.helper("git", command, text=given).returncode, 0, f"the exit status of {command}")


@row("H02", "project-dalec/dalec PR 998", oauth2())
def authtype(scene, site):
    """authtype and credential are sent to a git that did not announce the capability"""
    site.sign_in()
    scene.hosts(entry(site.name, authtype="bearer"))
    found, _ = git(scene, QUESTION)
    must(not {"authtype", "credential"} & set(found), f"a git without the capability gets {sorted(found)}")
    same(found.get("password"), site.token(), "the password")
    found, _ = git(scene, QUESTION + "capability[]=authtype\n")
    same((found.get("authtype"), found.get("credential")), ("Bearer", site.token()), "the answer with the capability")


@row("H03", "hickford/git-credential-oauth#57, git-ecosystem/git-credential-manager#1509", oauth2())
def two_accounts(scene, site):
    """two accounts at one host: a wrong one is taken in silence"""
    names = ["h03-work", "h03-home"]
    for name in names:
        site.sign_in(name)
    scene.hosts("".join(map(entry, names)))
    for name in names:
        found, _ = git(scene, f"{QUESTION}username={name}\n")
        same(found.get("password"), site.token(name), f"the password of {name}")
    done = scene.helper("git", "get", text=QUESTION + "\n")
    must("password=" not in done.stdout, f"without a user name one account is taken: {done.stdout.splitlines()[:1]}")
    must(all(name in done.stderr for name in names), f"the helper does not name both accounts: {done.stderr}")


@row("H04", "docker/docker-credential-helpers#174, PR 143", oauth2())
def empty_list(scene, site):
    """list, and erase of nothing, fail and break builds"""
    same(json.loads(scene.printed("helper", "docker", "list")), {}, "the list without entries")
    for server in ("https://registry.example.com", "registry.example.com:5000", ""):
        scene.printed("helper", "docker", "erase", text=server)
    site.sign_in()
    scene.hosts(entry(site.name, "registry.example.com"))
    found = json.loads(scene.printed("helper", "docker", "list"))
    must(all("registry.example.com" in server for server in found), f"the list is {found}")
    scene.printed("helper", "docker", "erase", text="registry.example.com")
    found = json.loads(scene.printed("helper", "docker", "get", text="registry.example.com"))
    same(found["Secret"], site.token(), "the secret after erase")


@row("H05", "pypa/pip PR 14150, astral-sh/uv#16174", oauth2())
def keyring(scene, site):
    """keyring is asked without a user name (--mode creds)"""
    site.sign_in()
    scene.hosts(entry(site.name, "pypi.example.com", username="oauth2accesstoken"))
    url = "https://pypi.example.com/simple/"
    for order in (("--mode", "creds", "get"), ("get", "--mode", "creds"), ("--mode=creds", "get")):
        lines = scene.printed("helper", "keyring", *order, url).splitlines()
        same(lines, ["oauth2accesstoken", site.token()], f"the output of keyring {' '.join(order)}")
    same(scene.printed("helper", "keyring", "get", url, "oauth2accesstoken").splitlines(), [site.token()], "the password")
    must(scene.helper("keyring", "--mode", "creds", "get", "https://other.example.com/").returncode != 0,
         "keyring gives a credential for another host")


@row("H06", "kubernetes/kubectl#1109, kubernetes/kubernetes#127694", oauth2())
def exec_credential(scene, site):
    """an unusual ExecCredential in, or an invalid one out"""
    site.sign_in()
    for version, allowed in ((None, {"v1", "v1beta1"}), ("v1", {"v1"}), ("v1beta1", {"v1beta1"})):
        done = kubectl(scene, site, version)
        same(done.returncode, 0, f"the exit status for {version}: {done.stderr}")
        found = json.loads(done.stdout)
        same((found["kind"], found["status"]["token"]), ("ExecCredential", site.token()), f"the answer to {version}")
        must(found["apiVersion"].removeprefix(f"{GROUP}/") in allowed, f"{version} is answered with {found['apiVersion']}")
        ends = found["status"].get("expirationTimestamp", "")
        must(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", ends), f"expirationTimestamp is {ends!r}")
    # No client sends this version and none takes it: it is refused, or answered in another.
    done = kubectl(scene, site, "__internal")
    must("__internal" not in done.stdout and (done.returncode != 0) == (not done.stdout), f"the answer to __internal: {done}")


def kubectl(scene, site, version):
    asked = {"apiVersion": f"{GROUP}/{version}", "kind": "ExecCredential", "spec": {"interactive": False}}
    more = {"KUBERNETES_EXEC_INFO": json.dumps(asked)} if version else {}
    return scene.helper("kubectl", "--account", site.name, **more)


STS = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><SessionToken>session</SessionToken><SecretAccessKey>secret</SecretAccessKey>
<Expiration>{}</Expiration><AccessKeyId>ASIAEXAMPLE</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""


@row("H07", "fluent/fluent-bit#9025, aws-solutions PR 185, Versent/saml2aws#682", oauth2({"jwt": True}))
def expiration(scene, site):
    """an Expiration with an offset is refused by SDKs"""
    site.sign_in()
    sts = scene.keep(Provider())
    for given in ("2099-11-27T10:20:30Z", "2099-11-27T12:20:30+02:00", "2099-11-27T10:20:30.000Z"):
        sts.always("/", Answer.text(STS.format(given), kind="text/xml"))
        found = json.loads(scene.printed(
            "helper", "aws", "--account", site.name, "--role", "arn:aws:iam::123456789012:role/Reader",
            AWS_ENDPOINT_URL_STS=sts.origin))
        same((found["Version"], found["AccessKeyId"], found["SessionToken"]), (1, "ASIAEXAMPLE", "session"), "the credentials")
        must(re.fullmatch(r"2099-11-27T10:20:30(\.0+)?Z", found["Expiration"]), f"{given} becomes {found['Expiration']}")
    same(sts.of("/")[-1].form["WebIdentityToken"], site.token(), "the token that STS got")


@row("H08", "nextcloud/mail#13667, simonrob/email-oauth2-proxy#347", oauth2())
def sasl_user(scene, site):
    """the user of XOAUTH2 is another than the account's, or has capitals"""
    site.sign_in()
    user, token = "Shared@Example.org", site.token()
    found = base64.b64decode(scene.printed("sasl", site.name, "xoauth2", "--as", user)).decode()
    same(found, f"user={user}\1auth=Bearer {token}\1\1", "the XOAUTH2 response")
    found = base64.b64decode(scene.printed(
        "sasl", site.name, "oauthbearer", "--as", user, "--host", "mail.example.org", "--port", "993")).decode()
    same(found, f"n,a={user},\1host=mail.example.org\1port=993\1auth=Bearer {token}\1\1", "the OAUTHBEARER response")
