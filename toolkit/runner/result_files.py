"""Read and validate the `result.json` of earlier runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from toolkit.model.input_files import read_input
from toolkit.runner.result import FILE_NAME

_TEXTS = ("notebook", "status", "summary", "who", "version")
_TIMES = ("started", "finished")
MOST_BYTES = 5_000_000  # no run of ours writes as much


class InvalidResultFile(ValueError):
    """A file is no `result.json`; `str()` says why in a few words."""


def read_result(folder: Path) -> dict[str, Any]:
    """
    Return the content of the `result.json` in a folder, with the fields that `RunResult` names.

    Raises InvalidResultFile where there is none, where it cannot be read, or is not as we write it.
    """
    path = folder / FILE_NAME
    try:
        content = json.loads(read_input(path, most_bytes=MOST_BYTES).decode())
    except FileNotFoundError:
        why = f"no {FILE_NAME}: the run is still in progress, or was killed"
        raise InvalidResultFile(why) from None
    except OSError as exc:
        raise InvalidResultFile(f"{FILE_NAME} cannot be read: {exc.strerror or exc}") from exc
    except (UnicodeDecodeError, RecursionError, json.JSONDecodeError) as exc:
        raise InvalidResultFile(f"{FILE_NAME} is not JSON") from exc
    if not isinstance(content, dict):
        raise InvalidResultFile(f"{FILE_NAME} is not an object")
    if wrong := next((name for name in _WANTED if not _is_good(content, name)), ""):
        raise InvalidResultFile(f"in {FILE_NAME}, {wrong} is missing or invalid")
    return content


def _is_good(content: Mapping[str, Any], name: str) -> bool:
    return name in content and _WANTED[name](content[name])


def is_time(value: object) -> bool:
    """Whether a value is an instant with its zone, as text in ISO 8601."""
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_error(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, dict) and _is_text(value.get("reason")) and _is_text(value.get("step"))


def _are_counts(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(n, int) and not isinstance(n, bool) for n in value.values()
    )


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


_WANTED = {
    **dict.fromkeys(_TEXTS, _is_text),
    **dict.fromkeys(_TIMES, is_time),
    "undo": _is_text_or_none,
    "report": _is_text_or_none,
    "error": _is_error,
    "counts": _are_counts,
    "clusters": _are_texts,
    "parameters": _is_object,
}
