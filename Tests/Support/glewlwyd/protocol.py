"""The extensions of OAuth and OpenID Connect that glewlwyd has, each used through the real grantd.

What glewlwyd 2.7 has not, and what is therefore checked against DemoProvider alone:

- redirect URIs with any port; a JSON `invalid_grant`; `access_denied` at the callback; a grace after a rotation
- revocation by public clients
- a way to a nonce at the pushed request endpoint: it refuses the proof, and names none
- logout tokens with `exp`, without which grantd takes none
- fewer scopes at a refresh: it gives the whole
- DPoP in the answer of its introspection
- token exchange (RFC 8693), JWT bearer grants (RFC 7523 §2.1), signed UserInfo
"""

import json
import urllib.error
import urllib.request

from rig import REQUEST_SECONDS, claims, parameters, run, until
from scene import KEYS, SCOPES_OF_API, SIGNERS, ProtocolScene

SLOWED_SECONDS = 6     # after slow_down: the relay's 1 and RFC 8628's 5


class Protocol(ProtocolScene):
    def par(self):
        url = self.login("par", consent=("--scope", "openid profile email offline_access"))
        asked = parameters(url)
        assert set(asked) == {"client_id", "request_uri"}, sorted(asked)
        self.broker.refresh("par")
        self.token_is_good("par")
        again = self.glewlwyd.sign_in(url, "alice", "--scope", "openid", "--print-only")
        assert "code=" not in again.stdout, "the pushed request was good twice"

    def signed_request(self):
        url = self.login("signed-request", consent=("--scope", "openid profile email offline_access"))
        assert set(parameters(url)) == {"client_id", "request_uri"}, url
        self.token_is_good("signed-request")

    def assertion(self, account):
        """At the token endpoint, and where tokens are looked up and revoked."""
        self.login(account)
        self.broker.refresh(account)
        self.token_is_good(account)
        assert self.broker.json("introspect", account)["active"] is True
        self.logout(account, "done")

    def dpop(self, account):
        self.login(account)
        first = self.broker.call("token.get", account=account)
        self.broker.refresh(account)
        second = self.broker.call("token.get", account=account)
        for token in (first, second):
            self.broker.tokens.add(token["access_token"])
            assert token["token_type"] == "DPoP", token["token_type"]
            bound = claims(token["access_token"])[1]["cnf"]["jkt"]
            assert bound == token["dpop_thumbprint"], (bound, token["dpop_thumbprint"])
        assert first["access_token"] != second["access_token"]
        assert first["dpop_thumbprint"] == second["dpop_thumbprint"], "the key changed at the refresh"
        info = self.broker.call("account.userinfo", account=account)["claims"]
        assert info["sub"] == self.broker.account(account)["identity"]["subject"], sorted(info)

    def dpop_proof(self):
        """A caller's own request, with the nonce that the server wants."""
        token, url = self.broker.token("dpop"), self.glewlwyd.endpoint("userinfo_endpoint")

        def ask(*more):
            proof = self.broker.ctl("proof", "dpop", "GET", url, *more)
            assert proof.returncode == 0, proof.stderr
            return self.glewlwyd.userinfo(token, Authorization=f"DPoP {token}", DPoP=proof.stdout.strip())

        try:
            ask()
        except urllib.error.HTTPError as refused:
            nonce = refused.headers["DPoP-Nonce"]
            assert nonce, f"no nonce with {refused.code}"
            assert ask("--nonce", nonce)["sub"]
        else:
            raise AssertionError("a proof without nonce was taken")

    def device(self):
        waiting, code = self.device_login("device")
        self.glewlwyd.confirm_device(code, "native-public", "openid profile email offline_access")
        self.finish(waiting)
        self.broker.refresh("device")
        self.token_is_good("device")

    def begin_slow_device(self):
        self.slow = self.device_login("hasty")

    def polls(self):
        """(time, error) of each poll of the hasty login."""
        return [(time, members.get("error", "")) for time, path, _, members in self.relay.answers if path.endswith("/token")]

    def slow_device(self):
        waiting, code = self.slow
        until(lambda: any(error == "slow_down" for _, error in self.polls()), "slow_down")
        self.glewlwyd.confirm_device(code, "native-public", "openid profile email offline_access")
        self.finish(waiting)
        polls = self.polls()
        first = next(i for i, (_, error) in enumerate(polls) if error == "slow_down")
        assert polls[0][1] == "authorization_pending", polls
        assert polls[-1][1] == "", polls
        # For good: no later poll comes sooner either, and none is too soon for the server.
        waits = [later - sooner for (sooner, _), (later, _) in zip(polls[first:], polls[first + 1:])]
        assert all(SLOWED_SECONDS - 0.5 < wait < SLOWED_SECONDS + 3 for wait in waits), waits
        assert sum(error == "slow_down" for _, error in polls) == 1, polls
        self.token_is_good("hasty")

    def id_token(self, provider):
        self.login(provider)
        self.broker.refresh(provider)
        self.token_is_good(provider)

    def wrong_algorithm(self):
        """A client whose ID tokens glewlwyd signs with another key than the configuration allows."""
        self.glewlwyd.admin("PUT", "/client/es256", self.glewlwyd.admin("GET", "/client/es256") | {"sign_kid": "rsa-1"})
        try:
            self.broker.login(self.glewlwyd, "es256", "other-algorithm")
        except AssertionError:
            assert "the ID token is signed with RS256, which is not allowed" in self.broker.log_text()
        else:
            raise AssertionError("an ID token with another algorithm was taken")
        assert self.broker.account("other-algorithm") is None

    def rotation(self):
        self.login("rotated")
        module = self.glewlwyd.admin("GET", "/mod/plugin/oidc")
        keys = json.loads(module["parameters"]["jwks-private"])
        folder = self.broker.folder
        made = run(["rnbyc", "-j", "-g", "RSA2048", "-k", "rsa-2", "-a", "RS256", "-o", folder / "new.jwks", "-p", "/dev/null",
                    "-n", "0"])
        assert made.returncode == 0, made.stdout + made.stderr
        # The old RSA key is gone at once, as after a leak.
        keys["keys"] = json.loads((folder / "new.jwks").read_text())["keys"] + [k for k in keys["keys"] if k["kid"] != "rsa-1"]
        module["parameters"]["jwks-private"] = json.dumps(keys)
        self.glewlwyd.admin("PUT", "/mod/plugin/oidc", module)
        self.glewlwyd.admin("PUT", "/mod/plugin/oidc/reset")
        self.broker.refresh("rotated")
        self.login("rotated")
        self.token_is_good("rotated")

    def jarm(self):
        url = self.login("jarm")
        assert parameters(url)["response_mode"] == "jwt"
        again = self.glewlwyd.sign_in(url, "alice", "--print-only")
        assert again.returncode == 0, again.stderr
        brought = parameters(again.stdout.strip())
        assert set(brought) == {"response"}, sorted(brought)
        assert {"iss", "aud", "exp", "code", "state"} <= set(claims(brought["response"])[1])
        self.token_is_good("jarm")

    def details(self):
        self.glewlwyd.consent_to_details("native-public", "payment")
        self.login("detailed")
        granted = claims(self.broker.token("detailed"))[1]["authorization_details"]
        assert [detail["type"] for detail in granted] == ["payment"], granted

    def narrowed(self):
        self.login("basic")
        whole = self.broker.call("token.get", account="basic")
        part = self.broker.call("token.get", account="basic", scopes=["api.read"])
        self.broker.tokens |= {whole["access_token"], part["access_token"]}
        assert part["access_token"] != whole["access_token"], "nothing was asked for"
        # glewlwyd gives the whole all the same, and what it gave is what is said.
        for token in (whole, part):
            assert set(token["scope"]) == set(self.introspected(token["access_token"])["scope"].split()) == SCOPES_OF_API
        # Each is kept apart, and the rotated refresh token is the account's.
        assert self.broker.token("basic") == whole["access_token"]
        assert self.broker.token("basic", "--scope", "api.read") == part["access_token"]
        self.broker.refresh("basic")
        assert self.introspected(self.broker.token("basic"))["active"]

    def introspection(self):
        answer = self.broker.json("introspect", "basic")
        assert answer["active"] is True, answer
        assert answer["claims"]["client_id"] == "conf-basic", answer

    def client_credentials(self):
        token = self.broker.token("robot")
        answer = self.introspected(token)
        assert answer["active"] and answer["scope"] == "api.read", answer

    def revocation(self):
        token = self.broker.token("basic")
        self.logout("basic", "done")
        assert not self.introspected(token)["active"]

    def public_revocation(self):
        token = self.broker.token("jarm")
        self.logout("jarm", "refused")
        assert self.broker.account("jarm") is None
        assert self.glewlwyd.userinfo(token)["sub"]

    def registration(self):
        made = self.broker.json("provider", "register", self.glewlwyd.info["issuer"], "--name", "registered")
        assert made["client_id"], made
        self.login("registered", "--prompt", "consent")
        self.broker.refresh("registered")
        self.token_is_good("registered")
        self.logout("registered", "done")
        removed = self.broker.json("provider", "unregister", "registered")["steps"]
        assert [step["result"] for step in removed] == ["done", "done"], removed
        left = [client["client_id"] for client in self.glewlwyd.admin("GET", "/client/") if client["enabled"]]
        assert made["client_id"] not in left, left

    def end_session(self):
        self.login("leaving")
        self.broker.login(self.glewlwyd, "leaving", "staying")
        answer = self.broker.json("logout", "leaving", "--end-session", status=1)
        asked = parameters(answer["end_session_url"])
        assert asked["post_logout_redirect_uri"] == f"{self.callback}/signed-out", sorted(asked)
        assert claims(asked["id_token_hint"])[1]["aud"] == "leaving"
        assert self.broker.account("leaving") is None
        back = self.glewlwyd.end_session(answer["end_session_url"])
        assert parameters(back)["state"] == asked["state"]
        with urllib.request.urlopen(back, timeout=REQUEST_SECONDS) as page:
            assert page.status == 200
        try:
            urllib.request.urlopen(back.replace(asked["state"], "x" * 22), timeout=REQUEST_SECONDS)
        except urllib.error.HTTPError as refused:
            assert refused.code == 400, refused.code
        else:
            raise AssertionError("a return with another state was taken")
        # The server tells of it as well, by a logout token without exp.
        until(lambda: "no exp" in self.broker.log_text(), "the logout token")
        assert self.broker.account("staying")["state"] == "ok"

    def no_secrets(self):
        log = self.broker.log_text()
        assert len(self.broker.tokens) > 10
        assert not any(token in log for token in self.broker.tokens), "a token is in the log"
        assert not any(secret in log for secret in self.secrets), "a client secret is in the log"
        assert not any(json.loads(path.read_text())["d"] in log for path in self.broker.folder.glob("key-*.secret"))

    def main(self):
        self.broker.start()
        self.check("a device login that polls too often begins", self.begin_slow_device)
        self.check("a pushed request: the browser carries client_id and request_uri alone, once", self.par)
        self.check("a signed request, pushed", self.signed_request)
        for alg in KEYS:
            self.check(f"private_key_jwt, {alg}", lambda: self.assertion("pkjwt-" + alg))
        self.check("client_secret_jwt", lambda: self.assertion("csjwt"))
        self.check("DPoP where each proof needs a nonce: bound tokens, one key for login and refresh", lambda: self.dpop("dpop"))
        self.check("a caller's own DPoP request, with the server's nonce", self.dpop_proof)
        self.check("a device login that is confirmed at once", self.device)
        self.check("slow_down adds five seconds, and the device login completes", self.slow_device)
        for name, (_, alg) in SIGNERS.items():
            self.check(f"{alg} ID tokens", lambda: self.id_token(name))
        self.check("an ID token signed with an algorithm that the configuration does not allow is refused", self.wrong_algorithm)
        self.check("JARM: a signed callback", self.jarm)
        self.check("a request in detail (RFC 9396)", self.details)
        self.check("a narrowed token beside the account's own", self.narrowed)
        self.check("introspection", self.introspection)
        self.check("client credentials: an unattended account", self.client_credentials)
        self.check("revocation: refresh token and access token", self.revocation)
        self.check("logout of a public client, which glewlwyd lets revoke nothing", self.public_revocation)
        self.check("keys that are rotated at run time: the next login and refresh verify", self.rotation)
        self.check("a client registers, signs in, refreshes and is removed again", self.registration)
        self.check("the end of a session: the browser goes there and comes back", self.end_session)
        self.check("no token, secret or key is in the log", self.no_secrets)
        self.check("it stops in order", self.stopped)
