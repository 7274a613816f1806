"""What is added around a text's tokens: ``tokenizers.processors``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product, takewhile
from typing import Any

from .encoding import Encoding
from .pre_tokenizers import byte_characters
from .stages import SequenceOf, Stage, Value
from .text import is_space


class PostProcessor(Stage):
    """A way to put one text, or two, together."""

    def processed(self, encodings: list[Encoding], special: bool) -> list[Encoding]:
        """Return the texts' tokens with others around them, which ``special`` asks for."""
        raise NotImplementedError

    def num_special_tokens_to_add(self, is_pair: bool) -> int:
        """Return how many tokens are added to one text or two."""
        return sum(len(each) for each in self.processed([Encoding() for _ in range(1 + is_pair)], True))


def joined(processor: PostProcessor | None, encodings: list[Encoding], special: bool) -> Encoding:
    """Return texts' tokens as one, and for each choice of the windows that are left the same of them."""

    def one(windows: tuple[Encoding, ...]) -> Encoding:
        found = Encoding()
        for each in list(windows) if processor is None else processor.processed(list(windows), special):
            found.extend(each)
        return found

    # The first text's first window comes last of those that are left, as in the compiled package.
    begin, *after = encodings
    rests = list(product(*[[each, *each.overflowing] for each in after]))
    result = one((begin, *rests[0]))
    result.overflowing = [one((each, *rest)) for each in begin.overflowing for rest in rests]
    result.overflowing += [one((begin, *rest)) for rest in rests[1:]]
    return result


class Sequence(SequenceOf, PostProcessor):
    """Several ways, one after the other."""

    LISTED = "processors"

    def processed(self, encodings: list[Encoding], special: bool) -> list[Encoding]:
        """Return the texts' tokens with others around them."""
        for each in self.parts:
            encodings = each.processed(encodings, special)
        return encodings


def _trimmed(encoding: Encoding, prefixed: bool) -> Encoding:
    """Return tokens whose places leave out the spaces at their ends."""
    found = encoding.part(0, len(encoding))

    def blanks(token: Iterable[str]) -> int:
        return sum(1 for _ in takewhile(lambda each: each == byte_characters()[32] or is_space(each), token))

    for place, (token, (start, end)) in enumerate(zip(found.tokens, found.offsets, strict=True)):
        leading, trailing = blanks(token), blanks(reversed(token))
        if leading == 1 and prefixed and (place == 0 or start == 0):
            # A single one was put there; of several all are the text's.
            leading = 0
        start = min(start + leading, end)
        found.offsets[place] = (start, max(end - trailing, start))
    return found


class ByteLevel(PostProcessor):
    """Nothing added; places without spaces."""

    FIELDS = {"add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    add_prefix_space: bool
    trim_offsets: bool

    def processed(self, encodings: list[Encoding], special: bool) -> list[Encoding]:
        """Return the texts' tokens."""
        return [_trimmed(each, self.add_prefix_space) if self.trim_offsets else each for each in encodings]


class _Ends(PostProcessor):
    """A token before the first text and one after each."""

    sep: Any
    cls: Any
    #: what stands before the second text, and the segment that it is
    between: bool
    segment: int

    def _around(self, encodings: list[Encoding]) -> list[Encoding]:
        found = Encoding()
        for place, each in enumerate(encodings):
            segment = self.segment if place else 0
            begin = self.sep if place and self.between else None if place else self.cls
            for token, text in ((begin, each), (self.sep, None)):
                if token is not None:
                    found.add(token[1], token[0], type_id=segment, special=1)
                if text is not None:
                    found.extend(text.given(place, segment))
        return [found]


class BertProcessing(_Ends):
    """``[CLS] A [SEP] B [SEP]``."""

    FIELDS = {"sep": None, "cls": None}
    between, segment = False, 1

    def processed(self, encodings: list[Encoding], special: bool) -> list[Encoding]:
        """Return the texts' tokens with others around them."""
        return self._around(encodings) if special else encodings


class RobertaProcessing(_Ends):
    """``<s> A </s></s> B </s>``."""

    FIELDS = {"sep": None, "cls": None, "trim_offsets": True, "add_prefix_space": True}
    between, segment = True, 0
    trim_offsets: bool
    add_prefix_space: bool

    def processed(self, encodings: list[Encoding], special: bool) -> list[Encoding]:
        """Return the texts' tokens with others around them."""
        if self.trim_offsets:
            encodings = [_trimmed(each, self.add_prefix_space) for each in encodings]
        if special:
            return self._around(encodings)
        return [each.given(place, 0) for place, each in enumerate(encodings)]


def _pieces(template: Value) -> list[dict[str, dict[str, Value]]]:
    """Return the parts of a template, ``"$A:0 </s>:0"`` or a list, as files have them."""
    found = []
    for part in template.split() if isinstance(template, str) else template or ():
        if not isinstance(part, str):
            found.append(part)
            continue
        name, _, number = part.rpartition(":")
        if not name or not number.isdigit():
            name, number = part, "0"
        if name.startswith("$"):
            text, segment = (name[1:], number) if not name[1:].isdigit() else ("A", name[1:])
            found.append({"Sequence": {"id": text.upper() or "A", "type_id": int(segment)}})
        else:
            found.append({"SpecialToken": {"id": name, "type_id": int(number)}})
    return found


class TemplateProcessing(PostProcessor):
    """Tokens where a template has them."""

    FIELDS = {"single": None, "pair": None, "special_tokens": None}
    single: Any
    pair: Any
    special_tokens: Any

    def prepared(self) -> None:
        """Read the templates.

        Raises:
            ValueError: a template has a token that is not among the special ones.
        """
        self.single = _pieces("$A:0" if self.single is None else self.single)
        self.pair = _pieces("$A:0 $B:1" if self.pair is None else self.pair)
        if not isinstance(self.special_tokens, dict):
            pairs = [sorted(each, key=lambda one: isinstance(one, int)) if isinstance(each, (tuple, list)) else each
                     for each in self.special_tokens or ()]  # fmt: skip
            records = [
                {"id": each[0], "ids": [each[1]], "tokens": [each[0]]} if isinstance(each, list) else each
                for each in pairs
            ]
            self.special_tokens = {each["id"]: each for each in sorted(records, key=lambda one: one["id"])}
        wanted = {each["SpecialToken"]["id"] for each in (*self.single, *self.pair) if "SpecialToken" in each}
        if not wanted <= self.special_tokens.keys():
            raise ValueError(f"Missing SpecialToken(s) with id(s) {sorted(wanted - self.special_tokens.keys())}")

    def processed(self, encodings: list[Encoding], special: bool) -> list[Encoding]:
        """Return the texts' tokens with others around them."""
        found = Encoding()
        for part in self.pair if len(encodings) == 2 else self.single:
            ((kind, each),) = part.items()
            if kind == "Sequence":
                place = "AB".index(each["id"])
                found.extend(encodings[place].given(place, each["type_id"]))
            elif special:
                record = self.special_tokens[each["id"]]
                for number, text in zip(record["ids"], record["tokens"], strict=True):
                    found.add(number, text, type_id=each["type_id"], special=1)
        return [found]
