"""nanoidp on a folder of its own: people and clients in YAML, which is read as JSON."""

import json
import logging

INSPECTOR = ("inspector", "inspector-secret")
PEOPLE = {"alice": {"password": "alice-password", "email": "alice@example.org"}}


def settings(folder, base):
    return {
        "jwt": {"keys_dir": str(folder / "keys")},
        "oauth": {
            "issuer": base, "refresh_token_rotation": True, "require_pkce": True,
            "clients": [
                {"client_id": "grantd", "token_endpoint_auth_method": "none", "redirect_uris": ["http://127.0.0.1/callback"]},
                # The test asks the server about tokens with this client (RFC 7662).
                {"client_id": INSPECTOR[0], "client_secret": INSPECTOR[1]}]},
        "device_flow": {"polling_interval": 1},
        # Only for users who have a secret: such a user's sign-in takes two steps.
        "login": {"totp": True},
        "logging": {"level": "WARNING", "verbose_logging": False}}


def make(folder, base):
    """The application, and the facts that a test needs."""
    (folder / "users.yaml").write_text(json.dumps({"users": PEOPLE}))
    (folder / "settings.yaml").write_text(json.dumps(settings(folder, base)))
    from nanoidp.app import create_app

    logging.captureWarnings(True)
    return create_app(str(folder)), {
        "issuer": base, "client": "grantd", "inspector": INSPECTOR, "introspection": f"{base}/introspect",
        "people": f"{base}/api/runtime/users"}
