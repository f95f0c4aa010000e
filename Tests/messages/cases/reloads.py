"""Reloads of the configuration."""

import subprocess

from grantd_testing import free_ports
from home import lacks, must
from table import case


@case("two-reloads")
def two_reloads(home):
    """Reloads at once after a changed port are all accepted, and it is served at the end."""
    home.start(demo=home.provider())
    for _ in range(10):
        port = free_ports()[0]
        home.configure(f'[http]\nlisten = "127.0.0.1:{port}"\n')
        running = [subprocess.Popen([home.products / "grantctl", "reload"], env=home.environment(), text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
        for one in running:
            output, errors = one.communicate(timeout=120)
            must(one.returncode == 0, f"a reload is refused: {errors}")
            lacks(output + errors, "cannot be served")
        listener = home.call("broker.status")["listeners"][0]
        must((listener["state"], listener["address"]) == ("ok", f"127.0.0.1:{port}"), f"the listener is {listener}")
