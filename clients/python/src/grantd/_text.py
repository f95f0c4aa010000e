"""JSON by the C functions below the module `json`.

The import of `json` takes three times as long as that of everything else here, because its decoder imports `re`. It is
imported for what these functions do not do: errors, and parameters other than those of a frequent request.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Tuple

scan: Callable[[str, int], Tuple[Any, int]]

try:
    from _json import encode_basestring_ascii, make_scanner
    quote = encode_basestring_ascii

    class Settings:
        """As `json.JSONDecoder` has them."""

        strict, object_hook, object_pairs_hook, parse_constant = True, None, None, None
        parse_float, parse_int = float, int

    scan = make_scanner(Settings)  # type: ignore[arg-type]
except ImportError:
    # Another interpreter than CPython.
    import json
    quote, scan = json.encoder.encode_basestring_ascii, json.JSONDecoder().raw_decode  # type: ignore[attr-defined]


def encode(value: Any) -> str:
    import json
    return json.dumps(value, separators=(",", ":"))


def decode(text: str) -> Tuple[Any, int]:
    """The value that the text begins with, and where it ends. ValueError: there is none."""
    try:
        return scan(text, 0)
    except RecursionError:
        raise
    except Exception:
        # Without `json` the function has no error to raise, and ends in one of several ways.
        import json
        return json.JSONDecoder().raw_decode(text)
