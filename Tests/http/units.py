"""Units of a real systemd that ask the listener: run by the case peer.units inside of Tests/Support/with-systemd.

units.py PRODUCTS; it ends with a line `ok`, or says what is wrong.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "python"), str(HERE.parent / "clients")]

from grantd_testing import wait_until
from provider import Provider
from scene import Broker

WAIT_SECONDS = 60
NOBODY, PERSON = "65534", "games"
DATA = ["-d", "grant_type=client_credentials", "-d", "client_id=robot"]
ASK = ["curl", "-q", "-sS", "-m", "60", "-w", "\n%{http_code}", *DATA]
RULES = ('[[rule]]\nunit = "reader.service"\naccounts = ["robot"]\naccess = ["use"]\n'
         '[[rule]]\nuser = "{person}"\nuser_unit = "mine.service"\naccounts = ["robot"]\naccess = ["use"]\n')


def status(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout.rpartition("\n")[2] or done.stderr


def unit(name, words, *options):
    return status("systemd-run", "--quiet", "--wait", "--pipe", "--collect", f"--unit={name}", *options, *words)


def user_unit(name, words):
    uid = subprocess.run(["id", "-u", PERSON], capture_output=True, text=True, check=True).stdout.strip()
    person = ["setpriv", f"--reuid={PERSON}", f"--regid={PERSON}", "--clear-groups", "env",
              f"XDG_RUNTIME_DIR=/run/user/{uid}"]
    return status(*person, "systemd-run", "--user", "--quiet", "--wait", "--pipe", "--collect", f"--unit={name}",
                  *words)


def main():
    provider, folder = Provider(), pathlib.Path(tempfile.mkdtemp(prefix="grantd-units-", dir="/run"))
    # Not in /tmp: a unit with DynamicUser= has one of its own.
    folder.chmod(0o755)
    secret = folder / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    broker = Broker(pathlib.Path(sys.argv[1]), folder, "\n".join([
        '[provider.jwt]', 'kind = "oauth2"', f'token_endpoint = "{provider.url}/jwt/token"', 'client_id = "c"',
        f'authorization_endpoint = "{provider.url}/none"', f'client_secret_file = "{secret}"', 'scopes = ["a"]',
        '[account.robot]', 'provider = "jwt"', 'grant = "client_credentials"', RULES.format(person=PERSON)]), "system")
    broker.start()
    subprocess.run(["systemctl", "start", "user@" + subprocess.run(
        ["id", "-u", PERSON], capture_output=True, text=True, check=True).stdout.strip()], check=True)
    wrong = []
    for what, words in (("port", [*ASK, f"{broker.url}/token"]),
                        ("socket", [*ASK, "--unix-socket", str(broker.unix), "http://localhost/token"])):
        outside = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        for name, found, wanted in (
                ("the unit", unit("reader.service", words, f"--uid={NOBODY}"), "200"),
                ("with a user of its own", unit("reader.service", words, "-p", "DynamicUser=yes"), "200"),
                ("in a slice", unit("reader.service", words, f"--uid={NOBODY}", "-p", "Slice=a-b.slice"), "200"),
                ("another unit", unit("other.service", words, f"--uid={NOBODY}"), "400"),
                ("a scope", status("systemd-run", "--quiet", "--scope", "--unit=reader", *outside, *words), "400"),
                ("no unit", status(*outside, *words), "400"),
                ("a person's unit of that name", user_unit("reader.service", words), "400"),
                ("a person's unit with a rule", user_unit("mine.service", words), "200"),
                ("a unit of the name of a person's", unit("mine.service", words, f"--uid={PERSON}"), "400")):
            if found != wanted:
                wrong.append(f"{what}: {name}: {found}, not {wanted}")
    records = broker.json("audit", "--account", "robot")["records"]

    def released():
        return [row for row in broker.json("audit", "--unit", "reader.service")["records"]
                if (row["uid"], row["result"]) == (int(NOBODY), "ok")]
    wait_until(released, WAIT_SECONDS, f"the trail has the unit: {json.dumps(records)[:1000]}")
    broker.close()
    print("; ".join(wrong) or "ok", flush=True)


main()
