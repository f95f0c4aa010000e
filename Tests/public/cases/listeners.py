"""The callback's address: localhost, 127.0.0.1, ::1, and a port that another process has."""

import socket
import urllib.parse

from browser import browse
from rig import Skip, must, same
from table import oidc, row


def listen(scene, host):
    """A foreign listener on a port that the kernel chooses; the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        one = scene.keep(socket.socket(family))
        one.bind((host, 0))
        one.listen()
    except OSError as error:
        raise Skip(f"this machine has no {host}: {error}") from error
    return one.getsockname()[1]


@row("C08", "punkpeye/mcp-remote#61, #81, anthropics/claude-code#86233", oidc(redirect_uri="http://localhost/callback"), oidc(),
     oidc(redirect_uri="http://[::1]/callback"))
def loopback_names(scene, named, numbered, six):
    """providers differ on localhost, 127.0.0.1 and ::1"""
    listen(scene, "::1")
    for site, host in ((named, "localhost"), (numbered, "127.0.0.1"), (six, "::1")):
        for address in ("127.0.0.1", "::1"):
            login = site.start(f"{site.name}-{'six' if ':' in address else 'four'}")
            url = login.callback()
            parts = urllib.parse.urlsplit(url)
            same(parts.hostname, host, "the host of the redirect URI")
            if site is named or address == host:
                same(browse(url, host=address).status, 200, f"the status of the callback at {address}")
                login.completed()


def taken(scene):
    """Two redirect URIs whose port another process has: on ::1 only, and on 127.0.0.1 only."""
    scene.ports = [listen(scene, host) for host in ("::1", "127.0.0.1")]
    for site, port in zip(scene.sites, scene.ports):
        site.keys["redirect_uri"] = f"http://localhost:{port}/callback"
    return ""


@row("C09", "giantswarm/muster#1280, can1357/oh-my-pi PR 3889, balena-io/balena-cli#1765", oidc(), oidc(), own=taken)
def port_taken(scene, *sites):
    """another process has the port, or only the port on ::1, and the login waits in silence"""
    for site, port in zip(sites, scene.ports):
        login = site.start()
        warnings = login.result["warnings"]
        must(any(str(port) in warning for warning in warnings), f"no warning names port {port}: {warnings}")
        # The manual way completes it.
        result = site.broker.call("login.handle_callback", url=login.callback())
        must(result["handled"], f"the pasted URL is not handled: {result}")
        login.completed()
