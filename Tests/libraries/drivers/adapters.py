"""Each adapter of Python with its library; a function returns what the test looks at."""

import imaplib
import smtplib


def google(client, command):
    import google.auth.transport.requests

    from grantd.adapters.google import Credentials
    credentials = Credentials(command["account"], client=client)
    with google.auth.transport.requests.AuthorizedSession(credentials) as session:
        session.trust_env = False
        return {"status": session.get(command["url"]).status_code, "text": repr(credentials)}


def azure(client, command):
    from azure.core.pipeline import Pipeline
    from azure.core.pipeline.policies import BearerTokenCredentialPolicy
    from azure.core.pipeline.transport import HttpRequest, RequestsTransport

    from grantd.adapters.azure import GrantdCredential
    credential = GrantdCredential(command["account"], client=client)
    first = credential.get_token("https://management.azure.com/.default")
    policy = BearerTokenCredentialPolicy(credential, "https://management.azure.com/.default")
    with Pipeline(RequestsTransport(use_env_settings=False), [policy]) as pipeline:
        # The policy requires TLS; the test has none.
        answer = pipeline.run(HttpRequest("GET", command["url"]), enforce_https=False)
    second = credential.get_token("scope", claims="{}")
    return {"status": answer.http_response.status_code, "replaced": first.token != second.token, "text": repr(credential)}


def botocore(client, command):
    import botocore.session

    from grantd.adapters.botocore import use
    session = botocore.session.Session()
    session.set_config_variable("region", "eu-west-1")
    make = session.create_client
    session.create_client = lambda name, **options: make(name, endpoint_url=command["url"], **options)
    use(session, command["account"], "arn:aws:iam::123456789012:role/x", client=client)
    found = session.get_credentials().get_frozen_credentials()
    return {"key": found.access_key, "session_token": found.token}


def imap(client, command):
    from grantd.adapters.mail import imap_login
    with imaplib.IMAP4("127.0.0.1", command["port"], timeout=60) as server:
        imap_login(server, command["account"], "ada@example.com", command["mechanism"], client=client)
        return {"state": server.state}


def smtp(client, command):
    from grantd.adapters.mail import smtp_login
    with smtplib.SMTP("127.0.0.1", command["port"], timeout=60) as server:
        server.ehlo()
        smtp_login(server, command["account"], "ada@example.com", command["mechanism"], client=client)
        return {"state": "AUTH"}


def keyring(client, command):
    import keyring

    import grantd.adapters.keyring as adapter
    keyring.set_keyring(adapter.GrantdKeyring())
    try:
        keyring.set_password("grantd", command["account"], "x")
        stores = True
    except keyring.errors.PasswordSetError:
        stores = False
    return {"password": keyring.get_password("grantd", command["account"]), "stores": stores,
            "other": keyring.get_password("other", command["account"]), "none": keyring.get_password("grantd", "none")}


def httpx(client, command):
    import httpx

    from grantd.adapters.httpx import GrantdAuth
    with httpx.Client(auth=GrantdAuth(command["account"], client=client), trust_env=False) as http:
        return {"status": http.get(command["url"]).status_code}


def leaves_home(client, command):
    """A redirect to another host does not get the token, neither at first nor after its 401."""
    import requests

    from grantd.adapters.requests import GrantdAuth
    with requests.Session() as session:
        session.trust_env = False
        return {"status": session.get(command["url"], auth=GrantdAuth(command["account"], client=client)).status_code}


def psycopg(client, command):
    import ctypes

    from grantd.adapters.psycopg import use
    library, used = ctypes.CDLL(command["libpq"]), ctypes.create_string_buffer(1000)
    issuer = command["issuer"]
    origin, _, path = issuer.rpartition("/")

    def request(document):
        return library.request(document.encode(), used)
    found = {}
    hook = use(command["account"], client=client, libpq=command["libpq"])
    found["openid"] = request(f"{issuer}/.well-known/openid-configuration")
    found["token"] = used.value.decode()
    found["rfc8414"] = request(f"{origin}/.well-known/oauth-authorization-server/{path}")
    found["other"], found["other_error"] = request(f"{issuer}b/.well-known/openid-configuration"), str(hook.error)
    found["prompt"] = library.prompt()
    hook.remove()
    found["removed"] = request(f"{issuer}/.well-known/openid-configuration")
    hook = use("ended", client=client, libpq=command["libpq"])
    found["ended"], found["ended_error"] = request(f"{issuer}/.well-known/openid-configuration"), str(hook.error)
    return found


def postgresql(client, command):
    """With the libpq of psycopg."""
    import psycopg

    from grantd.adapters.psycopg import use
    place = (f"host=127.0.0.1 port={command['port']} dbname=a user=u sslmode=disable gssencmode=disable connect_timeout=10 "
             f"oauth_issuer={command['issuer']} oauth_client_id=c")
    found = {"libpq": psycopg.pq.version(), "errors": []}
    hook = use(command["account"], client=client)
    with psycopg.connect(place) as connection:
        found["server"] = connection.info.server_version
    for issuer in command["issuer"], command["issuer"] + "b":
        hook.remove()
        hook = use(command["account"] if issuer != command["issuer"] else "ended", client=client)
        try:
            psycopg.connect(place.replace(command["issuer"], issuer))
        except psycopg.OperationalError as error:
            found["errors"].append([str(error), str(hook.error)])
    return found


def psycopg_error(client, command):
    import grantd
    from grantd.adapters.psycopg import use
    try:
        use("work", client=client, libpq=command["libpq"])
    except grantd.GrantdError as error:
        return {"message": error.message, "hint": error.hint}
