"""A PostgreSQL server of the test's own: in a temporary folder, as an unprivileged user, on a Unix socket."""

import os
import pathlib
import pwd
import shutil
import subprocess

START_SECONDS = 30
COMMAND_SECONDS = 30
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


class Cluster:
    def __init__(self, folder, settings="", certificate=None):
        """`certificate`: a folder for one of localhost and its authority; then connections over TCP need a password."""
        self.programs, self.folder, self.data = folder_of_programs(), folder, folder / "data"
        # PostgreSQL refuses to run as root.
        self.user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        folder.mkdir()
        if self.user:
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        self.command("initdb", "-D", self.data, "-A", "trust", "-U", ROLE, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        with open(self.data / "postgresql.conf", "a") as file:
            file.write(f"listen_addresses = ''\nunix_socket_directories = '{folder}'\nmax_connections = 60\n{settings}\n")
        if certificate:
            self.secure(certificate)
            self.start()
            return
        self.start()
        self.command("createdb", "-h", folder, "-U", ROLE, DATABASE)

    def secure(self, folder):
        def openssl(*arguments):
            subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=COMMAND_SECONDS)

        authority, key = folder / "authority.pem", folder / "authority.key"
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", authority, "-days", "2", "-subj",
                "/CN=authority")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "server.key", "-out", folder / "server.csr",
                "-subj", "/CN=localhost")
        (folder / "names").write_text("subjectAltName = DNS:localhost\n")
        openssl("x509", "-req", "-in", folder / "server.csr", "-CA", authority, "-CAkey", key, "-CAcreateserial", "-days", "2",
                "-extfile", folder / "names", "-out", folder / "server.crt")
        for name, mode in (("server.key", 0o600), ("server.crt", 0o644)):
            shutil.copy(folder / name, self.data / name)
            (self.data / name).chmod(mode)
            if self.user:
                os.chown(self.data / name, self.user.pw_uid, self.user.pw_gid)
        # PostgreSQL's single-user mode sets the password before the first start.
        switch = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        subprocess.run(
            [self.programs / "postgres", "--single", "-D", self.data, "postgres"], text=True, check=True, cwd=self.folder,
            input=f"ALTER ROLE {ROLE} PASSWORD 'secret'\n", capture_output=True, timeout=COMMAND_SECONDS, **switch)
        with open(self.data / "postgresql.conf", "a") as file:
            file.write("ssl = on\n")
        (self.data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")

    def command(self, program, *arguments, check=True):
        switch = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        return subprocess.run(
            [self.programs / program, *arguments], capture_output=True, text=True, check=check, cwd=self.folder,
            timeout=COMMAND_SECONDS + START_SECONDS, **switch)

    def control(self, action, *options):
        log = self.folder / "log"
        # Its output goes to the log: the server keeps the pipe of a caller open.
        switch = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        subprocess.run(
            [self.programs / "pg_ctl", "-D", self.data, "-l", log, "-w", "-t", str(START_SECONDS), action, *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, cwd=self.folder, **switch)

    def start(self):
        self.control("start")

    def stop(self, mode="fast"):
        self.control("stop", "-m", mode)

    def restart(self, mode="fast"):
        self.control("restart", "-m", mode)

    def sql(self, text, database=DATABASE, role=ROLE):
        """The rows as lists of texts."""
        answer = subprocess.run(
            [self.programs / "psql", "-h", self.folder, "-U", role, "-d", database, "-XtA", "-F", "\t", "-v",
             "ON_ERROR_STOP=1", "-c", text],
            capture_output=True, text=True, timeout=COMMAND_SECONDS)
        if answer.returncode:
            raise RuntimeError(answer.stderr.strip())
        return [line.split("\t") for line in answer.stdout.splitlines()]

    def session(self, database):
        return subprocess.Popen(
            [self.programs / "psql", "-h", self.folder, "-U", ROLE, "-d", database, "-XtAq"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)

    def value(self, text):
        rows = self.sql(text)
        return rows[0][0] if rows else None

    def close(self):
        try:
            self.stop("immediate")
        except subprocess.CalledProcessError:
            pass
