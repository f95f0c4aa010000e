"""A Django site with django-oauth-toolkit below /o/, as its tutorial has it, with OpenID Connect and SQLite."""

import django
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from django.conf import settings
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.urls import include, path

ACCESS_TTL = 600   # seconds
APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "oauth2_provider"]
LOGIN = ('<form method="post">{% csrf_token %}{{ form }}<input type="hidden" name="next" value="{{ next }}">'
         '<button type="submit">Log in</button></form>')
INSPECTOR = ("inspector", "inspector-secret")

urlpatterns = []


def configure(folder):
    key = rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    settings.configure(
        SECRET_KEY="not-for-production", ALLOWED_HOSTS=["127.0.0.1"], ROOT_URLCONF=__name__, INSTALLED_APPS=APPS,
        USE_TZ=True, STATIC_URL="/static/", LOGIN_URL="/accounts/login/", DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.csrf.CsrfViewMiddleware",
                    "django.contrib.auth.middleware.AuthenticationMiddleware"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": folder / "site.sqlite3",
                               "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"}}},
        # The tables are made of the models at once: no migration runs.
        MIGRATION_MODULES={app.rpartition(".")[2]: None for app in APPS},
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "OPTIONS": {
            "context_processors": ["django.template.context_processors.request"],
            "loaders": [("django.template.loaders.locmem.Loader", {"registration/login.html": LOGIN}),
                        "django.template.loaders.app_directories.Loader"]}}],
        OAUTH2_PROVIDER={
            "OIDC_ENABLED": True, "OIDC_RSA_PRIVATE_KEY": key, "ACCESS_TOKEN_EXPIRE_SECONDS": ACCESS_TTL,
            "SCOPES": {name: name for name in ("openid", "profile", "email", "offline_access", "introspection")},
            "REFRESH_TOKEN_REUSE_PROTECTION": True,
            # It promises `iss` in each authorization response (RFC 9207). A denial has none all the same.
            "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True})
    django.setup()


def add_people_and_clients():
    from django.contrib.auth.models import User
    from oauth2_provider.models import Application

    User.objects.create_user("alice", "alice@example.org", "alice-password")
    Application.objects.create(
        client_id="grantd", name="grantd", client_type=Application.CLIENT_PUBLIC, algorithm=Application.RS256_ALGORITHM,
        authorization_grant_type=Application.GRANT_AUTHORIZATION_CODE, redirect_uris="http://127.0.0.1/callback")
    # The test asks the server about tokens with this client (RFC 7662).
    Application.objects.create(
        client_id=INSPECTOR[0], client_secret=INSPECTOR[1], client_type=Application.CLIENT_CONFIDENTIAL,
        authorization_grant_type=Application.GRANT_CLIENT_CREDENTIALS)


def make(folder, base):
    """The application, and the facts that a test needs."""
    configure(folder)
    from django.contrib.auth.views import LoginView
    from oauth2_provider.urls import metadata_urlpatterns

    urlpatterns.extend([
        path("accounts/login/", LoginView.as_view()),
        path("o/", include("oauth2_provider.urls", namespace="oauth2_provider")),
        # RFC 8414 §3.1: of an issuer with a path the document is at the root.
        path("", include(metadata_urlpatterns))])
    call_command("migrate", run_syncdb=True, verbosity=0)
    add_people_and_clients()
    return get_wsgi_application(), {
        "issuer": f"{base}/o", "client": "grantd", "inspector": INSPECTOR, "introspection": f"{base}/o/introspect/"}
