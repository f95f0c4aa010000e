"""One server for all cases, a database and machines for each."""

from cluster import ROLE, Cluster
from machines import Machine, Provider, eventually, new_key

LINES = 12
START_SECONDS = 60


class World:
    def __init__(self, programs, folder):
        self.programs, self.folder, self.number, self.machines = programs, folder, 0, []
        self.cluster = Cluster(folder / "pg")
        self.key = new_key(folder / "key")
        self.provider = self.database = self.case = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        self.cluster.close()

    def begin(self, name):
        self.number += 1
        self.database = f"case{self.number}"
        self.case = self.folder / name
        self.case.mkdir()
        # After a case that ended its server, it may still recover.
        eventually("the server accepts connections", lambda: self.cluster.sql("SELECT 1", database="postgres"), START_SECONDS)
        self.cluster.sql(f"CREATE DATABASE {self.database}", database="postgres")
        self.provider = Provider(self.case)

    def end(self):
        for machine in self.machines:
            machine.close()
        self.machines = []
        if self.provider:
            self.provider.close()
            self.provider = None

    @property
    def connection(self):
        return f"host={self.cluster.folder} user={ROLE} dbname={self.database}"

    def store(self, connection=None):
        return f'kind = "postgresql"\nconnection = "{connection or self.connection}"'

    def machine(self, name, start=True, key=None, connection=None, options="", sections=""):
        machine = Machine(
            self.programs, self.case / name, key or self.key, self.store(connection),
            self.provider.sections() + sections, options)
        self.machines.append(machine)
        if start:
            machine.launch_and_wait()
        return machine

    def sql(self, text):
        return self.cluster.sql(text, database=self.database)

    def value(self, text):
        rows = self.sql(text)
        return rows[0][0] if rows else None

    def hold(self, statement):
        """A session that runs the statement in a transaction, and keeps it open."""
        session = self.cluster.session(self.database)
        session.stdin.write(f"BEGIN; {statement}; SELECT 'held';\n")
        session.stdin.flush()
        while session.stdout.readline().strip() != "held":
            pass
        return session

    def logs(self):
        lines = []
        for machine in self.machines:
            if machine.log.exists():
                lines += [f"  {machine.folder.name}: {line[:240]}" for line in machine.log_text().splitlines()[-LINES:]]
        return "\n".join(lines)
