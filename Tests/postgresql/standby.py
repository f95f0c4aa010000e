"""A primary with a synchronous standby, which can take its place."""

import shutil

from cluster import DATABASE, ROLE, Cluster
from machines import eventually

STANDBY_SECONDS = 60
HBA = "hostssl all all 0.0.0.0/0 trust\n"


class Pair:
    def __init__(self, folder, ports=(5432, 5432), address="", certificate=None, settings=""):
        """`address`: it also listens there, with the certificate of that folder."""
        folder.mkdir()
        folder.chmod(0o755)
        self.folder, self.ports, self.address, self.number, self.failovers = folder, list(ports), address, 0, 0
        self.settings = settings
        self.primary = Cluster(folder / "0", self.listening() + settings, port=self.ports[0])
        if certificate:
            self.primary.use_certificate(certificate)
            with open(self.primary.data / "pg_hba.conf", "a") as file:
                file.write(HBA)
            self.primary.restart()
        self.standby = None
        self.add_standby()

    def listening(self):
        return f"listen_addresses = '{self.address}'\n" if self.address else ""

    def add_standby(self):
        """Returns when commits wait for it."""
        self.number += 1
        port = self.ports[1] if self.primary.port == self.ports[0] else self.ports[0]
        self.standby = Cluster(self.folder / str(self.number), self.listening() + self.settings, source=self.primary, port=port)
        self.wait_for_standby(True)

    def wait_for_standby(self, waits):
        names = "*" if waits else ""
        self.primary.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'", database="postgres")
        self.primary.sql("SELECT pg_reload_conf()", database="postgres")
        if waits:
            eventually("the standby is synchronous",
                       lambda: self.primary.sql("SELECT sync_state FROM pg_stat_replication", database="postgres") == [["sync"]],
                       STANDBY_SECONDS)

    def fail_over(self):
        """The primary ends at once, and the standby is promoted."""
        old = self.primary
        old.stop("immediate")
        self.standby.control("promote")
        self.primary, self.standby = self.standby, None
        self.failovers += 1
        shutil.rmtree(old.folder)

    def sql(self, text):
        return self.primary.sql(text, database=DATABASE)

    def close(self):
        for server in (self.standby, self.primary):
            if server:
                server.close()


__all__ = ["DATABASE", "ROLE", "Pair"]
