"""The AWS command line with credential_process, and a stand-in for STS."""

import datetime
import urllib.parse
import xml.sax.saxutils

from rig import ROBOT, Handler, case, find, has, must

ROLE = "arn:aws:iam::123456789012:role/Reader"
NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"


class SecurityTokenService(Handler):
    def do_POST(self):
        form = dict(urllib.parse.parse_qsl(self.body().decode()))
        token = form.get("WebIdentityToken")
        self.server.seen.append((form["Action"], token))
        if form["Action"] == "GetCallerIdentity":
            signed = "Credential=ASIATEST/" in self.headers.get("Authorization", "")
            return self.xml(form["Action"], f"<Account>{'123456789012' if signed else 'unsigned'}</Account><Arn>a</Arn>")
        if not self.stage.is_alive(token):
            message = xml.sax.saxutils.escape("Token <expired>")
            return self.reply(400, f'<ErrorResponse xmlns="{NAMESPACE}"><Error><Type>Sender</Type><Code>ExpiredTokenException'
                              f'</Code><Message>{message}</Message></Error></ErrorResponse>', "text/xml")
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=int(form["DurationSeconds"]))
        self.xml(form["Action"], "<Credentials><AccessKeyId>ASIATEST</AccessKeyId><SecretAccessKey>secret/+</SecretAccessKey>"
                 f"<SessionToken>session&amp;token</SessionToken><Expiration>{end:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials>")

    def xml(self, action, content):
        self.reply(200, f'<{action}Response xmlns="{NAMESPACE}"><{action}Result>{content}</{action}Result></{action}Response>',
                   "text/xml")


def setting(stage, account=ROBOT):
    server = stage.serve(SecurityTokenService)
    stage.file(".aws/config", f"[profile work]\nregion = eu-west-1\n"
               f"credential_process = {stage.bin / 'grantctl'} helper aws --account {account} --role {ROLE}\n")
    return server


def identity(stage, server, profile="work"):
    return stage.run(
        find("aws"), "sts", "get-caller-identity", "--profile", profile, "--output", "text", "--query", "Account",
        AWS_DEFAULT_REGION="eu-west-1", AWS_ENDPOINT_URL_STS=server.url,
        AWS_CA_BUNDLE=str(stage.ca), AWS_EC2_METADATA_DISABLED="true",
        CURL_CA_BUNDLE=str(stage.ca), AWS_MAX_ATTEMPTS="1")


@case("aws.identity", "aws", "curl")
def assumes(stage):
    server = setting(stage)
    has(identity(stage, server).ok().out, "123456789012")
    must(server.seen[0] == ("AssumeRoleWithWebIdentity", stage.token(ROBOT)), f"STS saw {server.seen}")


@case("aws.revoked", "aws", "curl")
def revoked(stage):
    server = setting(stage)
    dead = stage.token(ROBOT)
    stage.revoked.add(dead)
    has(identity(stage, server).ok().out, "123456789012")
    must([token for _, token in server.seen][:2] == [dead, stage.token(ROBOT)], f"STS saw {server.seen}")


@case("aws.refused", "aws", "curl")
def refused(stage):
    server = setting(stage, stage.account)
    has(identity(stage, server).fails().err, "AWS takes a JWT")
    with stage.ended() as hint:
        has(identity(stage, server).fails().err, hint)
    server = setting(stage, "unheard-of")
    has(identity(stage, server).fails().err, "unheard-of")


@case("aws.bad_input", "curl")
def bad_input(stage):
    robot = ("--account", ROBOT)
    table = {
        (): "the role is missing", ("--role", "x"): "no ARN", ("--role", ROLE, "--x", "y"): "not an option",
        ("--role", ROLE): "no account is mapped",
        ("--role", ROLE, "--endpoint", "http://sts.example.com", *robot): "over http",
        ("--role", ROLE, "--endpoint", "https://127.0.0.1:1", *robot): "cannot be asked"}
    for words, reason in table.items():
        done = stage.helper("aws", *words)
        must(done.status == 1 and done.out == "" and done.err.count("\n") == 1 and done.is_prompt, f"{words}: {done}")
        has(done.err, reason)
