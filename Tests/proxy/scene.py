"""What a case runs on: a provider with a name that only the proxy knows, proxies, and a broker."""

import contextlib
import pathlib
import ssl
import subprocess
import urllib.parse

from browser import browse
from provider import CLIENT, Provider
from rig import Broker, Login, Site, must, toml
from server import Request
from table import Section

from servers import Names, Tinyproxy

HOST = "login.example.test"
ACCOUNT = "work"


def certificate(folder):
    """A certificate of this suite's authority, which is the certificate itself, for servers and clients."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=proxy", "-addext", f"subjectAltName=DNS:{HOST},DNS:localhost,IP:0.0.0.0,IP:127.0.0.1", "-keyout",
         folder / "tls.key", "-out", folder / "tls.pem"], check=True, capture_output=True)
    (folder / "tls.key").chmod(0o600)


class Scene:
    def __init__(self, programs, folder, shared):
        self.programs, self.folder, self.shared, self.closing = programs, folder, shared, []
        self.names = self.closed(Names())
        self.broker, self.site, self.fake = Broker(programs, folder), None, None

    def closed(self, one):
        self.closing.append(one)
        return one

    def close(self):
        if self.broker.process:
            self.broker.process.stop()
        for one in reversed(self.closing):
            with contextlib.suppress(OSError):
                one.close()

    def tinyproxy(self, *lines, **options):
        return self.closed(Tinyproxy(self.folder, self.names, *lines, **options))

    def secret(self, text):
        path = self.folder / "password"
        path.write_text(text + "\n")
        path.chmod(0o600)
        return path

    def provider(self, host=HOST, secure=True, client_certificate=False, **keys):
        """The provider, on a port of all addresses of this machine."""
        context = None
        if secure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.shared / "tls.pem", self.shared / "tls.key")
            keys["tls_ca_file"] = str(self.shared / "tls.pem")
        else:
            keys["allow_insecure_http"] = True
        if client_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.shared / "tls.pem")
            keys |= {"tls_certificate_file": str(self.shared / "tls.pem"), "tls_key_file": str(self.shared / "tls.key")}
        self.site = Site("p", Section({}))
        self.site.fake.close()
        self.fake = self.site.fake = self.closed(Provider(context=context, host=host))
        self.site.broker = self.broker
        self.site.keys = {"issuer": self.fake.issuer, "client_id": CLIENT, "scopes": ["openid"], "api_base": self.fake.issuer,
                          "allow_insecure_http": True} | keys
        self.target = f"{host}:{self.fake.server.port}"
        return self.fake

    def configure(self, **proxy):
        lines = ["[callback]", "port = 0", "[http]", 'unix = "http.sock"']
        if proxy:
            lines.append("[proxy]")
            lines += [f"{name} = {toml(value if isinstance(value, list) else str(value))}" for name, value in proxy.items()]
        self.broker.configure("\n".join(lines) + "\n", [self.site] if self.site else [])

    def start(self, variables=None, **proxy):
        """grantd with these keys of `[proxy]`, and these variables in its environment."""
        self.configure(**proxy)
        self.broker.launch(**variables or {})
        self.broker.ready()

    def sign_in(self):
        """A login; the user's browser has its own way to the provider."""
        login = Login(self.site, self.broker.call("login.start", provider="p", account=ACCOUNT, login_hint=ACCOUNT,
                                                  destinations=["manual"]))
        answer = self.fake.answer_authorize(Request("GET", login.url(), {}, b""))
        callback = dict(answer.fields)["Location"]
        must(urllib.parse.urlsplit(callback).hostname in ("127.0.0.1", "localhost"), f"the callback is {callback}")
        browse(callback)
        return login.completed()

    def refused(self):
        """The text, the hint and the code of the error of a login that cannot begin."""
        error = self.broker.refused("login.start", provider="p", account=ACCOUNT, destinations=["manual"])
        return f"{error}", error.data.get("hint", ""), error

    def ctl(self, *arguments, **more):
        return self.broker.ctl(*arguments, **more)

    @property
    def log(self):
        return self.broker.log.read_text(errors="replace")

    @property
    def http_socket(self):
        return pathlib.Path(self.folder) / "http.sock"
