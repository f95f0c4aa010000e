"""django-mcp-oauth with a resource in the same site: django_server.py FOLDER PORT. Prints `ready` and each refresh."""

import json
import os
import pathlib
import sys

import django
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from django.conf import settings
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from werkzeug.serving import make_server

FOLDER, PORT = pathlib.Path(sys.argv[1]), int(sys.argv[2])
BASE = f"http://127.0.0.1:{PORT}"
APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "django_mcp_oauth"]
LOGIN = ('<form method="post">{% csrf_token %}{{ form }}<input type="hidden" name="next" value="{{ next }}">'
         '<button type="submit">Log in</button></form>')

# Its tokens go over loopback.
os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
key = rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
urlpatterns = []
settings.configure(
    SECRET_KEY="not-for-production", ALLOWED_HOSTS=["127.0.0.1"], ROOT_URLCONF=__name__, INSTALLED_APPS=APPS, USE_TZ=True,
    LOGIN_URL="/accounts/login/", DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.csrf.CsrfViewMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "site.sqlite3", "OPTIONS": {"timeout": 20}}},
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "OPTIONS": {
        "context_processors": ["django.template.context_processors.request"],
        "loaders": [("django.template.loaders.locmem.Loader", {"registration/login.html": LOGIN}),
                    "django.template.loaders.app_directories.Loader"]}}],
    MCP_OAUTH_ISSUER=BASE, MCP_RESOURCE_URL=f"{BASE}/mcp", MCP_OAUTH_PRIVATE_KEY=key)
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.contrib.auth.views import LoginView  # noqa: E402
from django_mcp_oauth import views  # noqa: E402
from django_mcp_oauth.resource import user_from_bearer, www_authenticate  # noqa: E402
from django_mcp_oauth.urls import oauth_urlpatterns, wellknown_urlpatterns  # noqa: E402
from django_mcp_oauth.validation import TokenError  # noqa: E402


@csrf_exempt
def mcp(request):
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    try:
        if not token:
            return JsonResponse({}, status=401, headers={"WWW-Authenticate": www_authenticate(include_error=False)})
        user, _ = user_from_bearer(token)
    except TokenError as error:
        return JsonResponse({"error": error.error}, status=401,
                            headers={"WWW-Authenticate": www_authenticate(error.error, error.description)})
    call = json.loads(request.body)
    return JsonResponse({"jsonrpc": "2.0", "id": call.get("id"),
                         "result": {"content": [{"type": "text", "text": f"sum 3 for {user.username}"}]}})


@csrf_exempt
def token(request):
    answer = views.token_view(request)
    if request.POST.get("grant_type") == "refresh_token":
        print("REFRESHED", answer.status_code, "refresh_token" in json.loads(answer.content), flush=True)
    return answer


urlpatterns.extend([path("mcp", mcp), path("oauth/token", token), path("accounts/login/", LoginView.as_view())]
                   + wellknown_urlpatterns + oauth_urlpatterns)
call_command("migrate", verbosity=0)
User.objects.create_user("alice", "alice@example.org", "alice-password")
server = make_server("127.0.0.1", PORT, get_wsgi_application(), threaded=True)
print("ready", flush=True)
server.serve_forever()
