"""cron and systemd timers, as their pages have them."""

import getpass
import re

from cases.files import guarded
from recipes import ACCOUNT, recipe
from rig import has, must


def jobs(text):
    """Of a crontab (crontab(5)): the variables, and the commands."""
    variables, commands = {}, []
    for line in text.splitlines():
        if found := re.fullmatch(r"([A-Z]+)=(.*)", line):
            variables[found[1]] = found[2]
        else:
            commands.append(re.fullmatch(r"(?:\S+ ){5}(.+)", line)[1])
    return variables, commands


@recipe("cron", "curl")
def cron(stage, page):
    server = guarded(stage, tls=True)
    page.answer({"api.example.com": server})
    page.replace({'user = "ada"': f'user = "{getpass.getuser()}"'})
    page.checks("/etc/grantd/grantd.toml")
    page.replace({"/usr/local/bin:/usr/bin:/bin": f"{stage.bin}:/usr/local/bin:/usr/bin:/bin"})
    (text,) = page.contents("~/contacts.crontab")
    must("%" not in text, "cron ends the command at a %")
    variables, (command,) = jobs(text)
    made = {"HOME": str(stage.home), "LOGNAME": "ada", "SHELL": "/bin/sh"} | variables
    # What is of this test: the broker, and the way to the server.
    made |= {"GRANTD_SOCKET": str(stage.daemon.socket), "CURL_CA_BUNDLE": str(stage.ca)} | page.more

    def run():
        return stage.run("/bin/sh", "-c", command, env=made)
    must(run().ok().text == "", "cron would send mail")
    must((stage.home / "contacts.json").exists() and server.seen == [stage.token()], f"the server saw {server.seen}")
    with stage.ended():
        page.text_is(run().fails().text)
    must(len(server.seen) == 1 and not server.refused, "curl ran without a token")


@recipe("systemd-timers", "systemd-analyze", "curl")
def systemd_timers(stage, page):
    """The units and their program. Tests/system/credentials has them under systemd, and what is seen at the end."""
    server = guarded(stage, tls=True)
    page.answer({"api.example.com": server})
    folder = "/etc/systemd/system"
    (script,) = page.contents("/usr/local/bin/fetch-contacts")
    program = stage.file("fetch-contacts", script)
    program.chmod(0o700)
    page.replace({"/usr/local/bin/fetch-contacts": program})
    for name in ("contacts.service", "contacts.timer"):
        stage.file(f"units/{name}", *page.contents(f"{folder}/{name}"))
    units = [stage.home / "units" / name for name in ("contacts.service", "contacts.timer")]
    said = stage.run("systemd-analyze", "verify", "--recursive-errors=no", *units).text
    must("contacts" not in said, said)
    credential = stage.file(f"credentials/grantd.{ACCOUNT}", stage.token())
    page.more |= {"CREDENTIALS_DIRECTORY": str(credential.parent), "STATE_DIRECTORY": str(stage.home),
                  "CURL_CA_BUNDLE": str(stage.ca)}
    page.shell(str(program)).ok()
    must(server.seen == [stage.token()], f"the server saw {server.seen}")
    has((stage.home / "contacts.json").read_text(), "up 1")
    # Under systemd only.
    page.taken(lambda block: block.language == "console")
