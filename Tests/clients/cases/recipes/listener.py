"""What asks the broker by HTTP: Prometheus, rclone, Kafka, MCP, the clouds' libraries and Envoy."""

import contextlib
import getpass
import os
import pathlib
import signal

import kafka as kafka_broker
from cases.aws import SecurityTokenService
from cases.files import PAUSE_SECONDS, SCRAPES, WAIT_SECONDS, guarded, scraping
from cases.recipes.clouds import needs
from cases.recipes.files import Drive
from grantd_testing import Program, free_ports, wait_until
from grantd_testing.places import ROOT
from recipes import ACCOUNT, recipe
from rig import ROBOT, Handler, has, must

OWN, SYSTEM = "~/.config/grantd/grantd.toml", "/etc/grantd/grantd.toml"
PLACE = "127.0.0.1:7817"
# What scripts/deps installs from PyPI.
PACKAGES = ROOT / ".build" / "python" / "bin"
MCP_SERVER = pathlib.Path(__file__).resolve().parents[2] / "mcp_server.py"


def prepared(page):
    """The address of the page is a free one; the port."""
    (port,) = free_ports()
    page.replace({PLACE: f"127.0.0.1:{port}"})
    if os.access(PACKAGES / "python3", os.X_OK):
        page.path = [PACKAGES]
    return port


def restarted(stage, text):
    stage.daemon.config.write_text(text)
    stage.daemon.end(signal.SIGTERM)
    stage.daemon.start()


@contextlib.contextmanager
def listening(stage, *texts, change=lambda text: text):
    """The broker has this in its configuration as well."""
    before, count = stage.daemon.config.read_text(), len(stage.daemon.lines("serving HTTP"))
    restarted(stage, "\n".join([change(before), *texts]))
    try:
        wait_until(lambda: len(stage.daemon.lines("serving HTTP")) > count, WAIT_SECONDS, "the listener", PAUSE_SECONDS)
        yield
    finally:
        restarted(stage, before)


@recipe("prometheus-oauth2", "prometheus", "promtool", "curl")
def prometheus(stage, page):
    server = guarded(stage, tls=True)
    page.replace({'user = "prometheus"': f'user = "{getpass.getuser()}"', "api.example.com": server.place,
                  "/etc/prometheus/prometheus.yml": stage.home / "prometheus.yml"})
    prepared(page)
    page.checks(SYSTEM)
    with listening(stage, *page.contents(SYSTEM)):
        (lines,) = page.contents("/etc/prometheus/prometheus.yml")
        config = stage.file("prometheus.yml", f"{SCRAPES}\n{lines}")
        has(page.run().ok().out, "SUCCESS")
        with scraping(stage, config):
            wait_until(lambda: server.seen, WAIT_SECONDS, "a scrape", PAUSE_SECONDS)
            must(server.seen[-1] == stage.token(), "another token")

        def run(command):
            # Another one, since the first has a token of its own until that ends.
            with scraping(stage, config) as api:
                page.replace({"http://127.0.0.1:9090": api})
                command = command.replace("http://127.0.0.1:9090", api)
                wait_until(lambda: "invalid_grant" in page.shell(command).out, WAIT_SECONDS, "a failed scrape")
                return page.shell(command).text
        page.ended(run)


@recipe("rclone-oauth", "rclone")
def rclone(stage, page):
    drive, path = stage.serve(Drive), "~/.config/rclone/rclone.conf"
    prepared(page)
    page.answer({"www.googleapis.com": drive} if "www.googleapis.com" in page.text else {})
    with listening(stage, *page.contents(OWN)):
        page.write(path)
        has(page.run().ok().out, "photo.jpg")
        must(set(drive.seen) == {stage.token()}, f"{drive.seen}")
        has((stage.home / path[2:]).read_text(), f'"refresh_token":"{ACCOUNT}"')

        def run(command):
            page.write(path)
            return page.shell(f"{command} --low-level-retries 1").text
        page.ended(run)


@recipe("kafka")
def kafka(stage, page):
    server = kafka_broker.Kafka(stage)
    stage.closing.append(server)
    page.replace({"kafka.example.com:9093": server.place, '"SASL_SSL"': '"SASL_PLAINTEXT"'})
    prepared(page)
    needs(stage, page, "confluent_kafka")
    with listening(stage, *page.contents(OWN)):
        # The account whose tokens are JWTs.
        page.names[ACCOUNT] = ROBOT
        page.write("~/orders.py")
        must(page.run().ok().out.strip() == "[0]", "no list of brokers")
        must(set(server.seen) == {stage.token(ROBOT)}, f"{server.seen}")
        del page.names[ACCOUNT]
        page.write("~/orders.py")
        page.ended()


class Alive(Handler):
    def do_GET(self):
        self.reply(204 if self.stage.is_alive(self.path.removeprefix("/alive/")) else 404)


@recipe("mcp", "curl")
def mcp(stage, page):
    prepared(page)
    needs(stage, page, "mcp", "uvicorn")
    page.checks()
    log, (port,) = stage.folder / "mcp.log", free_ports()
    server = Program(["python3", MCP_SERVER, port, stage.serve(Alive, tls=False).url], log, env=page.environment())
    try:
        wait_until(lambda: "running" in log.read_text() or server.status is not None, WAIT_SECONDS, "the server runs")
        (text,) = page.contents(OWN)
        with listening(stage, text.partition("[provider")[0], change=lambda config: config.replace(
                'client_id = "demo"\n', f'client_id = "demo"\napi_base = "http://127.0.0.1:{port}"\n')):
            page.write("~/project/.mcp.json", "~/tools.py")
            url = page.filled("http://127.0.0.1:7817/forward/work/mcp")
            for name in ("project/.mcp.json", "tools.py"):
                has((stage.home / name).read_text(), url)
            has(page.run().ok().out, "['add']")
            stage.revoke()
            has(page.run().ok().out, "['add']")
            must("REFUSED" in log.read_text(), "the token was not refused")
            page.ended()
    finally:
        server.kill()


@recipe("aws-listener", "aws")
def aws(stage, page):
    server = stage.serve(SecurityTokenService, tls=False)
    page.replace({"https://sts.eu-west-1.amazonaws.com/": f"{server.url}/"})
    prepared(page)
    page.more |= {"AWS_ENDPOINT_URL_STS": server.url, "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1"}
    # The account whose tokens are JWTs.
    page.names[ACCOUNT] = ROBOT
    with listening(stage, *page.contents(OWN)):
        has(page.run().ok().out, "123456789012")
        must(server.seen[0] == ("AssumeRoleWithWebIdentity", stage.token(ROBOT)), f"STS saw {server.seen}")
    del page.names[ACCOUNT]
    with listening(stage, *page.contents(OWN)):
        page.ended(AWS_CONTAINER_CREDENTIALS_FULL_URI=page.filled("http://127.0.0.1:7817/aws/reader"))


@recipe("google-listener")
def google(stage, page):
    prepared(page)
    needs(stage, page, "google.auth", "requests")
    with listening(stage, *page.contents(OWN)):
        page.write("~/whoami.py")
        must(page.run().ok().out.split() == ["example", "ada@example.com"], "another project or person")
        place = page.filled(PLACE)
        page.ended(GCE_METADATA_HOST=place, GCE_METADATA_IP=place)


@recipe("azure-listener")
def azure(stage, page):
    prepared(page)
    needs(stage, page, "azure.identity")
    with listening(stage, *page.contents(OWN)):
        page.write("~/subscriptions.py")
        has(page.run().ok().out, "a token until")
        page.ended(IDENTITY_ENDPOINT=page.filled("http://127.0.0.1:7817/azure/own"), IDENTITY_HEADER="any")


@recipe("envoy", "curl")
def envoy(stage, page):
    """Its own part is not run."""
    page.replace({'user = "envoy"': f'user = "{getpass.getuser()}"'})
    prepared(page)
    page.checks(SYSTEM)
    for path in ("/etc/envoy/filter.yaml", "/etc/envoy/static.yaml"):
        page.contents(path)
    with listening(stage, *page.contents(SYSTEM)):
        has(page.run().ok().out, stage.token())
        page.ended()
