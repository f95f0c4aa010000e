"""What a tool is configured with."""

from home import lacks, must, shows
from table import case


@case("configure-tab")
def tab(home):
    """The lines for git's configuration are indented by a tab, not by the characters of its escape."""
    home.start(demo=home.provider())
    home.sign_in("demo", "work")
    text = home.output("configure", "git", "work", "git.example.com")
    must("\n\thelper = " in text, f"no line begins with a tab and helper: {text!r}")
    must("\\t" not in text, f"a tab is escaped: {text!r}")


@case("configure-writes-nothing")
def writes_nothing(home):
    """Without --write the command reports on standard error that it wrote nothing."""
    home.start(demo=home.provider())
    home.sign_in("demo", "work")
    words, file = ("configure", "git", "work", "git.example.com"), home.folder / ".gitconfig"
    done = home.ctl(*words, status=0)
    shows(done.stderr, "Nothing was written", "--write", "--diff")
    lacks(done.stdout, "Nothing was written")
    must(not file.exists(), "a file was written")
    lacks(home.ctl(*words, "--write", status=0).stderr, "Nothing was written")
    must(file.exists(), "no file was written")
