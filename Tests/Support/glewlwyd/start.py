#!/usr/bin/env python3
"""Start Debian's glewlwyd (C, SQLite) from zero as an OIDC provider on loopback. Stdlib only.

  start.py [--port 8601|0] [--dir DIR] [--tls TLSDIR] [--access-ttl 5] [--refresh-ttl 3600]
           [--set plugin-param=JSON ...] [--host 127.0.0.1] [--detach] [--serialize] [--redirect-uri URL ...]
Installs the Debian packages if they are missing (needs root then), makes a new database each time,
configures it through the admin REST API, prints one line 'ready {json}' and stays in the foreground
(or, with --detach, exits and leaves DIR/pid).
"""
import argparse
import http.cookiejar
import json
import os
import shutil
import signal
import sqlite3
import ssl
import subprocess
import sys
import time
import urllib.request
import urllib.error

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
sys.dont_write_bytecode = True

from grantd_testing import free_ports


def install():
    if shutil.which("glewlwyd") and shutil.which("rnbyc"):
        return 0.0
    t = time.time()
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    # Without this answer the package's postinst dies ("sed: can't read glewlwyd-db.conf") when no database is configured.
    subprocess.run(["debconf-set-selections"], input=b"glewlwyd glewlwyd/config_type select No configuration\n", check=True)
    # dbconfig-no-thanks instead of the default dbconfig-mysql: keeps the MariaDB client (and any server) out.
    subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "glewlwyd", "dbconfig-no-thanks", "rnbyc"],
                   check=True, env=env, stdout=subprocess.DEVNULL)
    return time.time() - t


MIME = {".html": "text/html", ".css": "text/css", ".js": "application/javascript", ".json": "application/json",
        ".png": "image/png", ".woff2": "font/woff2", ".woff": "font/woff", ".ttf": "font/ttf", ".ico": "image/x-icon"}
SCHEMA = "/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3"   # not /usr/share/doc: slim images drop that
USERS = {"alice": "alice-password", "bob": "bob-password"}
SCOPES = ["openid", "profile", "email", "offline_access", "api.read", "api.write"]
RP = "http://127.0.0.1:8999"
SPECIAL = "p@ss:w%rd+/ =&?\u00e9~\"'"


def clients(jwks, more_redirect_uris):
    red = [RP + "/callback", "http://127.0.0.1/callback", "http://[::1]:8999/callback", "http://localhost:8999/callback", "com.example.broker:/cb"] + more_redirect_uris
    at = ["code", "refresh_token", "delete_token", "device_authorization"]
    base = dict(enabled=True, redirect_uri=red, post_logout_redirect_uris=[RP + "/bye"], authorization_details_types=["payment"], resource=["https://rs.example/api"])
    conf = dict(base, confidential=True, authorization_type=at + ["client_credentials"], scope=["api.read", "api.write"])
    yield dict(base, client_id="native-public", name="Native app", confidential=False, authorization_type=at, token_endpoint_auth_method=["none"])
    yield dict(conf, client_id="conf-basic", name="basic", client_secret="conf-basic-secret", token_endpoint_auth_method=["client_secret_basic"])
    yield dict(conf, client_id="conf-special", name="special", client_secret=SPECIAL, token_endpoint_auth_method=["client_secret_basic", "client_secret_post"])
    yield dict(conf, client_id="conf-post", name="post", client_secret="conf-post-secret", token_endpoint_auth_method=["client_secret_post"])
    yield dict(conf, client_id="conf-csjwt", name="csjwt", client_secret="conf-csjwt-secret-0123456789-0123456789", token_endpoint_auth_method=["client_secret_jwt"])
    yield dict(conf, client_id="conf-pkjwt", name="pkjwt", jwks=jwks, token_endpoint_auth_method=["private_key_jwt"])


def plugin(iss, jwks_private, a):
    p = {
        "iss": iss, "oauth-as-iss-id": True, "subject-type": "public",
        "jwks-private": jwks_private, "client-sign_kid-parameter": "sign_kid", "jwks-show": True,
        "access-token-duration": a.access_ttl, "refresh-token-duration": a.refresh_ttl, "code-duration": 60,
        "refresh-token-rolling": True, "refresh-token-one-use": "always",
        "auth-type-code-enabled": True, "auth-type-code-revoke-replayed": True, "auth-type-token-enabled": False,
        "auth-type-implicit-enabled": False, "auth-type-none-enabled": False, "auth-type-password-enabled": False,
        "auth-type-client-enabled": True, "auth-type-refresh-enabled": True, "allow-non-oidc": True,
        "auth-type-device-enabled": True, "device-authorization-expiration": 60, "device-authorization-interval": 1,
        "scope": [], "allowed-scope": SCOPES, "name-claim": "on-demand", "name-claim-scope": ["profile"],
        "email-claim": "on-demand", "email-claim-scope": ["email"], "scope-claim": "no", "additional-parameters": [], "claims": [],
        "address-claim": {"type": "no"},
        "pkce-allowed": True, "pkce-method-plain-allowed": False, "pkce-required": False, "pkce-required-public-client": True, "pkce-scopes": [],
        "introspection-revocation-allowed": True, "introspection-revocation-allow-target-client": True, "introspection-revocation-auth-scope": [],
        "register-client-allowed": True, "register-client-auth-scope": [], "register-client-credentials-scope": ["api.read"],
        "register-client-management-allowed": True, "register-client-token-one-use": False,
        "register-resource-specify-allowed": False, "register-resource-default": [], "register-default-properties": {},
        "session-management-allowed": True, "session-cookie-name": "GLEWLWYD2_OIDC_SID", "session-cookie-expiration": 2419200,
        "front-channel-logout-allowed": True, "back-channel-logout-allowed": True,
        "request-parameter-allow": True, "request-parameter-ietf-strict": False, "request-parameter-allow-encrypted": True,
        "request-maximum-exp": 3600, "request-uri-allow-https-non-secure": True,
        "client-pubkey-parameter": "pubkey", "client-jwks-parameter": "jwks", "client-jwks_uri-parameter": "jwks_uri",
        "encrypt-out-token-allow": False,
        "oauth-dpop-allowed": True, "oauth-dpop-iat-duration": 60, "oauth-dpop-nonce-mandatory": False, "oauth-dpop-nonce-counter": 5,
        "oauth-dpop-iat-gap-duration": 5, "oauth-dpop-dpop_bound_access_tokens-property": "dpop_bound_access_tokens",
        "resource-allowed": True, "resource-scope": {"api.read": ["https://rs.example/api"]}, "resource-client-property": "resource", "resource-scope-and-client-property": False,
        "oauth-rar-allowed": True, "rar-types-client-property": "authorization_details_types", "rar-allow-auth-unsigned": True, "rar-allow-auth-unencrypted": True,
        "rar-types": {"payment": {"scopes": ["openid", "api.read"], "locations": ["https://rs.example/api"], "actions": ["read", "pay"], "datatypes": [], "description": "payments", "enriched": []}},
        "oauth-par-allowed": True, "oauth-par-required": False, "oauth-par-request_uri-prefix": "urn:ietf:params:oauth:request_uri:", "oauth-par-duration": 60,
        "oauth-fapi-allow-jarm": True,
    }
    for kv in a.set:
        k, v = kv.split("=", 1)
        p[k] = json.loads(v)
    return p


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--port", type=int, default=8601, help="0: a free one")
    ap.add_argument("--host", default="127.0.0.1")
    ap.add_argument("--dir", default=("/dev/shm" if os.path.isdir("/dev/shm") else "/tmp") + "/glewlwyd-test", help="a RAM disk makes a flow take 30 ms instead of 350")
    ap.add_argument("--wal", type=int, default=1)
    ap.add_argument("--tls")
    ap.add_argument("--detach", action="store_true")
    ap.add_argument("--access-ttl", type=int, default=60)
    ap.add_argument("--refresh-ttl", type=int, default=3600)
    ap.add_argument("--client-jwks", help="file with the public JWKS of client conf-pkjwt")
    ap.add_argument("--set", action="append", default=[])
    ap.add_argument("--redirect-uri", action="append", default=[], metavar="URL", help="a further redirect URI of every client, exact; repeatable")
    ap.add_argument("--log-level", default="INFO")
    ap.add_argument("--pages", action="store_true", help="its pages with their scripts, for a real browser: it serves no links out of its folder")
    ap.add_argument("--serialize", action="store_true", help="put Debian's haproxy in front (same --port) with maxconn 1: glewlwyd+SQLite fails 0.5-25 %% of requests when two run at once")
    a = ap.parse_args()
    inst = install()
    t0 = time.time()
    d = os.path.abspath(a.dir)
    shutil.rmtree(d, ignore_errors=True)
    os.makedirs(d)
    # With --serialize haproxy has a.port and glewlwyd itself another, both free ones with --port 0.
    back = a.port + 1000 if a.serialize else a.port
    if a.port == 0:
        a.port, back = free_ports(2)
        if not a.serialize:
            back = a.port
    base = f"{'https' if a.tls else 'http'}://{a.host}:{a.port}"
    db = sqlite3.connect(d + "/glewlwyd.db")
    db.execute("PRAGMA journal_mode=WAL" if a.wal else "PRAGMA journal_mode=DELETE")
    db.executescript("BEGIN;" + open(SCHEMA).read() + "COMMIT;")
    db.close()
    webapp = "/usr/share/glewlwyd/webapp"
    if a.pages:
        # Debian links this file to one that the package's own configuration makes.
        webapp = shutil.copytree(webapp, d + "/webapp", ignore=shutil.ignore_patterns("config.json"))
        json.dump({"GlewlwydUrl": base + "/", "lang": ["en"]}, open(webapp + "/config.json", "w"))
    conf = f'''port={back}
bind_address="127.0.0.1"
external_url="{base}"
login_url="login.html"
api_prefix="api"
static_files_path="{webapp}/"
log_mode="file"
log_level="{a.log_level}"
log_file="{d}/glewlwyd.log"
cookie_secure=0
session_expiration=2419200
session_key="GLEWLWYD2_SESSION_ID"
admin_session_authentication="cookie,api_key"
admin_scope="g_admin"
profile_scope="g_profile"
user_module_path="/usr/lib/glewlwyd/user"
client_module_path="/usr/lib/glewlwyd/client"
user_auth_scheme_module_path="/usr/lib/glewlwyd/scheme"
plugin_module_path="/usr/lib/glewlwyd/plugin"
use_secure_connection={'true' if a.tls and not a.serialize else 'false'}
secure_connection_key_file="{a.tls}/server.key"
secure_connection_pem_file="{a.tls}/server.pem"
hash_algorithm="SHA512"
database = {{ type = "sqlite3"; path = "{d}/glewlwyd.db"; }};
static_files_mime_types = ({",".join('{ extension="%s"; mime_type="%s"; }' % kv for kv in MIME.items())})
'''
    open(d + "/glewlwyd.conf", "w").write(conf)
    ctx = ssl.create_default_context(cafile=a.tls + "/ca.pem") if a.tls else None
    op = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
                                     *([urllib.request.HTTPSHandler(context=ctx)] if ctx else []))

    def call(m, path, body=None, ok=(200,)):
        r = urllib.request.Request(base + path, method=m, data=None if body is None else json.dumps(body).encode(), headers={"Content-Type": "application/json"})
        try:
            with op.open(r, timeout=10) as f:
                s, b = f.status, f.read()
        except urllib.error.HTTPError as e:
            s, b = e.code, e.read()
        if s not in ok:
            raise SystemExit(f"{m} {path}: {s} {b[:2000]!r}")
        return json.loads(b) if b else None
    # signing keys: RS256 is the default (first), ES256 and EdDSA chosen by the client property sign_kid
    subprocess.run(["rnbyc", "-j", "-g", "RSA2048", "-k", "rsa-1", "-a", "RS256", "-g", "EC256", "-k", "ec-1", "-a", "ES256", "-g", "Ed25519", "-k", "ed-1", "-a", "EdDSA",
                    "-o", d + "/private.jwks", "-p", "/dev/null", "-n", "0"], check=True, stdout=subprocess.DEVNULL)
    cj = json.load(open(a.client_jwks)) if a.client_jwks else {"keys": []}
    pr = subprocess.Popen(["glewlwyd", "--config-file", d + "/glewlwyd.conf"], stdout=open(d + "/out", "wb"), stderr=subprocess.STDOUT, start_new_session=a.detach)
    procs = [pr]
    if a.serialize:
        if not shutil.which("haproxy"):
            subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "haproxy"], check=True, env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"), stdout=subprocess.DEVNULL)
        bind = f"127.0.0.1:{a.port}"
        if a.tls:
            open(d + "/ha.pem", "w").write(open(a.tls + "/server.pem").read() + open(a.tls + "/server.key").read())
            bind += f" ssl crt {d}/ha.pem alpn h2,http/1.1"
        open(d + "/haproxy.cfg", "w").write(f"global\n  maxconn 500\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 30s\n  timeout queue 30s\nfrontend f\n  bind {bind}\n  default_backend b\nbackend b\n  http-reuse never\n  option http-server-close\n  server g 127.0.0.1:{back} maxconn 1\n")
        procs.append(subprocess.Popen(["haproxy", "-db", "-f", d + "/haproxy.cfg"], stdout=open(d + "/haproxy.out", "wb"), stderr=subprocess.STDOUT, start_new_session=a.detach))
    open(d + "/pid", "w").write(" ".join(str(x.pid) for x in procs))

    def stop(*_):
        for x in procs:
            x.terminate()          # no wait here: the main thread is in wait()
    if not a.detach:
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
    try:
        for i in range(400):
            try:
                call("GET", "/config")
                break
            except (urllib.error.URLError, OSError, SystemExit) as e:
                if isinstance(e, SystemExit) and not a.serialize:
                    raise
                if pr.poll() is not None:
                    raise SystemExit("glewlwyd died: " + open(d + "/out").read() + open(d + "/glewlwyd.log").read())
                time.sleep(0.025)
        else:
            raise SystemExit("glewlwyd did not answer")
        up = time.time() - t0
        call("POST", "/api/auth/", {"username": "admin", "password": "password"})
        for s in SCOPES:
            if s != "openid":
                call("POST", "/api/scope/", {"name": s, "display_name": s, "description": s, "password_required": True, "password_max_age": 0, "scheme": {}})
        # the database client module has to be told of multi-valued / jwks properties (dpop_bound_access_tokens is not in Debian's default list)
        cm = call("GET", "/api/mod/client/database")
        f = cm["parameters"]["data-format"]
        for k in ("sign_kid", "dpop_bound_access_tokens"):
            f[k] = {"multiple": False, "read": True, "write": True}
        # the OIDC plugin reads post_logout_redirect_uris (plural, a list); Debian's default knows only the singular, which nothing reads
        f["post_logout_redirect_uris"] = {"multiple": True, "read": True, "write": True}
        call("PUT", "/api/mod/client/database", cm)
        call("PUT", "/api/mod/client/database/reset/")
        iss = base + "/api/oidc"
        call("POST", "/api/mod/plugin/", {"module": "oidc", "name": "oidc", "display_name": "OIDC", "parameters": plugin(iss, open(d + "/private.jwks").read(), a), "enabled": True})
        for u, pw in USERS.items():
            call("POST", "/api/user/", {"username": u, "password": pw, "name": u.capitalize() + " Example", "email": u + "@example.test", "scope": ["g_profile"] + SCOPES, "enabled": True})
        for c in clients(cj, a.redirect_uri):
            call("POST", "/api/client/", c)
        key = call("POST", "/api/key/")["key"]
        disc = call("GET", "/api/oidc/.well-known/openid-configuration")
    except BaseException:
        for x in procs:
            x.terminate()
        raise
    info = dict(issuer=disc["issuer"], discovery=iss + "/.well-known/openid-configuration", base=base, users=USERS, admin=["admin", "password"], admin_api_key=key,
                pid=pr.pid, dir=d, install_s=round(inst, 2), listen_s=round(up, 2), ready_s=round(time.time() - t0, 2))
    json.dump(info, open(d + "/info.json", "w"))
    print("ready", json.dumps(info), flush=True)
    if not a.detach:
        rc = pr.wait()
        for x in procs[1:]:
            x.terminate()
            x.wait()
        sys.exit(rc)


main()
