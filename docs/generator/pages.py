"""Writes the pages of the reference: a page per namespace, or per family of it, and the sources that pages load."""

from __future__ import annotations

import html
import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from sphinx.ext.napoleon import Config
from sphinx.ext.napoleon.docstring import GoogleDocstring

from .examples import doctest
from .facts import facts, says_errors, typed
from .formulas import formula_of
from .public_names import (
    NAMESPACES,
    Entry,
    Namespace,
    entries,
    members_of,
    signature,
    source_file,
    source_text,
    unwrapped,
)
from .samples import Samples

#: more entries than that are a page per family, with a page of summaries before them
MOST_ENTRIES = 40
MOST_OF_A_PAGE = 24
#: longer definitions are named by their file only
MOST_LINES = 150
#: what every entry has: constants and exceptions raise nothing
PARTS = ("sentence", "shapes or types", "errors", "example")
#: the extension's own settings, where the annotation of what takes them says Sphinx's
NAPOLEON: Any = Config(
    napoleon_use_param=True,
    napoleon_use_rtype=False,
    napoleon_custom_sections=[("Fields", "params_style"), ("Class attributes", "params_style")],
)


def page_name(title: str, group: str = "") -> str:
    """Return the name of a page, which is part of its address."""
    return re.sub(r"[^\w.]+", "-", f"{title} {group}".strip())


class Pages:
    """The pages of the reference and the sources they load.

    Attributes:
        texts: page's name -> its text in reStructuredText.
        sources: file's name -> what the page loads when it is opened: (title, source, its language) of a definition and kernels.
        described: id of an object -> where it is described first, as (role, full name).
        targets: every name that a docstring may use -> (role, full name).
        missing: what entries should have (:data:`PARTS`) -> full names of those that lack it.
    """

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.texts: dict[str, str] = {}
        self.sources: dict[str, list[tuple[str, str, str]]] = {}
        self.described: dict[int, tuple[str, str]] = {}
        self.targets: dict[str, tuple[str, str]] = {}
        self.missing: dict[str, list[str]] = {each: [] for each in PARTS}
        for namespace in NAMESPACES:
            self._namespace(namespace)
        self.texts["index"] = _index()

    # Pages

    def _namespace(self, namespace: Namespace) -> None:
        found = {module: entries(module) for module in namespace.modules}
        parts = [_title(namespace.title, "="), namespace.about, ""]
        if sum(map(len, found.values())) <= MOST_ENTRIES:
            for module, inside in found.items():
                parts += [_title(_shown(module), "-")] if len(found) > 1 and inside else []
                parts += [*_module(module), *self._table(inside), *self._entries(module, inside)]
            self.texts[page_name(namespace.title)] = "\n".join(parts)
            return
        groups, seen = _groups(found), set[str]()
        pages = [page_name(namespace.title, title) for title, _, _ in groups]
        parts += [".. toctree::", "   :hidden:", "", *(f"   {each}" for each in pages), ""]
        if len(found) == 1:
            parts += _module(namespace.modules[0])
        for page, (title, module, inside) in zip(pages, groups, strict=True):
            parts += [_title(title, "-"), *self._table(inside)]
            text = [_title(title if len(found) > 1 else f"{namespace.title}: {title}", "=")]
            first = len(found) > 1 and module not in seen
            text += _module(module) if first else [f".. py:currentmodule:: {module}", ""]
            seen.add(module)
            self.texts[page] = "\n".join([*text, *self._entries(module, inside)])
        self.texts[page_name(namespace.title)] = "\n".join(parts)

    def _table(self, found: list[Entry]) -> list[str]:
        lines = [".. list-table::", "   :class: summary", "   :widths: 30 70", ""] if found else []
        for each in found:
            role = _role(each)
            lines += [f"   * - :py:{role}:`{each.name} <{each.full_name}>`", f"     - {_inline(each.sentence())}"]
        return [*lines, ""]

    def _entries(self, module: str, found: list[Entry]) -> Iterator[str]:
        if module == "webgpu_torch.Tensor":
            yield from (".. py:currentmodule:: webgpu_torch", "")
        for each in found:
            if not each.sentence().endswith((".", ":")):
                self.missing["sentence"].append(each.full_name)
            yield from self._entry(each)
            yield ""

    # Entries

    def _entry(self, entry: Entry) -> Iterator[str]:
        prefix = "Tensor." if entry.module == "webgpu_torch.Tensor" else ""
        names = [(entry.name, entry.value), *entry.more]
        method = entry.kind == "method"
        lines = []
        for name, value in names:
            given = ""
            if entry.kind not in ("property", "data"):
                # What happens in place takes what the operation takes.
                of = entry.value if "*args" in signature(value, method) else value
                given = (
                    signature(of, method).replace(", out=None", "").replace(", *)", ")")
                    if name.endswith("_")
                    else signature(of, method)
                )
            lines.append(f"{prefix}{name}{given}")
            self._refer(entry, name, value)
        directive = f".. py:{entry.kind}:: "
        yield directive + ("\n" + " " * len(directive)).join(lines)
        yield ""
        yield from (f"   {line}".rstrip() for line in self._body(entry))
        if entry.kind == "class" and id(entry.value) not in self.described:
            yield from self._methods(entry)
        self.described.setdefault(id(entry.value), (_role(entry), entry.full_name))

    def _refer(self, entry: Entry, name: str, value: Any) -> None:
        role, full = _role(entry), f"{entry.module}.{name}"
        inner = inspect.unwrap(value) if callable(value) else value
        defined = f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', name)}"
        for known in (
            full,
            full.removeprefix("webgpu_"),
            defined,
            defined.removeprefix("webgpu_torch_core."),
            name,
            f"Tensor.{name}",
        ):
            self.targets.setdefault(known, (role, full))

    def _body(self, entry: Entry) -> Iterator[str]:
        first = self.described.get(id(entry.value)) if entry.kind not in ("data", "property") else None
        if first is not None:
            yield f"{_inline(entry.sentence())} It is :py:{first[0]}:`{first[1].removeprefix('webgpu_')} <{first[1]}>`."
            return
        function = self._function_of(entry)
        sample = self.samples.of(entry, described=function is not None)
        if function is not None:
            role, name = function
            yield f"{_inline(entry.sentence())} The method of :py:{role}:`{name.removeprefix('webgpu_')} <{name}>`."
            yield ""
            yield f":Types: {typed(entry)}"
        else:
            yield from _docstring(entry.documentation())
            formula = formula_of(entry.sentence())
            if formula:
                yield from ("", ".. math::", "", f"   {formula}")
            yield ""
            yield from self._facts(entry, sample)
        yield ""
        yield from self._example(entry, sample)
        if function is None:
            yield from self._sources(entry, sample)

    def _facts(self, entry: Entry, sample: dict[str, Any]) -> Iterator[str]:
        found = list(facts(entry, sample))
        written = any(each in entry.documentation() for each in ("Args:", "Attributes:", "Shape:"))
        if not written and not any(each.startswith((":Shapes:", ":Types:")) for each in found):
            self.missing["shapes or types"].append(entry.full_name)
        if not says_errors(entry) and not any(each.lower().startswith(":raises") for each in found):
            self.missing["errors"].append(entry.full_name)
        yield from found

    def _example(self, entry: Entry, sample: dict[str, Any]) -> Iterator[str]:
        if ">>>" in entry.documentation():
            return
        if not sample:
            self.missing["example"].append(entry.full_name)
            return
        yield from (".. code-block:: pycon", "", *(f"   {each}" for each in doctest(sample["ran"])), "")

    def _function_of(self, entry: Entry) -> tuple[str, str] | None:
        """Return where the function of a method is described, if it has one."""
        if entry.operation is None or entry.module != "webgpu_torch.Tensor":
            return None
        return self.described.get(id(entry.operation.function))

    def _methods(self, entry: Entry) -> Iterator[str]:
        for name, value in members_of(entry.value):
            shown = isinstance(value, property)
            static = isinstance(value, staticmethod)
            given = "" if shown else signature(value, method=not static)
            yield from ("", f"   .. py:{'property' if shown else 'method'}:: {name}{given}", "")
            text = inspect.cleandoc(getattr(value, "__func__", value).__doc__ or "")
            yield from (f"      {line}".rstrip() for line in _docstring(text))

    # Sources

    def _sources(self, entry: Entry, sample: dict[str, Any]) -> Iterator[str]:
        """Yield the folded place of an entry's definition and kernels, which are loaded when it is opened."""
        path = source_file(entry.value)
        if path is None or entry.kind == "data":
            return
        parts = []
        for name, numpy, wgsl in sample.get("kernels", ()):
            parts += [("Kernel " + name + " in NumPy", numpy, "python"), ("The same in WGSL", wgsl, "wgsl")]
        text = _definition(entry.value)
        if text:
            parts.insert(0, (f"Definition, in {path}", text, "python"))
        number = f"{crc32(entry.full_name.encode()):08x}"
        what = "definition and kernels" if len(parts) > 1 else "definition" if parts else ""
        if what:
            self.sources[number] = parts
            yield ".. raw:: html"
            yield ""
            yield f'   <details class="source" data-source="{number}"><summary>{what}</summary></details>'

    def scripts(self) -> dict[str, str]:
        """Return the sources as scripts that hand them to the page, highlighted."""
        found = {}
        for number, parts in self.sources.items():
            shown = "".join(
                f'<p>{html.escape(title)}</p><div class="highlight"><pre>{_highlighted(code, kind)}</pre></div>'
                for title, code, kind in parts
            )
            found[number] = f"showSource({json.dumps(number)}, {json.dumps(shown)});\n"
        return found


@cache
def _highlighted(code: str, language: str) -> str:
    return highlight(code, get_lexer_by_name(language), HtmlFormatter(nowrap=True))


def _definition(value: Any) -> str:
    """Return the source of a definition without its docstring's continuation; nothing where it is long."""
    try:
        text = inspect.cleandoc("\n" + source_text(unwrapped(value)))
    except (OSError, TypeError):
        return ""
    return text if text.count("\n") <= MOST_LINES else ""


def _shown(module: str) -> str:
    return module.replace("webgpu_torch.", "torch.")


def _groups(found: dict[str, list[Entry]]) -> list[tuple[str, str, list[Entry]]]:
    """Return (title, module, entries) of the pages of a large namespace: by module, or by family; long ones in two."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for module, inside in found.items():
        for each in inside:
            groups.setdefault((_shown(module) if len(found) > 1 else each.group(), module), []).append(each)
    parts = []
    for (title, module), inside in sorted(groups.items()) if len(found) == 1 else groups.items():
        step = -(-len(inside) // -(-len(inside) // MOST_OF_A_PAGE))
        for first in range(0, len(inside), step):
            part = inside[first : first + step]
            # A name's last underscore would make it a reference in a title.
            first_name, last_name = part[0].name.rstrip("_"), part[-1].name.rstrip("_")
            letters = "" if step == len(inside) else f", {first_name} to {last_name}"
            parts.append((title + letters, module, part))
    return parts


def _docstring(text: str) -> list[str]:
    """Return a docstring of sections as lines of reStructuredText."""
    return "\n".join(GoogleDocstring(_escaped(text), NAPOLEON).lines()).split("\n")


def _role(entry: Entry) -> str:
    return {"function": "func", "method": "meth", "property": "attr", "exception": "exc"}.get(entry.kind, entry.kind)


def _title(text: str, underline: str) -> str:
    return f"{text}\n{underline * len(text)}\n"


def _module(module: str) -> tuple[str, ...]:
    if module == "webgpu_torch.Tensor":
        return (".. py:currentmodule:: webgpu_torch", "", ".. py:class:: Tensor", "",
                "   An array of numbers of one type on one device, which knows how it was computed.", "")  # fmt: skip
    return (f".. py:module:: {module}", "")


def _inline(sentence: str) -> str:
    return _escaped(sentence) or "…"


def _escaped(text: str) -> str:
    """Return a docstring whose stars and bars of arguments are not taken for markup outside of literals."""
    parts = re.split(r"(``.*?``|`[^`]+`|^\s*(?:>>>|\.\. ).*$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if number % 2 else re.sub(r"(?<!\\)\*(?! )", r"\\*", part) for number, part in enumerate(parts))


def _index() -> str:
    lines = [
        _title("Reference", "="),
        "Every public name, under the name that a PyTorch program uses; ``torch`` is ``webgpu_torch``.",
        "",
    ]
    lines += [".. list-table::", "   :class: summary", "   :widths: 30 70", ""]
    for each in NAMESPACES:
        lines += [f"   * - :doc:`{each.title} <{page_name(each.title)}>`", f"     - {each.about}"]
    lines += ["", ".. toctree::", "   :hidden:", "", *(f"   {page_name(each.title)}" for each in NAMESPACES), ""]
    return "\n".join(lines)


def write(folder: Path, texts: dict[str, str], suffix: str) -> None:
    """Make a folder hold these texts and no others, touching only what changed."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {folder / f"{name}{suffix}": text for name, text in texts.items()}
    for path in set(folder.iterdir()) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


__all__ = ["PARTS", "Pages", "page_name", "write"]
