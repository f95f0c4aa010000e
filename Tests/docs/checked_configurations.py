"""grantd reads each configuration on the pages: `grantd --check-config`, without a warning."""

import getpass
import grp
import json
import os
import re
import subprocess
import tomllib

from pages_of_tree import ROOT, configurations

SECONDS = 20
TEMPLATES = ROOT / "config" / "providers.d"
SECTIONS = {
    "provider", "account", "rule", "credential", "credentials", "file", "on_event", "callback", "socket", "store", "refresh",
    "metrics", "http", "handle", "cloud", "audit", "limits", "log"}
# Tables of other programs' files, if the page does not name the file.
FOREIGN = {"host", "registry"}
FILE = re.compile(r'(?m)^(\w*(?:_file|key_file))( *= *)"(/[^"]+)"')
CREDENTIAL = re.compile(r'(?m)^\w+_credential *= *"([^"]+)"')
HOLDER = re.compile(r'(?m)^(user|group)( *= *)"[^"]*"')


def is_of_grantd(block):
    if block.path:
        return "grantd.toml" in block.path or "/grantd.d/" in block.path
    return not FOREIGN & set(tomllib.loads(block.text))


def is_whole(block):
    return SECTIONS >= set(tomllib.loads(block.text))


def private_key(folder):
    file = folder / "key.pem"
    if not file.exists():
        subprocess.run(
            ["openssl", "genpkey", "-quiet", "-algorithm", "RSA", "-out", file], check=True, capture_output=True, timeout=SECONDS)
    return file.read_text()


def content(name, folder):
    """Of a file that a configuration names."""
    if name.endswith(".json"):
        return json.dumps({
            "type": "service_account", "private_key": private_key(folder), "private_key_id": "1",
            "client_email": "robot@example.iam.gserviceaccount.com", "token_uri": "https://oauth2.googleapis.com/token"})
    return private_key(folder) if "key" in name or name.endswith(".pem") else "secret"


def with_local_names(text, folder):
    """The same with files, users and groups of this machine."""
    def file(found):
        path = folder / os.path.basename(found[3])
        if not path.exists():
            path.write_text(content(path.name, folder))
            path.chmod(0o600)
        return f'{found[1]}{found[2]}"{path}"'

    holders = {"user": getpass.getuser(), "group": grp.getgrgid(os.getgid()).gr_name}
    for name in CREDENTIAL.findall(text):
        (folder / name).write_text(content(name, folder))
    return HOLDER.sub(lambda found: f'{found[1]}{found[2]}"{holders[found[1]]}"', FILE.sub(file, text))


def merged(whole, part):
    """Keys that a page adds to the section above them. They replace those of the same name."""
    names = "|".join(map(re.escape, tomllib.loads(part)))
    return re.sub(rf"(?m)^(?:{names}) *=.*\n", "", whole) + part


def wrong_configurations(programs, folder, pages, name_of):
    """The number of configurations, and a line for each that grantd does not accept."""
    folder = folder / "configurations"
    folder.mkdir()
    count, wrong = 0, []
    for page in pages:
        above = ""
        for block in configurations(page):
            if not is_of_grantd(block):
                continue
            text = block.text if is_whole(block) else merged(above, block.text)
            above = text if is_whole(block) else above
            file = folder / "grantd.toml"
            file.write_text(with_local_names(text, folder))
            done = subprocess.run(
                [programs / "grantd", "--user", "--templates", TEMPLATES, "--config", file, "--check-config"],
                capture_output=True, text=True, timeout=SECONDS, env=os.environ | {"CREDENTIALS_DIRECTORY": str(folder)})
            count += 1
            said = (done.stdout + done.stderr).replace(f"{file}:", "line ").strip()
            if done.returncode != 0 or "warning:" in said:
                wrong.append(f"{name_of(page)}: grantd does not accept {block.text.strip()!r}: {said}")
    return count, wrong
