"""What a tool is configured with."""

from home import must
from table import case


@case("configure-tab")
def tab(home):
    """The lines for git's configuration are indented by a tab, not by the characters of its escape."""
    home.start(demo=home.provider())
    home.sign_in("demo", "work")
    text = home.output("configure", "git", "work", "git.example.com")
    must("\n\thelper = " in text, f"no line begins with a tab and helper: {text!r}")
    must("\\t" not in text, f"a tab is escaped: {text!r}")
