"""As much of AWS' Security Token Service as a role takes: AssumeRoleWithWebIdentity, and who a signature is of."""

import datetime
import http.server
import threading
import urllib.parse

NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"
ROLE = "arn:aws:iam::123456789012:role/x"
SECRET_KEY, SESSION_TOKEN = "secret/+", "session&token=="


class TokenService(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, provider):
        super().__init__(("127.0.0.1", 0), Connection)
        self.provider, self.url = provider, f"http://127.0.0.1:{self.server_port}/"
        # The requests; seconds that credentials live where that is not what was asked for; an error to answer with.
        self.asked, self.lifetime, self.fault = [], None, None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def section(self):
        return (f'[[cloud]]\nkind = "aws"\nname = "prod"\naccount = "robot"\nrole_arn = "{ROLE}"\n'
                f'sts_endpoint = "{self.url}"\nsession_name = "grantd-test"\nduration = "1h"\n'
                f'[[cloud]]\nkind = "aws"\nname = "opaque"\naccount = "work"\nrole_arn = "{ROLE}"\n'
                f'sts_endpoint = "{self.url}"\n')

    def handle_error(self, request, client_address):
        """Clients that hang up are no news."""

    def close(self):
        self.shutdown()
        self.server_close()


class Connection(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_POST(self):
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        self.server.asked.append((form, dict(self.headers)))
        action = form.get("Action", "")
        if action == "GetCallerIdentity":
            signed = "Credential=ASIATEST/" in self.headers.get("Authorization", "")
            session = self.headers.get("X-Amz-Security-Token") == SESSION_TOKEN
            account = "123456789012" if signed and session else "unsigned"
            return self.xml(200, action, f"<Account>{account}</Account>")
        code = self.server.fault
        if not code and not self.server.provider.is_alive(form.get("WebIdentityToken", "")):
            code = "InvalidIdentityToken"
        if code:
            return self.reply(400, f'<ErrorResponse xmlns="{NAMESPACE}"><Error><Type>Sender</Type><Code>{code}</Code>'
                              "<Message>not &lt;this&gt; token</Message></Error><RequestId>1</RequestId>"
                              "</ErrorResponse>")
        seconds = self.server.lifetime or int(form["DurationSeconds"])
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
        return self.xml(200, action, "<Credentials><AccessKeyId>ASIATEST</AccessKeyId><SecretAccessKey>"
                        f"{SECRET_KEY}</SecretAccessKey><SessionToken>session&amp;token==</SessionToken>"
                        f"<Expiration>{end:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials>")

    def xml(self, status, action, content):
        self.reply(status, f'<{action}Response xmlns="{NAMESPACE}"><{action}Result>{content}</{action}Result>'
                   f"<ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></{action}Response>")

    def reply(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
