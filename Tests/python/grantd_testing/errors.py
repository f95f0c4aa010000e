"""What a test meets that is not an answer."""


class Gone(Exception):
    """The daemon closed the connection, or there is none."""


class Refused(Exception):
    """The daemon's error answer."""

    def __init__(self, error):
        self.data = error.get("data") or {}
        self.reason, self.detail = self.data.get("reason"), self.data.get("detail")
        super().__init__(f"{self.reason or error.get('code')}: {error.get('message')}")


class Wrong(Exception):
    """The test found what must not be."""


class NoAnswer(Wrong, TimeoutError):
    """A call was not answered in time. A test that allows it catches TimeoutError."""
