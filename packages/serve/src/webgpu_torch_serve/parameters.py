"""The fields of a request: each has a kind and a range, and what is wrong with one names it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeGuard, TypeVar, cast

from webgpu_torch_models.generation.config import GenerationOptions

from webgpu_torch_serve.errors import RequestError

T = TypeVar("T")
#: fields that change nothing here
IGNORED = ("user", "metadata", "store", "safety_identifier", "prompt_cache_key", "service_tier", "parallel_tool_calls")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


class Fields:
    """The fields of a JSON object, taken one by one.

    Args:
        body: the object.

    Raises:
        RequestError: it is none.
    """

    def __init__(self, body: object) -> None:
        if not isinstance(body, dict):
            raise RequestError(f"the body must be a JSON object, got {_shown(body)}")
        self.values = {key: value for key, value in body.items() if value is not None and key not in IGNORED}

    def take(self, name: str, wanted: str, accept: Callable[[object], bool], default: T, required: bool = False) -> T:
        """Return a field's value and forget it.

        Args:
            name: of the field.
            wanted: what it must be, in words.
            accept: says whether a value is that.
            default: what it is where it is not given.
            required: whether it must be given.

        Raises:
            RequestError: it is something else, or missing.
        """
        if name not in self.values:
            if required:
                raise RequestError(f"{name} is missing: {wanted}", param=name)
            return default
        value = self.values.pop(name)
        if not accept(value):
            raise RequestError(f"{name} must be {wanted}, got {_shown(value)}", param=name)
        return cast("T", value)

    def number(self, name: str, least: float, most: float | None = None, default: float | None = None) -> float | None:
        """Return a number from ``least`` to ``most``."""
        wanted = f"a number from {least:g} to {most:g}" if most is not None else f"a number of at least {least:g}"
        return self.take(
            name, wanted, lambda each: _is_number(each) and least <= each and (most is None or each <= most), default
        )

    def integer(self, name: str, least: int, most: int | None = None, default: int | None = None) -> int | None:
        """Return an integer from ``least`` to ``most``."""
        wanted = f"an integer from {least} to {most}" if most is not None else f"an integer of at least {least}"
        return self.take(
            name, wanted, lambda each: type(each) is int and least <= each and (most is None or each <= most), default
        )

    def flag(self, name: str) -> bool:
        """Return true or false; false by default."""
        return self.take(name, "true or false", lambda each: isinstance(each, bool), False)

    def one_of(self, name: str, choices: Collection[str], default: str) -> str:
        """Return one of some words."""
        wanted = " or ".join(f'"{each}"' for each in choices)
        return self.take(name, wanted, lambda each: isinstance(each, str) and each in choices, default)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text; one must be given where there is no default."""
        return self.take(name, "a text", lambda each: isinstance(each, str), default or "", required=default is None)

    def refuse(self, **why: str) -> None:
        """Raise RequestError for a field that asks for what the server cannot do; without effect, it may be given."""
        for name, reason in why.items():
            value = self.values.pop(name, None)
            if value:
                raise RequestError(f"{name}={_shown(value)} is not supported: {reason}", param=name)

    def end(self) -> None:
        """Raise RequestError where a field is left that nobody took."""
        for name, value in self.values.items():
            raise RequestError(f"there is no field {name} here, got {name}={_shown(value)}", param=name)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_tokens(value: object) -> TypeGuard[list[int]]:
    """Return whether a value is a list of tokens' numbers, and not an empty one."""
    return isinstance(value, list) and bool(value) and all(type(each) is int for each in value)


def is_texts(value: object) -> TypeGuard[list[str]]:
    """Return whether a value is a list of texts, and not an empty one."""
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)


def prompts(fields: Fields, name: str) -> list[str | list[int]]:
    """Return one or several texts, or one or several lists of tokens, as a list."""
    none: str | list[int] | list[str | list[int]] = []
    value = fields.take(
        name, "a text, a list of texts, a list of tokens, or a list of such lists",
        lambda each: isinstance(each, str) or is_texts(each) or is_tokens(each)
        or (isinstance(each, list) and bool(each) and all(map(is_tokens, each))),
        none, required=True,
    )  # fmt: skip
    return [value] if isinstance(value, str) or is_tokens(value) else cast("list[str | list[int]]", value)


_NO_NUMBER: float | None = None


def sampling(fields: Fields) -> GenerationOptions:
    """Return options of generation; temperature 0 takes the likeliest token every time."""
    temperature = fields.number("temperature", 0, 2)
    options: GenerationOptions = {
        "top_p": fields.number("top_p", 0, 1),
        "top_k": fields.integer("top_k", 0),
        "min_p": fields.number("min_p", 0, 1),
        "repetition_penalty": fields.take(
            "repetition_penalty", "a number greater than 0", lambda each: _is_number(each) and each > 0, _NO_NUMBER
        ),
        "stop_strings": stops(fields) or None,
        "do_sample": temperature != 0,
        "temperature": temperature or None,
        # What a folder says of beams is for texts that nobody waits for token by token.
        "num_beams": 1,
    }
    return options


def stops(fields: Fields) -> list[str]:
    """Return the texts that end an answer."""
    none: str | list[str] = []
    found = fields.take(
        "stop", "a text or a list of texts, none of them empty",
        lambda each: (isinstance(each, str) and bool(each)) or each == [] or (is_texts(each) and all(each)),
        none,
    )  # fmt: skip
    return [found] if isinstance(found, str) else found
