"""A user with a browser that has no window: keeps cookies, follows redirects, fills in and submits forms."""

import html.parser
import http.cookiejar
import urllib.error
import urllib.parse
import urllib.request

REQUEST_SECONDS = 60
PAGE = 256 * 1024    # bytes


class Form:
    def __init__(self, attributes):
        self.action, self.fields, self.buttons = attributes.get("action"), {}, {}

    def add(self, attributes):
        name, value = attributes.get("name"), attributes.get("value") or ""
        kind = attributes.get("type", "text")
        if name and kind == "submit":
            self.buttons[name] = value
        elif name:
            self.fields[name] = value


class Page(html.parser.HTMLParser):
    """A page, and its forms in their order."""

    def __init__(self, answer):
        super().__init__()
        self.status, self.url, self.forms = answer.status, answer.url, []
        self.text = answer.read(PAGE).decode(errors="replace")
        self.feed(self.text)

    def handle_starttag(self, tag, attributes):
        if tag == "form":
            self.forms.append(Form(dict(attributes)))
        elif tag in ("input", "button") and self.forms:
            self.forms[-1].add({"type": "submit"} | dict(attributes) if tag == "button" else dict(attributes))

    def form(self, field):
        """The first form with that field."""
        found = next((form for form in self.forms if field in form.fields), None)
        assert found, f"no form with {field}: {self.status} {self.url} {self.text[:500]}"
        return found


class Redirects(urllib.request.HTTPRedirectHandler):
    def __init__(self):
        self.followed = []

    def redirect_request(self, request, answer, code, message, headers, url):
        self.followed.append(url)
        return super().redirect_request(request, answer, code, message, headers, url)


class Person:
    def __init__(self, name="alice"):
        self.name, self.password, self.redirects = name, f"{name}-password", Redirects()
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()), self.redirects)

    def open(self, url, fields=None):
        data = None if fields is None else urllib.parse.urlencode(fields).encode()
        try:
            answer = self.opener.open(urllib.request.Request(url, data=data), timeout=REQUEST_SECONDS)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return Page(answer)

    def submit(self, page, field, button=None, **values):
        """The form with that field, completed with values, by that button of several."""
        form = page.form(field)
        pressed = {button: form.buttons[button]} if button else {}
        return self.open(urllib.parse.urljoin(page.url, form.action or ""), form.fields | values | pressed)

    def sign_in(self, page, **more):
        return self.submit(page, "password", username=self.name, password=self.password, **more)

    def callback(self):
        """The parameters of the last redirect, which led to the broker."""
        url = urllib.parse.urlsplit(self.redirects.followed[-1])
        return dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
