# ruff: noqa: F704
"""Packages for the page's Python. Those that Pyodide's own distribution has compiled (NumPy, regex) are not in a registry, so
that names stand in for them: transformers asks for NumPy's types, and computes nothing with them."""

import importlib
import importlib.machinery
import importlib.metadata
import re
import site
import sys
from types import ModuleType

from pyodide.http import pyfetch

await (await pyfetch("packages.zip")).unpack_archive(extract_dir=site.getsitepackages()[0])
importlib.invalidate_caches()


class Names(ModuleType):
    """A module in which every name is an empty class."""

    __path__ = []

    def __init__(self, name):
        super().__init__(name)
        self.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        sys.modules[name] = self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        vars(self)[name] = type(name, (), {})
        return vars(self)[name]


names = Names("numpy")
names.__version__, names.typing, names.inf = "2.4.6", Names("numpy.typing"), float("inf")
# Asks the network, which no program here does.
Names("httpx2_jsfetch")
sys.modules["regex"] = re
versions, installed = {"numpy": "2.4.6", "regex": "2026.3.32"}, importlib.metadata.version
importlib.metadata.version = lambda name: versions.get(name) or installed(name)
