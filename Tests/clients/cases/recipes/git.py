"""git with each forge, as its page has it: a server of the case has the forge's name."""

from cases.git import repository
from recipes import recipe
from rig import must

# The user name that each wants beside a token; Azure DevOps and GitHub take any.
FORGES = {
    "git-github": ("github.com", "example/project.git", "oauth2"),
    "git-gitlab": ("gitlab.com", "example/project.git", "oauth2"),
    "git-bitbucket": ("bitbucket.org", "example/project.git", "x-token-auth"),
    "git-azure-devops": ("dev.azure.com", "example/project/_git/project", "oauth2"),
}


def forge(page_name, host, path, user):
    @recipe(page_name, "git")
    def run(stage, page):
        server = repository(stage, path)
        stage.file(".gitconfig", f"[http]\n\tsslCAInfo = {stage.ca}\n[credential]\n\thelper = store\n")
        page.answer({host: server})
        page.more |= {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
        page.checks()
        page.run().ok()
        page.is_written("~/.gitconfig")
        must((stage.home / "project" / ".git").is_dir(), "no clone")
        must((user, stage.token()) in server.seen, f"{host} was not asked as {user}")
        must(not (stage.home / ".git-credentials").exists(), "another helper stored the token")
        page.ended()


for name, facts in FORGES.items():
    forge(name, *facts)
