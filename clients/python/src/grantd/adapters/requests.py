"""Authentication for requests.

    requests.get(url, auth=GrantdAuth("work"))
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

from requests import PreparedRequest, Response
from requests.auth import AuthBase
from requests.cookies import extract_cookies_to_jar

from .._client import Client
from .._token import Token
from ._source import Source


class GrantdAuth(AuthBase):
    """Adds the token of an account. After 401 it reports the token and sends the request once more, if the body is text,
    bytes or absent."""

    def __init__(
            self, account: str, scopes: Optional[Sequence[str]] = None, *, resource: Optional[str] = None,
            client: Optional[Client] = None) -> None:
        self._source = Source(account, scopes, resource, client)

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        token = self._source.token()
        request.headers.update(token.headers)

        def answered(response: Response, **options: Any) -> Response:
            return self._again(response, token, options)

        request.register_hook("response", answered)
        return request

    def _again(self, response: Response, token: Token, options: Dict[str, Any]) -> Response:
        sent = response.request
        # Not after a redirect to another host: requests removed the token there.
        has_token = all(sent.headers.get(name) == value for name, value in token.headers.items())
        if response.status_code != 401 or not has_token or not isinstance(sent.body, (str, bytes, type(None))):
            return response
        fresh = self._source.after(token)
        # Releases the connection for the second request.
        response.content
        response.close()
        again = sent.copy()
        jar: Any = again._cookies  # type: ignore[attr-defined]
        extract_cookies_to_jar(jar, sent, response.raw)  # type: ignore[no-untyped-call]
        again.prepare_cookies(jar)
        again.headers.update(fresh.headers)
        transport: Any = response.connection  # type: ignore[attr-defined]
        second: Response = transport.send(again, **options)
        second.history.append(response)
        second.request = again
        return second
