"""Backups: the file and the broker are checked before the passphrase is typed."""

from home import lacks, must, shows
from table import case

PASSPHRASE = "eleven small 7 boats"


def ends_without_prompt(home, *words, status):
    terminal = home.terminal(*words)
    text = terminal.end()
    must(terminal.status == status, f"{' '.join(words)} ends with {terminal.status}: {text}")
    lacks(text, "it is not shown")
    return text


@case("backup-checks-first")
def checks_first(home):
    """A missing folder, an existing file, no broker or a locked one end the command before the prompt."""
    file = str(home.folder / "copy")
    shows(ends_without_prompt(home, "backup", file, status=6), "grantd is not running")
    home.start(demo=home.provider())
    home.sign_in("demo", "work")
    for path, reason, status in ((f"{home.folder}/none/copy", "No such file or directory", 1),
                                 (f"{home.log}/copy", "is not a folder", 1), (str(home.log), "already exists", 64),
                                 (str(home.folder), "Name a file in it: `grantctl backup", 64),
                                 ("/proc/copy", "the backup cannot be written to /proc/copy", 1)):
        shows(ends_without_prompt(home, "backup", path, status=status), reason)
    text = ends_without_prompt(home, "backup", f"{home.folder}/none/copy", status=1)
    shows(text, "Give a file in a folder that exists")
    home.ctl("lock", "--passphrase-file", "-", text=PASSPHRASE + "\n", status=0)
    shows(ends_without_prompt(home, "backup", file, status=5), "the broker is locked", "grantctl unlock")
    home.ctl("unlock", "--passphrase-file", "-", text=PASSPHRASE + "\n", status=0)
    home.ctl("backup", file, "--passphrase-file", "-", text=PASSPHRASE + "\n", status=0)
