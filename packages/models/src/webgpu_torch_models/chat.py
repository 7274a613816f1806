"""Conversations as text: the Jinja templates of Hugging Face's tokenizers."""

from __future__ import annotations

import datetime
import json
from functools import lru_cache
from typing import Any, NoReturn


def _refuse(message: str) -> NoReturn:
    raise ValueError(f"the chat template refuses the messages: {message}")


def _now(form: str) -> str:
    return datetime.datetime.now().strftime(form)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes what would matter in a web page.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@lru_cache(maxsize=32)
def _compiled(template: str) -> Any:
    """Return a template that can do nothing but read what it is given.

    Raises:
        ImportError: jinja2 is not installed.
    """
    try:
        from jinja2 import nodes
        from jinja2.ext import Extension, loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        raise ImportError('chat templates need jinja2: pip install "webgpu-torch-models[chat]"') from error

    class Generation(Extension):
        """Marks what an assistant said, which training looks for: here it is written as it is."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body).set_lineno(line)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals.update(raise_exception=_refuse, strftime_now=_now)
    return environment.from_string(template)


def render(template: str, variables: dict[str, object]) -> str:
    """Return a conversation as a template writes it.

    Raises:
        ImportError: jinja2 is not installed.
        ValueError: the template is none, refuses the messages, or tries what templates must not.
    """
    try:
        return _compiled(template).render(**variables)
    except Exception as error:
        if not type(error).__module__.startswith("jinja2"):
            raise
        raise ValueError(f"the chat template cannot be written: {type(error).__name__}: {error}") from error
