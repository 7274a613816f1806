"""JSON that comes with models: whatever is wrong with a text is one kind of error, and says which file it is."""

from __future__ import annotations

import json
from typing import Any

from webgpu_torch_core.files.host_tensors import brief

MAXIMUM_TEXT = 100_000_000
"""The longest JSON text, in bytes, that is read: that of the longest header of the safetensors format."""


class _Duplicate(ValueError):
    """A key that appears twice."""


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Duplicate(f"key {brief(key)} appears twice")
            seen.add(key)
    return result


def parse_object(text: object, label: str, what: str = "the file", unique: bool = False) -> dict[str, Any]:
    """Return the JSON object that ``what`` of the file ``label`` holds; with ``unique`` no key may appear twice.

    Raises:
        ValueError: it is no JSON object, too long or too deep, not UTF-8, or has numbers of thousands of digits.
    """
    data = memoryview(text)  # type: ignore[arg-type]
    if len(data) > MAXIMUM_TEXT:
        raise ValueError(f"{label}: {what} is {len(data)} bytes long, more than {MAXIMUM_TEXT}")
    try:
        value = json.loads(bytes(data).decode(), object_pairs_hook=_unique if unique else None)
    except _Duplicate as error:
        raise ValueError(f"{label}: {error}") from None
    except RecursionError:
        raise ValueError(f"{label}: {what} is not valid JSON: it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{label}: {what} is not valid JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{label}: {what} is not a JSON object but {type(value).__name__}")
    return value
