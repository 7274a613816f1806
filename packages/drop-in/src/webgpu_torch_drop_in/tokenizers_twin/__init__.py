"""The package tokenizers in Python, for tokenizer.json files, where the compiled one is not installed.

There is none for Python in web pages; elsewhere the compiled package is used. Training, and the kinds of steps that
:mod:`.stages` does not know, are refused by name.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any

from . import decoders, models, normalizers, pre_tokenizers, processors
from .encoding import Encoding
from .stages import Stage, Value
from .text import Regex
from .tokenizer import AddedToken, Tokenizer

#: the version whose interface this is
VERSION = "0.23.3"
TRAINERS = ("BpeTrainer", "UnigramTrainer", "WordLevelTrainer", "WordPieceTrainer")


class Trainer:
    """What stands for the compiled package's ways to make vocabularies."""

    def __init__(self, *values: Value, **named: Value) -> None:
        raise NotImplementedError(
            f"{type(self).__name__} makes vocabularies, for which the compiled package tokenizers is needed"
        )


def is_brought() -> bool:
    """Return whether ``import tokenizers`` gives these classes."""
    return vars(sys.modules.get("tokenizers", sys)).get("Tokenizer") is Tokenizer


def bring() -> None:
    """Let ``import tokenizers`` give these classes where it would find nothing."""
    if "tokenizers" in sys.modules or importlib.util.find_spec("tokenizers") is not None:
        return
    package, trainers = ModuleType("tokenizers"), ModuleType("tokenizers.trainers")
    vars(trainers).update({name: type(name, (Trainer,), {}) for name in TRAINERS})
    modules = {"trainers": trainers}
    for source in (decoders, models, normalizers, pre_tokenizers, processors):
        name = source.__name__.rpartition(".")[2]
        kinds = {
            key: value for key, value in vars(source).items() if isinstance(value, type) and issubclass(value, Stage)
        }
        modules[name] = ModuleType(f"tokenizers.{name}")
        vars(modules[name]).update({key: value for key, value in kinds.items() if key != "Stage" and key[0] != "_"})
    vars(package).update(
        modules, __path__=[], __version__=VERSION, AddedToken=AddedToken, Encoding=Encoding, Regex=Regex, Token=models.Token,
        Tokenizer=Tokenizer,
    )  # fmt: skip
    for module in (package, *modules.values()):
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None, is_package=module is package)
        sys.modules[module.__name__] = module
