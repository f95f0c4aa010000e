"""grantctl exec: the environment, a descriptor, a file that is kept fresh; status and signals."""

import os
import pathlib
import signal
import subprocess
import time

from grantd_testing import wait_until
from rig import case, has, must

WAIT_SECONDS = 60
# Less than the time between two looks of the keeper.
LOOK_SECONDS = 45


def run(stage, *arguments, **options):
    return stage.run(stage.bin / "grantctl", "exec", stage.account, *arguments, **options)


@case("exec.environment")
def in_environment(stage):
    must(run(stage, "--", "sh", "-c", 'printf %s "$ACCESS_TOKEN"').ok().out == stage.token(), "ACCESS_TOKEN is not the token")
    must(run(stage, "--env", "X", "--", "sh", "-c", 'printf %s "$X$ACCESS_TOKEN"').ok().out == stage.token(), "--env")


@case("exec.descriptor")
def at_descriptor(stage):
    for number in (3, 9):
        out = run(stage, "--fd", number, "--", "sh", "-c", f"cat <&{number}; env").ok().out
        must(out.startswith(stage.token()) and out.count(stage.token()) == 1, f"descriptor {number}")


@case("exec.status")
def status(stage):
    for number in (0, 1, 6, 200):
        must(run(stage, "--", "sh", "-c", f"exit {number}").status == number, f"status {number}")
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGPIPE):
        must(run(stage, "--", "sh", "-c", f"kill -{number} $$").status == -number, f"signal {number}")
    must(run(stage, "--", "no-such-program").status == 127, "a program that is not there")
    must(run(stage, "--", "/etc/passwd").status == 126 or os.getuid() == 0, "a file that is no program")
    limits = stage.run("sh", "-c", "ulimit -Hc; ulimit -c; grep -E 'SigBlk|SigIgn' /proc/self/status").ok().out
    inside = run(stage, "--", "sh", "-c", "ulimit -Hc; ulimit -c; grep -E 'SigBlk|SigIgn' /proc/self/status").ok().out
    must(limits == inside, f"limits and signals are {inside!r}, not {limits!r}")


@case("exec.front")
def by_front(stage):
    front = stage.bin / "grantctl-front"
    limits = stage.run("sh", "-c", "ulimit -Hc; ulimit -c").ok().out
    inside = stage.run(front, "exec", stage.account, "--", "sh", "-c", "ulimit -Hc; ulimit -c").ok().out
    must(limits == inside, f"limits are {inside!r}, not {limits!r}")


@case("exec.bytes")
def bytes_of_others(stage):
    # Latin-1, in an argument and in a variable.
    odd = b"\xe9\xff"
    environment = {name.encode(): value.encode() for name, value in stage.environment().items()} | {b"ODD": odd}
    command = [stage.bin / "grantctl", "exec", stage.account, "--", "sh", "-c", 'printf "%s %s" "$1" "$ODD"', "sh", odd]
    out = subprocess.run(command, env=environment, stdout=subprocess.PIPE, timeout=WAIT_SECONDS, check=True).stdout
    must(out == odd + b" " + odd, f"the program has {out!r}")


@case("exec.keeper")
def keeper_by_hand(stage):
    folder = stage.home / "kept"
    (folder / "deeper").mkdir(parents=True)
    (folder / "deeper" / "file").write_text("x")
    run = stage.run(stage.bin / "grantctl", "keep-token", stage.account, folder / "deeper")
    must(run.status == 64, f"status {run.status}")
    must((folder / "deeper" / "file").exists(), "a folder is removed")


@case("exec.signal")
def forwarded(stage):
    process = subprocess.Popen(
        [stage.bin / "grantctl", "exec", stage.account, "--", "sh", "-c",
         "trap 'exit 5' INT; echo up; while :; do sleep 0.05; done"],
        stdout=subprocess.PIPE, env=stage.environment())
    try:
        must(process.stdout.readline() == b"up\n", "the program does not start")
        process.send_signal(signal.SIGINT)
        must(process.wait(WAIT_SECONDS) == 5, f"SIGINT: status {process.returncode}")
    finally:
        process.kill()
        process.stdout.close()


@case("exec.file")
def in_file(stage):
    process = subprocess.Popen(
        [stage.bin / "grantctl", "exec", stage.account, "--file-env", "F", "--", "sh", "-c", 'echo "$F"; exec sleep 600'],
        stdout=subprocess.PIPE, text=True, env=stage.environment())
    try:
        path = pathlib.Path(process.stdout.readline().strip())
        must(path.read_text() == stage.token(), "the file has not the token")
        must((path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700), "others can read it")
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        must(children == "", f"the program has children: {children}")
        before = stage.token()
        stage.daemon.ctl("refresh", stage.account)
        must(stage.token() != before, "no new token")
        # The next look is a minute away, unless the token ends before: the file is checked by the keeper's first look.
        wait_until(lambda: path.read_text() == stage.token(), LOOK_SECONDS, "the file has the new token")
        process.terminate()
        must(process.wait(WAIT_SECONDS) == -signal.SIGTERM, f"status {process.returncode}")
        wait_until(lambda: not path.parent.exists(), WAIT_SECONDS, "the file is removed")
    finally:
        process.kill()
        process.stdout.close()


@case("exec.ended")
def ended(stage):
    with stage.ended() as hint:
        done = run(stage, "--", "true")
        must(done.status == 3, f"status {done.status}")
        has(done.err, hint)
        for option in ("--file-env", "--env"):
            must(run(stage, option, "F", "--", "true").status == 3, option)


@case("exec.time")
def quick(stage):
    """What the helper and the exec take beside `grantctl token`."""
    def best(*command, text=None):
        times = []
        for _ in range(12):
            begun = time.monotonic()
            stage.run(*command, text=text)
            times.append(time.monotonic() - begun)
        return min(times)
    stage.map("git.example.com")
    token = best(stage.bin / "grantctl", "token", stage.account)
    helper = best(stage.bin / "git-credential-grantd", "get", text="protocol=https\nhost=git.example.com\n\n")
    # On a slow machine both take longer.
    must(helper - token < max(0.02, token / 2), f"a helper takes {helper * 1000:.1f} ms, grantctl token {token * 1000:.1f} ms")
    print(f"# helper {helper * 1000:.1f} ms, grantctl token {token * 1000:.1f} ms", flush=True)
