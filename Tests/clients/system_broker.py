"""A broker as the system's, for callers of other users: where it is, they can go."""

import contextlib
import os
import pathlib
import shutil
import tempfile

from grantd_testing import CommandedDaemon, free_ports
from rig import ROBOT, Skip, must

CALLER = "setpriv"


class SystemBroker(CommandedDaemon):
    """Its account, of the name given, needs no person (client_credentials)."""

    instance = "system"

    def __init__(self, stage, account, rules):
        self.stage = stage
        folder = pathlib.Path(tempfile.mkdtemp(prefix="grantd-system-"))
        self.folder = folder
        # Where grantctl would look for the user's own.
        (folder / "grantd").mkdir()
        for path in (folder, folder / "grantd"):
            path.chmod(0o755)
        section = stage.robot.replace(f"[account.{ROBOT}]", f"[account.{account}]")
        super().__init__(stage.programs, folder, free_ports()[0], f"{section}\n{rules}")
        self.socket = folder / "grantd" / "grantd.sock"
        self.grantctl = folder / "grantctl"
        shutil.copy(stage.programs / "grantctl", self.grantctl)

    def close(self):
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, *words, uid=None, inside=(), **more):
        """grantctl, of another user, and then inside of another program."""
        user = () if uid is None else (CALLER, f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
        made = self.stage.environment(GRANTD_SOCKET=str(self.socket), HOME="/") | more
        made = {name: value for name, value in made.items() if value is not None}
        return self.stage.run(*user, *inside, self.grantctl, *words, env=made, cwd="/")


@contextlib.contextmanager
def system_broker(stage, account, rules):
    if os.getuid() != 0:
        raise Skip("only root can start a program as another user")
    broker = SystemBroker(stage, account, rules)
    try:
        broker.start()
        done = broker.ask("--help", uid=65534)
        must(done.status == 0, f"another user cannot start grantctl: {done.text}")
        yield broker
    finally:
        broker.close()
