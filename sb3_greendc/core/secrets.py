"""Passwords and tokens removed from whatever is recorded or printed: commands, URLs, error messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

HIDDEN = "***"
"""Stands where a secret was."""

_NAME = re.compile(
    r"(?:.*(?:password|passwd|passphrase|secret|apikey)|(?:.*[_.-])?(?:pwd|token|auth|api[_-]?key|access[_-]?key))$",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"""(?P<quote>['"])(?P<url>[A-Za-z][\w+.-]*(?:://|%3A%2F%2F)(?:(?!(?P=quote)).)*)(?P=quote)"""
)
_OPTION = re.compile(r"(?P<option>(?<!\S)--?(?P<name>[\w-]+)\s+)(?P<value>'[^']*'|\"[^\"]*\"|[^\s-]\S*)")


def without_secrets(text: str, url: str = "") -> str:
    """Return a text that may be recorded and printed: secrets in it are replaced by ``***``.

    These are passwords in URLs (``scheme://user:PASSWORD@host``, percent-encoded ones, too), and values of
    ``password=``, ``token=``, ``secret=``, ``api_key=`` and of options of such names. User names stay.

    :param text: a URL, a command line, an error message
    :param url: a URL whose secrets must not be in the text in any other form either
    """
    text = _QUOTED.sub(lambda found: found["quote"] + _without(found["url"], "") + found["quote"], text)
    text = _without(text, r"\s'\"")
    text = _OPTION.sub(
        lambda found: found["option"] + HIDDEN if _NAME.match(found["name"]) else found[0], text
    )
    for secret in sorted(_secrets_of(url), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def arguments_without_secrets(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a command as they may be recorded; see :func:`without_secrets`.

    :param arguments: one item each, so that passwords with blanks and quotes are found whole
    """
    shown: list[str] = []
    value_is_secret = False
    for argument in arguments:
        shown.append(HIDDEN if value_is_secret and not argument.startswith("--") else _without(argument, ""))
        value_is_secret = argument.startswith("-") and _NAME.match(argument.lstrip("-")) is not None
    return shown


def values_without_secrets(value: Any) -> Any:
    """Return values that may be recorded: each text in mappings and sequences without its secrets.

    A text under a name of a secret (``password``, ``api_token``) is one as a whole.

    :param value: what JSON can hold; see :func:`without_secrets` for texts
    """
    if isinstance(value, str):
        return _without(value, "")
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if isinstance(item, str) and _NAME.match(str(key)) else values_without_secrets(item)
            for key, item in value.items()
        }
    return [values_without_secrets(item) for item in value] if isinstance(value, list | tuple) else value


def require_secrets(values: Mapping[str, Any], option: str) -> None:
    """Check that settings read from a record lack no secret, since records keep none.

    :param values: the record's settings, and what the user gave in their place
    :param option: where the user can give one
    :raises ValueError: for the first that is hidden
    """
    for key, value in values.items():
        if HIDDEN in str(value):
            raise ValueError(f"{key}: has a secret, which records do not keep: give it by {option} {key}=...")


def _without(text: str, ends: str) -> str:
    """Return a text without the secrets of its URLs and assignments.

    :param text: the text
    :param ends: characters, as in a regular expression's set, that end a URL or a value
    """
    for start, stop, _ in sorted(_spans(text, ends), reverse=True):
        text = text[:start] + HIDDEN + text[stop:]
    return text


def _spans(text: str, ends: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and content of each secret; none overlaps another."""
    inside = f"[^{ends}]" if ends else "."
    user = f"[^:/@{ends}]*"
    found = [
        *re.finditer(f"://{user}:(?P<secret>{inside}*)@", text, re.DOTALL),
        *re.finditer(
            f"%3A%2F%2F(?:(?!%3A|%2F|%40){inside})*%3A(?P<secret>{inside}*)%40", text, re.I | re.DOTALL
        ),
        *_assignments(text, ends),
    ]
    covered = 0
    for match in sorted(found, key=lambda match: match.span("secret")):
        start, stop = match.span("secret")
        if start >= covered:
            covered = stop
            yield start, stop, match["secret"]


def _assignments(text: str, ends: str) -> Iterator[re.Match[str]]:
    value = f"[^&{ends}]*" if ends else "[^&]*"
    quoted = r"(?:'[^']*'|\"[^\"]*\")"
    for pattern in (
        rf"(?P<name>[\w.%-]+)=(?P<secret>{quoted}|{value})",
        rf"(?P<name>[\w.-]+)%3D(?P<secret>(?:(?!%26){value[:-1]})*)",
    ):
        position = 0
        while match := re.compile(pattern, re.I | re.DOTALL).search(text, position):
            if _NAME.match(re.split("%3F|%26", unquote(match["name"]), flags=re.I)[-1]) and match["secret"]:
                yield match
                position = match.end()
            else:  # which may stand before another one: --storage=postgresql://host/db?password=...
                position = match.end("name") + 1


def _secrets_of(url: str) -> set[str]:
    found = {secret for _, _, secret in _spans(url, "")}
    return {form for secret in found for form in (secret, unquote(secret)) if form}
