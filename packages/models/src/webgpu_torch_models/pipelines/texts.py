"""Pipelines that read texts: classes of texts and tokens, masked words, answers, states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.files.host_tensors import brief

from webgpu_torch_models.output import LogitsOutput, SpanOutput
from webgpu_torch_models.pipelines.base import Pipeline, Scored, best, for_each, scores_of
from webgpu_torch_models.registry import ENCODER_MODEL, MASKED_LM, MODEL, SEQUENCES, SPANS, TOKENS
from webgpu_torch_models.tokenizer import Encoded


class Filled(TypedDict):
    """A word for a masked one, the whole text with it, and its probability."""

    score: float
    token: int
    token_str: str
    sequence: str


class Entity(TypedDict):
    """A token, or neighbouring ones of one class, and where in the text they are."""

    score: float
    word: str
    start: int
    end: int
    entity: NotRequired[str]
    entity_group: NotRequired[str]
    index: NotRequired[int]


class Answer(TypedDict):
    """A part of a text that answers a question."""

    score: float
    start: int
    end: int
    answer: str


class Sorted(TypedDict):
    """Labels, the likeliest first."""

    sequence: str
    labels: list[str]
    scores: list[float]


class TextPipeline(Pipeline):
    """A network that reads a text as a whole."""

    def read(self, encoded: Encoded) -> LogitsOutput | SpanOutput:
        """Run the network on one text, or on a pair."""
        segments = {}
        if getattr(self.config, "type_vocab_size", 1) > 1:
            segments["token_type_ids"] = self.integers([encoded.segments])
        with torch.no_grad():
            return self.model(self.integers([encoded.ids]), **segments)

    def logits(self, encoded: Encoded) -> Tensor:
        """Return the logits of one text, or of a pair: [classes], or [tokens, classes]."""
        result = self.read(encoded)
        assert isinstance(result, LogitsOutput)
        return result.logits[0]


class TextClassificationPipeline(TextPipeline):
    """Says which class a text is of."""

    model_tasks = (SEQUENCES,)

    def __call__(
        self, inputs: str | dict[str, str] | list[str | dict[str, str]], top_k: int | None = 1,
        function_to_apply: str | None = None,
    ) -> list[Scored] | list[list[Scored]]:  # fmt: skip
        """Classify texts.

        Args:
            inputs: a text, a pair of texts {"text": …, "text_pair": …}, or a list of them.
            top_k: how many classes to name; None is all. With 1, a list of inputs gives one class for each.
            function_to_apply: "softmax", "sigmoid" or "none" makes scores of logits; what the model was trained for by default.

        Raises:
            ValueError: an input is no text, or there is no such function.
        """
        problem = self.config.extra.get("problem_type")
        names = [self.config.label(number) for number in range(self.config.num_labels)]
        several = inputs if isinstance(inputs, list) else [inputs]
        results = []
        for one in several:
            pair = one if isinstance(one, dict) else {"text": one}
            if not isinstance(pair.get("text"), str) or not set(pair) <= {"text", "text_pair"}:
                raise ValueError(f'expected a text or {{"text": …, "text_pair": …}}, got {brief(one)}')
            logits = self.logits(self.tokenizer.encode_windows(pair["text"], pair.get("text_pair"))[0])
            results.append(best(scores_of(logits, function_to_apply, problem).tolist(), names, top_k))
        return [one[0] for one in results] if top_k == 1 else results if isinstance(inputs, list) else results[0]


class FillMaskPipeline(TextPipeline):
    """Names masked words."""

    model_tasks = (MASKED_LM,)

    def __call__(
        self, inputs: str | list[str], top_k: int = 5, targets: str | list[str] | None = None
    ) -> list[Filled] | list[list[Filled]] | list[list[Filled] | list[list[Filled]]]:
        """Name the masked words of texts.

        Args:
            inputs: a text with the tokenizer's token for masked words, or a list of them.
            top_k: how many words to name.
            targets: only these are considered.

        Returns:
            words, the likeliest first; of a text with several masks a list for each, of several texts a list for each.

        Raises:
            ValueError: the tokenizer has no such token, a text has none, or a target is no token.
        """
        mask = self.tokenizer.mask_token_id
        if mask is None:
            raise ValueError("the tokenizer has no mask_token: the model was not trained to name masked words")
        allowed = None if targets is None else self._tokens([targets] if isinstance(targets, str) else targets)
        return for_each(inputs, str, lambda text: self._fill(text, mask, top_k, allowed))

    def _tokens(self, targets: Sequence[str]) -> list[int]:
        found = {one: self.tokenizer.backend.token_to_id(one) for one in targets}
        strange = [one for one in targets if found[one] is None]
        if strange or not targets:
            raise ValueError(f"targets must be tokens of the model's vocabulary, got {', '.join(strange[:5])}")
        return sorted(set(found.values()))

    def _fill(self, text: str, mask: int, top_k: int, allowed: list[int] | None) -> list[Filled] | list[list[Filled]]:
        encoded = self.tokenizer.encode_windows(text)[0]
        places = [number for number, token in enumerate(encoded.ids) if token == mask]
        if not places:
            raise ValueError(
                f"{brief(text)} has no {self.tokenizer.special_tokens['mask_token']}: what is to be named?"
            )
        probabilities = self.logits(encoded)[self.integers([places])[0]].float().softmax(-1)  # (masks, vocabulary)
        if allowed is not None:
            probabilities = probabilities[:, self.integers([allowed])[0]]
        values, tokens = probabilities.topk(min(top_k, probabilities.shape[-1]))
        rows = []
        for place, scores, numbers in zip(places, values.tolist(), tokens.tolist(), strict=True):
            row: list[Filled] = []
            for score, number in zip(scores, numbers, strict=True):
                token = number if allowed is None else allowed[number]
                ids = [*encoded.ids[:place], token, *encoded.ids[place + 1 :]]
                # Other masks stay to be seen.
                whole = self.tokenizer.decode(ids, skip_special_tokens=len(places) == 1)
                row.append(
                    {"score": score, "token": token, "token_str": self.tokenizer.decode([token]), "sequence": whole}
                )
            rows.append(row)
        return rows[0] if len(places) == 1 else rows


class FeatureExtractionPipeline(TextPipeline):
    """Gives the states of a text's tokens."""

    model_tasks = (MODEL, ENCODER_MODEL)

    def __call__(self, inputs: str | list[str]) -> list[list[list[float]]] | list[list[list[list[float]]]]:
        """Return each token's state, [1][tokens][width], of a text; of a list of texts a list of them."""

        def states(text: str) -> list[list[list[float]]]:
            with torch.no_grad():
                ids = self.integers([self.tokenizer.encode(text)])
                return self.model(ids).last_hidden_state.float().tolist()

        return for_each(inputs, str, states)


class TokenClassificationPipeline(TextPipeline):
    """Says which class each token of a text is of: names of people, places and so on."""

    model_tasks = (TOKENS,)

    def __call__(
        self, inputs: str | list[str], aggregation_strategy: str = "none", ignore_labels: Sequence[str] = ("O",)
    ) -> list[Entity] | list[list[Entity]]:
        """Classify the tokens of texts.

        Args:
            inputs: a text, or a list of them.
            aggregation_strategy: "none" gives tokens. "simple" joins neighbours of one class; "first", "average" and "max" do
                so with words, whose class is their first token's, that of their mean scores, or their surest token's.
            ignore_labels: classes that are left out.

        Raises:
            ValueError: an input is no text, or there is no such strategy.
        """
        known = ("none", "simple", "first", "average", "max")
        if aggregation_strategy not in known:
            raise ValueError(
                f"aggregation_strategy must be one of {', '.join(known)}, got {brief(aggregation_strategy)}"
            )
        return for_each(inputs, str, lambda text: self._entities(text, aggregation_strategy, ignore_labels))

    def _entities(self, text: str, strategy: str, ignored: Sequence[str]) -> list[Entity]:
        encoded = self.tokenizer.encode_windows(text)[0]
        rows = self.logits(encoded).float().softmax(-1).tolist()
        places = [number for number, of in enumerate(encoded.texts) if of is not None]
        words = [[place] for place in places]
        if strategy not in ("none", "simple"):
            words = []
            for place in places:
                same = bool(words) and encoded.words[place] is not None
                same = same and encoded.words[place] == encoded.words[words[-1][-1]]
                words[-1].append(place) if same else words.append([place])
        parts = [self._classified(encoded, rows, word, strategy, text) for word in words]
        entities = parts if strategy == "none" else self._grouped(parts, encoded)
        return [one[0] for one in entities if one[0].get("entity", one[0].get("entity_group")) not in ignored]

    def _classified(
        self, encoded: Encoded, rows: list[list[float]], word: list[int], strategy: str, text: str
    ) -> tuple[Entity, list[int]]:
        """Return the class of a word's tokens, and these tokens."""
        scores = rows[word[0]]
        if strategy == "max":
            scores = max((rows[place] for place in word), key=max)
        elif strategy == "average":
            scores = [sum(column) / len(word) for column in zip(*(rows[place] for place in word), strict=True)]
        score, ids = max(scores), [encoded.ids[place] for place in word]
        start, end = encoded.offsets[word[0]][0], encoded.offsets[word[-1]][1]
        found: Entity = {
            "entity": self.config.label(scores.index(score)), "score": score, "index": word[0],
            "word": self.tokenizer.backend.id_to_token(ids[0]), "start": start, "end": end,
        }  # fmt: skip
        if len(ids) == 1 and ids[0] == self.tokenizer.unk_token_id:
            found["word"] = text[start:end]
        elif strategy not in ("none", "simple"):
            found["word"] = self.tokenizer.join(ids)
        return found, word

    def _grouped(self, parts: list[tuple[Entity, list[int]]], encoded: Encoded) -> list[tuple[Entity, list[int]]]:
        """Join neighbours of one class; "B-" starts a new one."""
        groups: list[list[tuple[Entity, list[int]]]] = []
        for part in parts:
            label = part[0].get("entity", "")
            before = groups[-1][-1][0].get("entity", "") if groups else None
            goes_on = before is not None and not label.startswith("B-") and _kind(label) == _kind(before)
            groups[-1].append(part) if goes_on else groups.append([part])
        result: list[tuple[Entity, list[int]]] = []
        for group in groups:
            first, last = group[0][0], group[-1][0]
            words = [part["word"] for part, _ in group]
            decoder = self.tokenizer.backend.decoder
            entity: Entity = {
                "entity_group": first.get("entity", "").split("-", 1)[-1],
                "score": sum(part["score"] for part, _ in group) / len(group),
                "word": " ".join(words) if decoder is None else decoder.decode(words),
                "start": first["start"], "end": last["end"],
            }  # fmt: skip
            result.append((entity, [place for _, places in group for place in places]))
        return result


def _kind(label: str) -> str:
    return label[2:] if label.startswith(("B-", "I-")) else label


class QuestionAnsweringPipeline(TextPipeline):
    """Finds the answer to a question in a text."""

    model_tasks = (SPANS,)

    def __call__(
        self, question: str, context: str, top_k: int = 1, max_answer_len: int = 15, max_seq_len: int = 384,
        doc_stride: int = 128, handle_impossible_answer: bool = False, align_to_words: bool = True,
    ) -> Answer | list[Answer]:  # fmt: skip
        """Return the part of ``context`` that answers ``question``, or with ``top_k`` above 1 a list, the likeliest first.

        Args:
            question: what is asked.
            context: where the answer stands; a long one is read in windows.
            top_k: how many answers to give at most.
            max_answer_len: tokens of an answer at most.
            max_seq_len, doc_stride: tokens of a window, and how many of them neighbours have in common.
            handle_impossible_answer: whether "" is an answer, too.
            align_to_words: whether answers end where words do.

        Raises:
            ValueError: question or context is empty.
        """
        if not question.strip() or not context.strip():
            raise ValueError("question and context must be texts that are not empty")
        limit = min(max_seq_len, self.config.longest_text or max_seq_len)
        answers: list[Answer] = []
        nothing = 1.0
        for encoded in self.tokenizer.encode_windows(question, context, limit, min(doc_stride, limit // 2)):
            inside = [number for number, of in enumerate(encoded.texts) if of == 1]
            places = [0, *inside] if handle_impossible_answer else inside
            result = self.read(encoded)
            assert isinstance(result, SpanOutput)
            index = self.integers([places])[0]
            starts, ends = (
                logits[0][index].float().softmax(-1).tolist() for logits in (result.start_logits, result.end_logits)
            )
            if handle_impossible_answer:
                nothing = min(nothing, starts.pop(0) * ends.pop(0))
            answers += self._spans(encoded, inside, starts, ends, context, top_k, max_answer_len, align_to_words)
        if handle_impossible_answer:
            answers.append({"score": nothing, "start": 0, "end": 0, "answer": ""})
        answers = sorted(answers, key=lambda one: -one["score"])[:top_k]
        return answers[0] if top_k == 1 else answers

    @staticmethod
    def _spans(
        encoded: Encoded, inside: list[int], starts: list[float], ends: list[float], context: str, top_k: int, longest: int,
        whole_words: bool,
    ) -> list[Answer]:  # fmt: skip
        pairs = [
            (one * ends[last], first, last)
            for first, one in enumerate(starts) for last in range(first, min(first + longest, len(ends)))
        ]  # fmt: skip
        answers: list[Answer] = []
        for score, first, last in sorted(pairs, key=lambda pair: -pair[0])[:top_k]:
            places = encoded.words if whole_words else encoded.offsets
            from_place = places[inside[first]] or encoded.offsets[inside[first]]
            to_place = places[inside[last]] or encoded.offsets[inside[last]]
            start, end = from_place[0], to_place[1]
            answers.append({"score": score, "start": start, "end": end, "answer": context[start:end]})
        return answers


class ZeroShotClassificationPipeline(TextPipeline):
    """Says which of any labels fits a text, by a model that was trained on what follows from what."""

    model_tasks = (SEQUENCES,)

    def __call__(
        self, sequences: str | list[str], candidate_labels: str | list[str], hypothesis_template: str = "This example is {}.",
        multi_label: bool = False,
    ) -> Sorted | list[Sorted]:  # fmt: skip
        """Sort labels by how well they fit texts.

        Args:
            sequences: a text, or a list of them.
            candidate_labels: the labels, or one text with commas between them.
            hypothesis_template: what is claimed of a label, with {} where it stands.
            multi_label: whether each label has a probability of its own; else they add up to one.

        Raises:
            ValueError: there are no labels, the template has no place for one, or the model has no class "entailment".
        """
        labels = candidate_labels.split(",") if isinstance(candidate_labels, str) else candidate_labels
        labels = [one.strip() for one in labels if one.strip()]
        if not labels or hypothesis_template.format("") == hypothesis_template:
            raise ValueError(
                f"labels and a template with {{}} are needed, got {labels} and {brief(hypothesis_template)}"
            )
        names = [self.config.label(number).lower() for number in range(self.config.num_labels)]
        entails = next((number for number, name in enumerate(names) if name.startswith("entail")), None)
        if entails is None:
            raise ValueError(f'the model has no class "entailment", only {", ".join(names)}')
        other = -1 if entails == 0 else 0

        def sort(text: str) -> Sorted:
            rows = [
                self.logits(self.tokenizer.encode_windows(text, hypothesis_template.format(label))[0]).float()
                for label in labels
            ]
            logits = torch.stack(rows)  # (labels, classes)
            if multi_label or len(labels) == 1:
                scores = torch.stack([logits[:, other], logits[:, entails]], dim=-1).softmax(-1)[:, 1]
            else:
                scores = logits[:, entails].softmax(0)
            found = best(scores.tolist(), labels, None)
            return {
                "sequence": text,
                "labels": [one["label"] for one in found],
                "scores": [one["score"] for one in found],
            }

        return for_each(sequences, str, sort)
