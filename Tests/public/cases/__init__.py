"""The rows, by capability. Importing a module adds its rows to the table."""

from table import ROWS
from . import answers, callbacks, devices, endpoints, errors, helpers, lifetimes, listeners, metadata, registration, reports

__all__ = ["ROWS", "answers", "callbacks", "devices", "endpoints", "errors", "helpers", "lifetimes", "listeners", "metadata",
           "registration", "reports"]
