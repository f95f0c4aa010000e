"""grantctl configure: what it writes works, twice is once, and --undo puts the files right."""

import pathlib

from cases import aws, git, kubernetes, languages, python, registries
from rig import ROBOT, case, find, has, must


def snapshot(stage):
    """Of the programs' files; backups and what programs keep for themselves are none."""
    names = [".gitconfig", ".docker/config.json", ".kube/config", ".aws/config", ".cargo/config.toml", ".config/pip/pip.conf",
             ".config/uv/uv.toml", ".config/go/env", ".config/grantd/helper.toml", ".terraformrc"]
    return {name: (stage.home / name).read_text() for name in names if (stage.home / name).exists()}


def configure(stage, *words):
    return stage.run(stage.bin / "grantctl", "configure", *words).ok()


def cycle(stage, words, use):
    """Use fails before, works after --write, which may be repeated, and fails after --undo."""
    stage.mapping.unlink(missing_ok=True)
    before = snapshot(stage)
    use().fails()
    configure(stage, *words)
    must(snapshot(stage) == before, "without --write something changed")
    configure(stage, *words, "--write")
    written = snapshot(stage)
    use().ok()
    configure(stage, *words, "--write")
    must(snapshot(stage) == written, "twice is not once")
    configure(stage, *words, "--undo")
    must(snapshot(stage) == before, f"after --undo: {snapshot(stage)}, before: {before}")
    use().fails()


@case("configure.git", "git")
def for_git(stage):
    server = git.setting(stage)
    path = stage.home / ".gitconfig"
    path.write_text(path.read_text().replace("[credential]\n\thelper = grantd\n", ""))
    cycle(stage, ("git", stage.account, server.place), lambda: git.git(stage, "ls-remote", f"{server.url}/r.git"))


@case("configure.git_paths", "git")
def for_git_paths(stage):
    """Two accounts at one host, by path; and entries with a path, which want useHttpPath."""
    server = git.setting(stage)
    team = server.root / "team" / "r.git"
    stage.run("git", "init", "--quiet", "--bare", "-b", "main", team).ok()
    path = stage.home / ".gitconfig"
    before = path.read_text().replace("[credential]\n\thelper = grantd\n", "")
    path.write_text(before)
    places = {"team/r.git": ROBOT, "r.git": stage.account}

    def accounts():
        for repository, account in places.items():
            server.seen.clear()
            git.git(stage, "ls-remote", f"{server.url}/{repository}").ok()
            tokens = {token for _, token in server.seen} - {None}
            must(tokens == {stage.token(account)}, f"{repository} was not asked as {account}")
    # The host's section is the later one, and stands before that of the path.
    words = (("git", ROBOT, f"{server.url}/team"), ("git", stage.account, server.place))
    for one in words * 2:
        configure(stage, *one, "--write")
    accounts()
    for one in words:
        configure(stage, *one, "--undo")
    must(path.read_text() == before, path.read_text())
    path.write_text(before + f'[credential]\n\thelper = grantd\n[credential "{server.url}"]\n\tuseHttpPath = true\n')
    stage.map(server.place)
    stage.mapping.write_text(stage.mapping.read_text() + (
        f'[[host]]\nname = "{server.place}"\naccount = "{ROBOT}"\npath = "/team"\n'))
    accounts()


@case("configure.docker", "skopeo")
def for_docker(stage):
    server = registries.setting(stage)
    stage.file(".docker/config.json", '{\n  "auths": {}\n}\n')
    cycle(stage, ("docker", stage.account, server.place), lambda: registries.skopeo(stage, server))


@case("configure.pip")
def for_pip(stage):
    server = stage.serve(python.Index)
    for _, program in python.pips(stage):
        made = python.real(stage)
        del made["PIP_CONFIG_FILE"], made["PIP_KEYRING_PROVIDER"]
        cycle(stage, ("pip", stage.account, f"{server.url}/simple/"), lambda: stage.run(
            program, "download", "--no-input", "--no-deps", "-d", stage.folder / "pip-target", "grantd-sample", env=made))


@case("configure.uv", "uv")
def for_uv(stage):
    server = stage.serve(python.Index)
    cycle(stage, ("uv", stage.account, f"{server.url}/simple/"), lambda: stage.run(
        find("uv"), "pip", "install", "--no-cache", "--reinstall", "--python", find("python3"), "--target",
        stage.folder / "uv-target", "grantd-sample", env=python.real(stage)))


@case("configure.kubectl", "kubectl")
def for_kubectl(stage):
    server = stage.serve(kubernetes.Cluster)
    path = kubernetes.configuration(stage, server)
    words = ("kubectl", stage.account)
    configure(stage, *words, "--write")
    configure(stage, *words, "--write")
    kubernetes.kubectl(stage, "config", "set-context", "c", f"--user=grantd-{stage.account}").ok()
    has(kubernetes.kubectl(stage).ok().out, "pod-1")
    must(path.with_name("config.grantd-backup").exists(), "no backup")
    configure(stage, *words, "--undo")
    configure(stage, *words, "--undo")
    must(f"name: grantd-{stage.account}" not in path.read_text(), path.read_text())
    # Of several files the one that has the user, else the first that is there.
    files = [stage.folder / f"kube-{number}" for number in range(3)]
    for one in files[1:]:
        one.write_text(path.read_text())
    files.append(stage.folder / "kube-none")
    listed = {"KUBECONFIG": ":".join(map(str, files))}
    before = path.read_text()
    kubernetes.kubectl(stage, "config", "set-credentials", f"grantd-{stage.account}", f"--kubeconfig={files[2]}").ok()
    old = [one.read_text() for one in files[1:3]]
    stage.run(stage.bin / "grantctl", "configure", *words, "--write", **listed).ok()
    must("exec:" in files[2].read_text() and files[1].read_text() == old[0], "the file with the user is another")
    must(pathlib.Path(f"{files[2]}.grantd-backup").read_text() == old[1], "the backup is of another file")
    stage.run(stage.bin / "grantctl", "configure", *words, "--undo", **listed).ok()
    must(f"name: grantd-{stage.account}" not in files[2].read_text(), "it is still there")
    stage.run(stage.bin / "grantctl", "configure", *words, "--write", **listed).ok()
    must(f"name: grantd-{stage.account}" in files[1].read_text(), "it is not in the first file that is there")
    must(path.read_text() == before and not files[0].exists() and not files[3].exists(), "another file changed")


@case("configure.cargo", "cargo")
def for_cargo(stage):
    server = languages.serve(stage, languages.crates)
    # cargo reads the file of the home folder too, since the project is below it.
    project = stage.home / "crate"
    (project / "src").mkdir(parents=True, exist_ok=True)
    (project / "src" / "lib.rs").write_text("")
    (project / "Cargo.toml").write_text(
        '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n'
        f'sample = {{ version = "1", registry = "{stage.account}" }}\n')
    stage.file(".cargo/config.toml", f'[http]\ncainfo = "{stage.ca}"\n')

    def use():
        (project / "Cargo.lock").unlink(missing_ok=True)
        return stage.run(find("cargo"), "generate-lockfile", cwd=project, **languages.rust(stage))
    cycle(stage, ("cargo", stage.account, f"sparse+{server.url}/"), use)


@case("configure.go", "go")
def for_go(stage):
    server = languages.serve(stage, languages.modules)
    cycle(stage, ("go", stage.account, server.place), lambda: languages.go(stage, server, GOAUTH=None))
    # Go has one setting for all hosts, which stays for the others.
    other = languages.serve(stage, languages.modules)
    for one in (server, other):
        configure(stage, "go", stage.account, one.place, "--write")
    for one in (server, other):
        languages.go(stage, one, GOAUTH=None).ok()
    configure(stage, "go", stage.account, server.place, "--undo")
    languages.go(stage, server, GOAUTH=None).fails()
    languages.go(stage, other, GOAUTH=None).ok()
    configure(stage, "go", stage.account, other.place, "--undo")
    must(not (stage.home / ".config/go/env").exists(), "the setting stays without a host")


@case("configure.terraform", "terraform")
def for_terraform(stage):
    """It takes one helper for all hosts, which stays for the others."""
    server = languages.serve(stage, languages.discovery)
    hosts = ("one.example.com", "two.example.com")
    init = languages.terraform(stage, server, *hosts)
    stage.mapping.unlink()
    before = snapshot(stage)

    def sent(host):
        init(host)
        must(server.seen, f"{host} was not asked")
        return (languages.VERSIONS, stage.token()) in server.seen
    for host in hosts * 2:
        configure(stage, "terraform", stage.account, host, "--write")
    must(all(map(sent, hosts)), "a host did not get the token")
    configure(stage, "terraform", stage.account, hosts[0], "--undo")
    must([sent(host) for host in hosts] == [False, True], "the other host did not keep the helper")
    configure(stage, "terraform", stage.account, hosts[1], "--undo")
    must(snapshot(stage) == before, f"after --undo: {snapshot(stage)}")


@case("configure.aws", "aws", "curl")
def for_aws(stage):
    server = stage.serve(aws.SecurityTokenService)
    stage.file(".aws/config", "[default]\nregion = eu-west-1\n")
    cycle(stage, ("aws", ROBOT, "--role", aws.ROLE), lambda: aws.identity(stage, server, profile=ROBOT))


@case("configure.gcloud", "gcloud")
def for_gcloud(stage):
    said = configure(stage, "gcloud", stage.account).err
    has(said, f"grantctl exec {stage.account} --env CLOUDSDK_AUTH_ACCESS_TOKEN -- gcloud")
    done = stage.run(stage.bin / "grantctl", "exec", stage.account, "--env", "CLOUDSDK_AUTH_ACCESS_TOKEN", "--",
                     find("gcloud"), "auth", "print-access-token")
    must(done.ok().out.strip() == stage.token(), done.text)
