"""Before anything works: no broker, a broken configuration, a mistyped command."""

import re
import subprocess

from grantd_testing.places import ROOT
from home import lacks, must, shows
from table import case

SECONDS = 20


@case("no-systemd")
def no_systemd(home):
    """Without systemd, hints start the broker as a program, and none names systemctl."""
    home.configure()
    for words in (["status"], ["token", "work"], ["list", "--user"], ["doctor"], ["doctor", "--user"]):
        done = home.ctl(*words, status=6)
        text = done.stdout + done.stderr
        shows(text, "`grantd --user`")
        lacks(text, "systemctl", "journalctl")
    shows(home.errors("explain", "work", "--unit", "mail", status=1), "systemd does not run here")
    home.start()
    text = home.output("doctor", status=0)
    lacks(text, "systemctl", "not been booted", "Failed to connect to bus")


@case("no-runtime-folder")
def no_runtime_folder(home):
    """Without a login session, grantd names the variable that it needs."""
    folder = home.folder / "missing"
    done = subprocess.run([home.products / "grantd", "--user"], env=home.environment(XDG_RUNTIME_DIR=str(folder)),
                          capture_output=True, text=True, timeout=SECONDS)
    must(done.returncode == 1, f"grantd ends with {done.returncode}")
    shows(done.stderr, str(folder), "Without a login session, set XDG_RUNTIME_DIR to a private folder.")
    folder.mkdir(mode=0o700)
    shows(home.errors("status", XDG_RUNTIME_DIR=str(folder), status=6), "grantd --user")


@case("configuration-error")
def configuration_error(home):
    """After a start that failed, status names the file and the line of the error."""
    home.config.write_text('[callback]\nport = 0\n\n[provider.work]\nisuer = "https://id.example"\n')
    home.launch()
    must(home.process.wait(20) == 78, "grantd starts with an unknown key")
    for words in (["status"], ["status", "--user"]):
        shows(home.errors(*words, status=6), f"{home.config}:5", "isuer", "grantd --user --check-config")
    shows(home.output("doctor", status=6), f"{home.config}:5", "isuer")


@case("mistyped-command")
def mistyped_command(home):
    """A mistyped command or option suggests the nearest."""
    for words, wanted in (("tokn work", "`grantctl token`"), ("lsit", "`grantctl list`"), ("stat", "`grantctl status`"),
                          ("provider regsiter x", "`grantctl provider register`"),
                          ("key rotat", "`grantctl key rotate`"), ("token work --timeuot 3", "'--timeout'")):
        shows(home.errors(*words.split(), status=64), "Did you mean", wanted)
    for words, group, word in (("tokn work", "grantctl", "tokn"), ("--json tokn", "grantctl", "tokn"),
                               ("provider regsiter x", "grantctl provider", "regsiter"),
                               ("frobnicate", "grantctl", "frobnicate")):
        text = home.errors(*words.split(), status=64)
        shows(text, f"{group} has no command “{word}”", "--help")
        lacks(text, "nexpected argument")
    lacks(home.errors("frobnicate", status=64), "Did you mean")


@case("missing-account")
def missing_account(home):
    """A command without its account lists the accounts."""
    home.start(demo=home.provider())
    shows(home.errors("token", status=64), "Missing expected argument '<account>'", "Accounts: none yet", "grantctl login")
    for name in ("work", "home"):
        home.sign_in("demo", name)
    for words in (["token"], ["show"], ["request"], ["--user", "token"]):
        shows(home.errors(*words, status=64), "Missing expected argument '<account>'", "Accounts: home, work")
    shows(home.errors("login", status=64), "<provider>", "Providers: demo")
    home.stop()
    must(not re.search("Accounts", home.errors("token", status=64)), "accounts are named without a broker")


@case("invalid-name")
def invalid_name(home):
    """A name with other characters is repeated, with those that a name can have."""
    home.start(demo=home.provider())
    for words in (["token", "we ird"], ["show", "we ird"], ["login", "demo", "we ird"], ["token", "wörk"],
                  ["token", ""]):
        text = home.errors(*words, status=64)
        shows(text, f'account: "{words[-1]}" is not an account name', "A-Z a-z 0-9 . _ @ + -", "`grantctl list`")
        lacks(text, "params")
    shows(home.errors("login", "de mo", status=64), 'provider: "de mo" is not a provider\'s name',
          "`grantctl provider list`")


@case("help-width")
def help_width(home):
    """The help of make, and of each program, fits a terminal of 80 columns."""
    for command in (["make", "-C", ROOT, "--no-print-directory", "help"], [home.products / "grantd", "--help"],
                    [home.products / "grantctl", "--help"]):
        done = subprocess.run(command, env=home.environment(), capture_output=True, text=True, timeout=SECONDS)
        must(done.returncode == 0 and len(done.stdout.splitlines()) > 20, f"{command[0]} prints no help: {done.stderr}")
        wide = [line for line in done.stdout.splitlines() if len(line) > 80]
        must(not wide, f"lines of {command[0]} are wider than 80 columns: {wide}")
