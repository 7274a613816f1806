"""Modules that no page runs are left out of pages' wheels, and no others: drawn packages, imported as a page imports them."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_web.site.leaving_out import never_run

#: how a module imports another, by who comes there
PLAIN = ("from . import {0}", "def f():\n    from . import {0}\nf()", "try:\n    from . import {0}\nfinally:\n    pass")
NATIVE = (
    "if sys.platform != 'emscripten':\n    from . import {0}",
    "def f():\n    if sys.platform == 'emscripten':\n        return\n    from . import {0}\nf()",
    "def f():\n    if sys.platform == 'emscripten':\n        pass\n    else:\n        from . import {0}\nf()",
)
TYPES = ("if TYPE_CHECKING:\n    from . import {0}",)
HEAD = "import sys\nfrom typing import TYPE_CHECKING\n"
MODULES = 6


@st.composite
def packages(draw: st.DrawFn) -> dict[str, str]:
    """Return the sources of a package ``drawn``; modules import later ones only, as layers do."""
    found = {"drawn/__init__.py": ""}
    for number in range(MODULES):
        later = st.integers(number + 1, MODULES - 1).map("m{}".format) if number + 1 < MODULES else st.nothing()
        forms = st.builds(str.format, st.sampled_from((*PLAIN, *NATIVE, *TYPES)), later)
        declared = draw(st.booleans())
        body = ["def g() -> int: ..."] if declared else ["value = 1", *draw(st.lists(forms, max_size=3))]
        found[f"drawn/m{number}.py"] = HEAD + "\n".join(body) + "\n"
    return found


def imported(sources: dict[str, str], without: set[str]) -> set[str]:
    """Import, as a page, every module that is there, and return which files were."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(sys, "path", [folder, *sys.path]):
        Path(folder, "drawn").mkdir()
        for path, source in sources.items():
            if path not in without:
                Path(folder, path).write_text(source, encoding="utf-8")
        importlib.invalidate_caches()
        try:
            with mock.patch.object(sys, "platform", "emscripten"), mock.patch.object(sys, "dont_write_bytecode", True):
                for path in sorted(sources.keys() - without):
                    importlib.import_module(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
            return {Path(sys.modules[each].__file__ or "").name for each in sys.modules if each.startswith("drawn")}
        finally:
            for each in [each for each in sys.modules if each.startswith("drawn")]:
                del sys.modules[each]


@settings(max_examples=40, deadline=None)
@given(packages())
def test_what_stays_needs_nothing_that_is_left_out(sources: dict[str, str]) -> None:
    without = never_run(sources)
    assert imported(sources, without) == {Path(each).name for each in sources.keys() - without}


def test_what_only_others_import_is_left_out() -> None:
    sources = {
        "drawn/__init__.py": HEAD
        + "def f():\n if sys.platform == 'emscripten':\n  return 1\n from .native import run\n",
        "drawn/native.py": "from . import header, shared, typed\n",
        "drawn/header.py": "value = 1\n",
        "drawn/shared.py": "value = 1\n",
        "drawn/page.py": "from .shared import value\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n from .kinds import g\n"
        " from .lazy import h\n",
        "drawn/kinds.py": "def g() -> int: ...\n",
        # Imported by a computed name, as far as anybody knows.
        "drawn/lazy.py": "def h(): return 1\n",
        "drawn/typed.py": "",
    }
    assert never_run(sources) == {f"drawn/{each}.py" for each in ("native", "header", "kinds", "typed")}
