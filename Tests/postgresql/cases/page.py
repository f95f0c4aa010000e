"""The commands and files of docs/fleet.md, in a folder instead of the system's."""

import os
import pathlib
import re
import subprocess

from cluster import Cluster
from grantd_testing import free_ports
from machines import Machine, eventually

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "fleet.md"
# A block of the page, with the name of its file if it has one.
BLOCK = re.compile(r"(?:^`(/[^`\n]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.S | re.M)
SECONDS = 120
PASSWORD = "hunter2-of-the-page"
HBA = "/etc/postgresql/15/main/pg_hba.conf"


class Page:
    def __init__(self, folder):
        self.root, self.port = folder / "root", free_ports()[0]
        for place in ("etc/postgresql", "etc/postgresql-common", "etc/grantd"):
            (self.root / place).mkdir(parents=True)
        self.root.chmod(0o755)
        self.server = Cluster(folder / "server", port=self.port, superuser="postgres")
        # As Debian: its administrator over the socket, and what the page adds.
        (self.server.data / "pg_hba.conf").write_text("local all postgres trust\n")
        self.server.restart()

    def local(self, text):
        """The text for this folder instead of /etc, and for loopback."""
        for word, other in ((HBA, f"{self.server.data}/pg_hba.conf"), ("192.0.2.0/24", "127.0.0.0/8")):
            text = text.replace(word, other)
        return re.sub(r"(?<![\w.])/etc/", f"{self.root}/etc/", text)

    def run(self, block):
        for line in block.splitlines():
            if line.startswith("apt install"):
                continue
            if line == "systemctl restart postgresql":
                self.server.restart()
                continue
            self.command(line)

    def command(self, line):
        owner = f"-o {self.server.user.pw_name}" if self.server.user else ""
        line = self.local(line).replace("sudo -u postgres ", "").replace("-o postgres -g postgres", owner)
        line = line.replace("-o grantd ", "")
        path = f"{self.server.programs}:{os.environ['PATH']}"
        # Without a terminal the programs read the password, and its repetition, from the input.
        done = subprocess.run(
            ["bash", "-ec", line], cwd=self.root, start_new_session=True, capture_output=True, text=True, timeout=SECONDS,
            input=PASSWORD if "/dev/stdin" in line else f"{PASSWORD}\n{PASSWORD}\n",
            env={"PATH": path, "PGHOST": str(self.server.folder), "PGPORT": str(self.port), "PGUSER": "postgres"})
        assert done.returncode == 0, f"{line}: {done.stderr}"


def page(world):
    """A database and two machines by the page; both have the account, and the page's command marks one as ended."""
    blocks = BLOCK.findall(PAGE.read_text().split("## Share a PostgreSQL database", 1)[1])
    commands = [text for _, language, text in blocks if language == "sh"]
    files = {name: text for name, _, text in blocks if name}
    assert len(commands) == 4 and len(files) == 2, (len(commands), list(files))
    place = Page(world.case)
    machines = []
    try:
        (place.root / "fleet.key").write_bytes(world.key.read_bytes())
        for text in commands:
            place.run(text)
        assert (place.root / "etc/grantd/database-password").stat().st_mode & 0o077 == 0
        services = "/etc/postgresql-common/pg_service.conf"
        # The name of the page's server has no address.
        pathlib.Path(place.local(services)).write_text(
            place.local(files[services]) + f"hostaddr=127.0.0.1\nport={place.port}\n")
        store = place.local(files["/etc/grantd/grantd.toml"])
        for name in ("one", "two"):
            machine = Machine(place.server.programs, world.case / name, world.key, "", world.provider.sections())
            machine.products = world.programs
            machine.config.write_text(machine.config.read_text().replace(
                f'[store]\n\nkey_file = "{machine.folder}/key"\n', store))
            machine.prefix = ("env", f"PGSYSCONFDIR={place.root}/etc/postgresql-common")
            machines.append(machine)
            world.machines.append(machine)
            machine.launch_and_wait()
        one, two = machines
        one.adopt("a")
        eventually("the account is at both", lambda: two.get("a") == "a-a2")
        encrypted = "SELECT count(*) FROM pg_stat_ssl WHERE ssl"
        eventually("both are connected over TLS", lambda: place.server.sql(encrypted, role="postgres") == [["4"]])
        ended = re.search(r"(?m)^  psql service=grantd -c \"(.*)\"$", PAGE.read_text())[1]
        place.server.sql(ended.replace("HOST", one.status()["sharing"]["machines"][0]["name"]), role="postgres")
        assert place.server.sql("SELECT count(*) FROM grantd.node WHERE ended_at IS NULL", role="postgres") == [["0"]]
    finally:
        for machine in machines:
            machine.close()
        place.server.close()


CASES = {"page": page}
