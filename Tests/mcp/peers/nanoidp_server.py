"""nanoidp with client ID metadata documents, a document's host, and a resource for its tokens: nanoidp_server.py FOLDER PORT

Prints `ready {json}`. The document is that of `grantctl client-metadata`, which the test writes to FOLDER/grantd.json.
"""

import http.server
import json
import pathlib
import ssl
import sys
import threading

FOLDER, PORT = pathlib.Path(sys.argv[1]), int(sys.argv[2])
PEOPLE = {"alice": {"password": "alice-password", "email": "alice@example.org"}}


class Document(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = (FOLDER / "grantd.json").read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=600")
        self.end_headers()
        self.wfile.write(body)


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(FOLDER / "certificate.pem", FOLDER / "key.pem")
host = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Document)
host.socket = context.wrap_socket(host.socket, server_side=True)
threading.Thread(target=host.serve_forever, daemon=True).start()
place = f"127.0.0.1:{host.server_address[1]}"
base = f"http://127.0.0.1:{PORT}"
(FOLDER / "users.yaml").write_text(json.dumps({"users": PEOPLE}))
(FOLDER / "settings.yaml").write_text(json.dumps({
    "server": {"host": "127.0.0.1", "port": PORT},
    "jwt": {"keys_dir": str(FOLDER / "keys")},
    "oauth": {
        "issuer": base, "refresh_token_rotation": True, "require_pkce": True,
        "client_id_metadata_documents": {"enabled": True, "allowed_hosts": [place], "allow_loopback": True},
        "clients": [{"client_id": "inspector", "client_secret": "inspector-secret"}]},
    "logging": {"level": "WARNING", "verbose_logging": False}}))

from nanoidp.app import create_app  # noqa: E402
from werkzeug.serving import make_server  # noqa: E402

server = make_server("127.0.0.1", PORT, create_app(str(FOLDER)), threaded=True)
print("ready " + json.dumps({"issuer": base, "document": f"https://{place}/grantd.json"}), flush=True)
server.serve_forever()
