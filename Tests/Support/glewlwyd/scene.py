"""What the checks of the protocol happen in: clients, sections of the configuration, a relay."""

import json
import re
import signal

from grantd_testing import free_ports, products
from relay import Relay
from rig import COMMAND_SECONDS, Broker, Glewlwyd, Scene, provider_section, run, secret_file

ACCESS_TTL = 300
POLL_SECONDS = 2       # glewlwyd slows down whoever polls more often
JWT_SECRET = "conf-csjwt-secret-0123456789-0123456789"
KEYS = {"ES256": "EC256", "RS256": "RSA2048", "PS256": "RSA2048", "EdDSA": "Ed25519"}  # as rnbyc calls their types
SIGNERS = {"es256": ("ec-1", "ES256"), "eddsa": ("ed-1", "EdDSA")}  # provider → (glewlwyd's key, its algorithm)
SCOPES_OF_API = {"openid", "api.read", "offline_access"}


def client_keys(folder):
    """The client's keys, a file each, and the file that the server is told of."""
    options = [option for alg, kind in KEYS.items() for option in ("-g", kind, "-k", f"key-{alg}", "-a", alg)]
    made = run(["rnbyc", "-j", *options, "-o", folder / "private.jwks", "-p", folder / "public.jwks", "-n", "0"])
    assert made.returncode == 0, made.stdout + made.stderr
    for key in json.loads((folder / "private.jwks").read_text())["keys"]:
        secret_file(folder, "key-" + key["alg"], json.dumps(key))
    return folder / "public.jwks"


class ProtocolScene(Scene):
    """A server with all that it has, a broker with a section for each, and the steps that checks share."""

    children = relay = None

    def prepare(self, folder):
        self.children = []
        (port,) = free_ports()
        self.callback = f"http://127.0.0.1:{port}"
        self.secrets = ["conf-basic-secret", JWT_SECRET]
        self.glewlwyd = Glewlwyd(
            folder, f"{self.callback}/callback", "--access-ttl", str(ACCESS_TTL), "--client-jwks", client_keys(folder),
            "--set", "oauth-dpop-nonce-mandatory=true", "--set", f"device-authorization-interval={POLL_SECONDS}")
        self.relay = Relay(self.glewlwyd.info["base"], {"/api/oidc/device_authorization": {"interval": 1}})
        self.glewlwyd.allow_client_properties("backchannel_logout_uri")
        self.add_clients()
        self.broker = Broker(products(), folder, port, self.sections(folder))

    def add_clients(self):
        """Those that start.py has not: one for each signing key, and one that is told of logouts."""
        base = self.glewlwyd.admin("GET", "/client/native-public")
        for name, (key, _) in SIGNERS.items():
            self.glewlwyd.admin("POST", "/client/", base | {"client_id": name, "sign_kid": key})
        self.glewlwyd.admin("POST", "/client/", base | {
            "client_id": "leaving", "post_logout_redirect_uris": [f"{self.callback}/signed-out"],
            "backchannel_logout_uri": f"{self.callback}/backchannel-logout/leaving"})

    def sections(self, folder):
        issuer = self.glewlwyd.info["issuer"]
        public = {
            "par": 'par = "always"\n',
            "dpop": "dpop = true\n",
            "device": "",
            "hasty": f'device_authorization_endpoint = "{self.relay.url}/api/oidc/device_authorization"\n'
                     f'token_endpoint = "{self.relay.url}/api/oidc/token"\n',
            "jarm": 'response_mode = "jwt"\n',
            "rotated": "",
            "detailed": 'authorization_details = [{ type = "payment", actions = ["read"] }]\n',
        }
        text = "".join(provider_section(name, issuer, "native-public", more=more) for name, more in public.items())
        for name, (_, algorithm) in SIGNERS.items():
            text += provider_section(name, issuer, name, more=f'id_token_algorithms = ["{algorithm}"]\n')
        for alg in KEYS:
            text += provider_section("pkjwt-" + alg, issuer, "conf-pkjwt", more=self.key(folder, alg))
        text += provider_section(
            "signed-request", issuer, "conf-pkjwt", more=self.key(folder, "ES256") + 'request_object = true\npar = "always"\n')
        text += provider_section(
            "csjwt", issuer, "conf-csjwt", secret_file(folder, "csjwt", JWT_SECRET), "client_secret_jwt",
            'client_assertion_audience = "endpoint"\n')
        text += provider_section(
            "basic", issuer, "conf-basic", secret_file(folder, "basic", "conf-basic-secret"), "client_secret_basic",
            f"scopes = {json.dumps(sorted(SCOPES_OF_API))}\nnarrow_tokens = \"verified\"\n")
        text += provider_section(
            "leaving", issuer, "leaving",
            more='post_logout_redirect_uri = "http://127.0.0.1/signed-out"\nbackchannel_logout = true\n')
        return text + ('[account.robot]\nprovider = "basic"\ngrant = "client_credentials"\nscopes = ["api.read"]\n')

    def key(self, folder, alg):
        # glewlwyd wants each endpoint's own address in the assertions for it.
        return (f'client_key_file = "{folder}/key-{alg}.secret"\ntoken_endpoint_auth_method = "private_key_jwt"\n'
                f'client_assertion_audience = "endpoint"\n')

    def login(self, provider, *options, consent=(), user="alice"):
        url = self.broker.login(self.glewlwyd, provider, provider, user, options, consent)
        assert self.broker.account(provider)["state"] == "ok"
        return url

    def token_is_good(self, account):
        subject = self.broker.account(account)["identity"]["subject"]
        assert self.glewlwyd.userinfo(self.broker.token(account))["sub"] == subject

    def introspected(self, token):
        return self.glewlwyd.introspect(token, "conf-basic", "conf-basic-secret")

    def logout(self, account, result):
        answer = self.broker.json("logout", account, status=0 if result == "done" else 1)
        steps = {step["step"]: step["result"] for step in answer["steps"]}
        assert steps == {"revoke_refresh_token": result, "revoke_access_token": result, "forget": "done"}, steps

    def device_login(self, provider):
        """The command that waits, and the code for the person."""
        waiting = self.broker.waiting("login", provider, provider, "--device")
        self.children.append(waiting)
        for line in waiting.stdout:
            code = re.fullmatch(r"\s*(\w{4}-\w{4})\s*", line)
            if code:
                return waiting, code.group(1)
        raise AssertionError("no code: " + waiting.stderr.read())

    def finish(self, waiting):
        out, err = waiting.communicate(timeout=COMMAND_SECONDS)
        assert waiting.returncode == 0, f"{waiting.returncode} {out}{err}"

    def stopped(self):
        status = self.broker.end(signal.SIGTERM)
        assert status == 0, status

    def close(self):
        for child in self.children or []:
            child.kill()
        if self.relay:
            self.relay.close()
        super().close()
