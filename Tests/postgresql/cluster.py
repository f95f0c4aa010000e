"""A PostgreSQL server of the test's own: in a temporary folder, as an unprivileged user, on a Unix socket."""

import os
import pathlib
import pwd
import shutil
import subprocess

from grantd_testing import Program, wait_until

START_SECONDS = 60
COMMAND_SECONDS = 90
PAUSE = 0.02
# Of postmaster.pid; the last one is its status.
STATUS_LINES = 8
ROLE = DATABASE = "grantd"


def folder_of_programs():
    """Debian's, the newest version; else those in PATH."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    if not path:
        raise SystemExit("there is no initdb: install the package postgresql (scripts/deps --tests)")
    return pathlib.Path(path).resolve().parent


def make_certificate(folder, names="DNS:localhost"):
    """authority.pem, and server.key and server.crt, which it signed."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=COMMAND_SECONDS)

    authority, key = folder / "authority.pem", folder / "authority.key"
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", authority, "-days", "2", "-subj",
            "/CN=authority")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "server.key", "-out", folder / "server.csr",
            "-subj", "/CN=localhost")
    (folder / "names").write_text(f"subjectAltName = {names}\n")
    openssl("x509", "-req", "-in", folder / "server.csr", "-CA", authority, "-CAkey", key, "-CAcreateserial", "-days", "2",
            "-extfile", folder / "names", "-out", folder / "server.crt")


class Cluster:
    def __init__(self, folder, settings="", certificate=None, source=None, port=5432, superuser=ROLE):
        """`superuser`: if it is another one, there is neither role nor database. `certificate`: a folder for one of
        localhost and its authority; then connections over TCP need a password.
        `source`: another one, of which this is a standby."""
        self.programs, self.folder, self.data, self.port = folder_of_programs(), folder, folder / "data", port
        # PostgreSQL refuses to run as root.
        self.user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        folder.mkdir()
        if self.user:
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        if source:
            self.command("pg_basebackup", "-D", self.data, "-h", source.folder, "-p", str(source.port), "-U", ROLE, "-R", "-X",
                         "stream", "-c", "fast", "--no-sync")
        else:
            self.command("initdb", "-D", self.data, "-A", "trust", "-U", superuser, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        self.configure(f"listen_addresses = ''\nunix_socket_directories = '{folder}'\nport = {port}\nmax_connections = 60\n"
                       + settings)
        if certificate:
            self.secure(certificate)
        self.start()
        if not certificate and not source and superuser == ROLE:
            self.command("createdb", "-h", folder, "-p", str(port), "-U", ROLE, DATABASE)

    def configure(self, settings):
        with open(self.data / "postgresql.conf", "a") as file:
            file.write(f"{settings}\n")

    def secure(self, folder):
        make_certificate(folder)
        self.use_certificate(folder)
        # PostgreSQL's single-user mode sets the password before the first start.
        subprocess.run(
            [self.programs / "postgres", "--single", "-D", self.data, "postgres"], text=True, check=True, cwd=self.folder,
            input=f"ALTER ROLE {ROLE} PASSWORD 'secret'\n", capture_output=True, timeout=COMMAND_SECONDS, **self.switch)
        (self.data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")

    def use_certificate(self, folder):
        for name, mode in (("server.key", 0o600), ("server.crt", 0o644)):
            shutil.copy(folder / name, self.data / name)
            (self.data / name).chmod(mode)
            if self.user:
                os.chown(self.data / name, self.user.pw_uid, self.user.pw_gid)
        self.configure("ssl = on")

    @property
    def switch(self):
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}

    def command(self, program, *arguments, check=True):
        return subprocess.run(
            [self.programs / program, *arguments], capture_output=True, text=True, check=check, cwd=self.folder,
            timeout=COMMAND_SECONDS + START_SECONDS, **self.switch)

    def control(self, action, *options):
        self.command("pg_ctl", "-D", self.data, "-w", "-t", str(START_SECONDS), action, *options)

    def start(self):
        """It ends with this process."""
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        self.process = Program([self.programs / "postgres", "-D", self.data], self.folder / "log", cwd=self.folder, **self.switch)
        wait_until(self.is_ready, START_SECONDS, f"PostgreSQL starts in {self.folder}", PAUSE)

    def is_ready(self):
        if self.process.status is not None:
            raise RuntimeError(f"PostgreSQL ended with {self.process.status}: {(self.folder / 'log').read_text()[-1000:]}")
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) == STATUS_LINES and lines[-1].strip() in ("ready", "standby")

    def stop(self, mode="fast"):
        self.control("stop", "-m", mode)
        self.process.wait(START_SECONDS)

    def restart(self, mode="fast"):
        self.stop(mode)
        self.start()

    def sql(self, text, database=DATABASE, role=ROLE):
        """The rows as lists of texts."""
        answer = subprocess.run(
            [self.programs / "psql", "-h", self.folder, "-p", str(self.port), "-U", role, "-d", database, "-XtA", "-F", "\t",
             "-v", "ON_ERROR_STOP=1", "-c", text],
            capture_output=True, text=True, timeout=COMMAND_SECONDS)
        if answer.returncode:
            raise RuntimeError(answer.stderr.strip())
        return [line.split("\t") for line in answer.stdout.splitlines()]

    def session(self, database):
        return subprocess.Popen(
            [self.programs / "psql", "-h", self.folder, "-p", str(self.port), "-U", ROLE, "-d", database, "-XtAq"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def value(self, text):
        rows = self.sql(text)
        return rows[0][0] if rows else None

    def close(self):
        if self.process.status is not None:
            return
        try:
            self.stop("immediate")
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            self.process.kill()
