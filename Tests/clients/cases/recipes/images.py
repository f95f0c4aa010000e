"""docker, podman and skopeo, as their pages have them."""

from cases.registries import Registry
from recipes import recipe
from rig import Skip, has, must

HOST = "registry.example.com"
AUTH, MAPPING = "~/.config/containers/auth.json", "~/.config/grantd/helper.toml"


def registry(stage, page):
    server = stage.serve(Registry)
    page.answer({HOST: server})
    # Where the user's own login would be found first.
    page.more["XDG_RUNTIME_DIR"] = str(stage.home)
    return server


def asked(stage, server):
    must(("robot", stage.token()) in server.seen, f"the token service was asked by {server.seen}")


@recipe("docker", "docker")
def docker(stage, page):
    server = registry(stage, page)
    has(page.run().ok().out, "schemaVersion")
    page.is_written("~/.docker/config.json")
    page.is_written(MAPPING)
    asked(stage, server)
    page.ended()


@recipe("podman", "podman", "buildah")
def podman(stage, page):
    server = registry(stage, page)
    storage = stage.folder / "images"
    page.more["CONTAINERS_STORAGE_CONF"] = str(stage.file(
        "storage.conf", f'[storage]\ndriver = "vfs"\ngraphroot = "{storage}/graph"\nrunroot = "{storage}/run"\n'))
    if (done := page.shell("podman info")).status:
        raise Skip(f"podman does not work here: {done.err}")
    page.write(AUTH, MAPPING)
    page.run().ok()
    asked(stage, server)
    page.ended()


@recipe("skopeo", "skopeo")
def skopeo(stage, page):
    server = registry(stage, page)
    page.write(AUTH, MAPPING)
    has(page.run().ok().out, '"latest"')
    asked(stage, server)
    page.ended()
