"""Passwords and tokens kept out of whatever is printed or written."""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = "***"
"""What stands in place of a secret."""

_IN_URL = re.compile(r"([A-Za-z][\w+.\-]*://[^\s:/@]*):\S+@")
_IN_ARGUMENT = re.compile(r"([A-Za-z][\w+.\-]*://[^\s:/@]*):.+@", re.DOTALL)
_NAMED = re.compile(r"(?i)\b((?:ssl)?passw(?:or)?d|pwd|token|secret|api_?key)(=|%3D)[^\s&;#'\"]+")


def without_secrets(text: str) -> str:
    """Return a text with the secrets in it replaced by :data:`HIDDEN`.

    Secrets are the password of a URL (``scheme://user:PASSWORD@host``) and the value of what is called
    ``password``, ``token``, ``secret`` or ``api_key`` (``?password=...``).

    :param text: a message, a URL, a command
    """
    return _NAMED.sub(rf"\1\2{HIDDEN}", _IN_URL.sub(rf"\1:{HIDDEN}@", text))


def arguments_without_secrets(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a command without secrets; a password there may hold spaces.

    :param arguments: one string an argument, before they are joined
    """
    return [without_secrets(_IN_ARGUMENT.sub(rf"\1:{HIDDEN}@", argument)) for argument in arguments]
