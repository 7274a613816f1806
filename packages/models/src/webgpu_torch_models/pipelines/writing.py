"""Pipelines that write: continuations of texts, texts for texts, what was said."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, NotRequired, Required, TypedDict, Unpack

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.files.host_tensors import brief

from webgpu_torch_models.audio import read_wave
from webgpu_torch_models.generation.config import GenerationConfig, GenerationOptions
from webgpu_torch_models.pipelines.base import Pipeline
from webgpu_torch_models.pipelines.segments import segments_of
from webgpu_torch_models.registry import CAUSAL_LM, SEQ2SEQ
from webgpu_torch_models.seq2seq import Seq2SeqModel

#: how many tokens are written where neither the call nor the model says it
NEW_TOKENS = 256
Messages = list[dict[str, object]]


class Generated(TypedDict):
    """A text, or a conversation, and what was written after it."""

    generated_text: str | Messages


class Sound(TypedDict, total=False):
    """Sound as a program has it: samples from -1 to 1 under "array" or "raw", and how many there are in a second."""

    array: Tensor | list[float]
    raw: Tensor | list[float]
    sampling_rate: Required[int]


class Chunk(TypedDict):
    """What was said from one time to another, in seconds."""

    timestamp: tuple[float, float]
    text: str


class Said(TypedDict):
    """What was said; with ``return_timestamps``, also when."""

    text: str
    chunks: NotRequired[list[Chunk]]


def _is_conversation(given: object) -> bool:
    return isinstance(given, list) and bool(given) and isinstance(given[0], dict)


class WritingPipeline(Pipeline):
    """A model that writes."""

    def limited(self, options: GenerationOptions, tokens: int) -> GenerationOptions:
        """Return options with so many new tokens, unless they or the model's own say how many."""
        own = self.model.generation_config.max_new_tokens
        return {"max_new_tokens": tokens if own is None else own, **options}


class TextGenerationPipeline(WritingPipeline):
    """Goes on with texts and conversations."""

    model_tasks = (CAUSAL_LM,)

    def __call__(
        self, inputs: str | list[str] | Messages | list[Messages], return_full_text: bool | None = None,
        generator: torch.Generator | None = None, **options: Unpack[GenerationOptions],
    ) -> list[Generated] | list[list[Generated]]:  # fmt: skip
        """Go on with texts, or with conversations: lists of messages with "role" and "content".

        Args:
            inputs: a text, a conversation, or a list of either.
            return_full_text: whether results start with what was given; they do by default.
            generator: draws the tokens.
            options: as :func:`webgpu_torch_models.generation.generate`'s.

        Raises:
            ValueError: an input is neither, an option is out of range, or the tokenizer cannot write conversations.
        """
        full = return_full_text is not False
        if isinstance(inputs, str) or _is_conversation(inputs):
            return self._continue(inputs, full, generator, options)  # type: ignore[arg-type]
        return [self._continue(one, full, generator, options) for one in inputs]  # type: ignore[arg-type]

    def _continue(
        self, given: str | Messages, full: bool, generator: torch.Generator | None, options: GenerationOptions
    ) -> list[Generated]:
        tokenizer = self.tokenizer
        if isinstance(given, str):
            ids = tokenizer.encode(given)
        elif _is_conversation(given):
            ids = tokenizer.encode(tokenizer.apply_chat_template(given), add_special_tokens=False)
        else:
            raise ValueError(f"expected a text or a list of messages, got {brief(given)}")
        limit = getattr(self.config, "n_positions", len(ids) + NEW_TOKENS) - len(ids)
        given_ids, chosen = self.integers([ids]), self.limited(options, max(1, min(NEW_TOKENS, limit)))
        written = self.model.generate(given_ids, generator=generator, tokenizer=tokenizer, **chosen)[0].tolist()
        new = tokenizer.decode(written[len(ids) :], skip_special_tokens=True)
        if not full:
            return [{"generated_text": new}]
        if isinstance(given, str):
            return [{"generated_text": given + new}]
        return [{"generated_text": [*given, {"role": "assistant", "content": new}]}]


class Text2TextPipeline(WritingPipeline):
    """Writes a text for a text: a summary, a translation."""

    model_tasks = (SEQ2SEQ,)
    #: what the result is called, by how the task's name starts
    names: ClassVar[dict[str, str]] = {"summarization": "summary_text", "translation": "translation_text"}

    def __call__(
        self, inputs: str | list[str], generator: torch.Generator | None = None, **options: Unpack[GenerationOptions]
    ) -> list[dict[str, str]]:
        """Write a text for each of those given; T5's are told the task by what its config.json says under the task's name.

        Args:
            inputs: a text, or a list of them.
            generator: draws the tokens.
            options: as :func:`webgpu_torch_models.generation.generate`'s.

        Raises:
            ValueError: an input is no text, or an option is out of range.
        """
        if getattr(self.model, "main_input_name", "") != "input_ids":
            raise ValueError(f"{type(self.model).__name__} does not read texts")
        own = (self.config.extra.get("task_specific_params") or {}).get(self.task) or {}
        name = next((name for start, name in self.names.items() if self.task.startswith(start)), "generated_text")

        def write(text: str) -> dict[str, str]:
            if not isinstance(text, str):
                raise ValueError(f"expected a text or a list of them, got {brief(text)}")
            ids = self.integers([self.tokenizer.encode(str(own.get("prefix") or "") + text)])
            chosen = self.limited(options, NEW_TOKENS)
            written = self.model.generate(ids, generator=generator, tokenizer=self.tokenizer, **chosen)[0]
            return {name: self.tokenizer.decode(written, skip_special_tokens=True)}

        return [write(one) for one in (inputs if isinstance(inputs, list) else [inputs])]


class SpeechRecognitionPipeline(WritingPipeline):
    """Writes down what is said."""

    model_tasks = (SEQ2SEQ,)
    reads = ("tokenizer", "feature_extractor")

    def __call__(
        self, inputs: str | Path | Tensor | Sound | list[str | Path | Tensor | Sound], language: str | None = None,
        task: str = "transcribe", generator: torch.Generator | None = None, **options: Unpack[GenerationOptions],
    ) -> Said | list[Said]:  # fmt: skip
        """Write down what is said; sound that is longer than the network reads at once is read in windows, one after the other.

        Args:
            inputs: the name of a WAV file, samples as a tensor [samples], or {"array": …, "sampling_rate": …}; or a list.
            language: that is spoken, such as "en"; by default the network says which it hears.
            task: "transcribe", or "translate" into English.
            generator: draws the tokens.
            options: as :func:`webgpu_torch_models.generation.generate`'s; with ``return_timestamps`` a window that ends in
                the middle of a sentence is followed by one that starts before that sentence.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: an input is no sound, the language is unknown, or the model reads no sound.
        """
        if not isinstance(self.model, Seq2SeqModel) or self.model.main_input_name != "input_features":
            raise ValueError(f"{type(self.model).__name__} does not read sound")

        def write(sound: str | Path | Tensor | Sound) -> Said:
            samples = self.feature_extractor.sound(*self._samples(sound))
            config = self.model.generation_config.changed(**options)
            if config.return_timestamps:
                return self._written_when(samples, language, task, generator, config)
            windows = [
                self._written(each, language, task, generator, config) for each in self.feature_extractor(samples)
            ]
            return {"text": "".join(self.tokenizer.decode(each, skip_special_tokens=True) for each in windows)}

        return [write(one) for one in inputs] if isinstance(inputs, list) else write(inputs)

    def _written(
        self,
        features: Tensor,
        language: str | None,
        task: str,
        generator: torch.Generator | None,
        config: GenerationConfig,
    ) -> list[int]:
        """Return the tokens written of a window, [bands, frames]."""
        heard = features.unsqueeze(0).to(self.model.device, self.model.dtype)
        start = self._start(heard, language, task, config)
        if config.max_new_tokens is None:
            limit, told = self.config.max_target_positions, config.extra.get("max_length")
            limit = min(limit, told) if isinstance(told, int) and told > len(start) else limit
            config = config.changed(max_new_tokens=limit - len(start))
        written = self.model.generate(
            heard, decoder_input_ids=self.integers([start]), generator=generator, tokenizer=self.tokenizer,
            generation_config=config,
        )  # fmt: skip
        return written[0].tolist()[len(start) :]

    def _written_when(
        self,
        samples: Tensor,
        language: str | None,
        task: str,
        generator: torch.Generator | None,
        config: GenerationConfig,
    ) -> Said:
        extractor, steps = self.feature_extractor, self.config.max_source_positions
        size = extractor.window_samples
        seconds, ends = extractor.chunk_length / steps, config.end_tokens
        at, chunks = 0, []
        while at < samples.shape[0]:
            sound = samples[at : at + size]
            tokens = self._written(extractor(sound)[0], language, task, generator, config)
            tokens = tokens[: next((place for place, each in enumerate(tokens) if each in ends), None)]
            length = -(-sound.shape[0] * steps // size)
            found, heard = segments_of(tokens, (config.no_timestamps_token_id or 0) + 1, length)
            before = at / extractor.sampling_rate
            for each in found:
                text = self.tokenizer.decode(each.tokens, skip_special_tokens=True)
                times = round(before + each.start * seconds, 2), round(before + each.end * seconds, 2)
                chunks.append(Chunk(timestamp=times, text=text))
            # A window of which nothing is whole is not heard twice.
            at += (heard or length) * size // steps
        return {"text": "".join(each["text"] for each in chunks), "chunks": chunks}

    def _samples(self, sound: str | Path | Tensor | Sound) -> tuple[Tensor | list[float], int]:
        if isinstance(sound, str | Path):
            return read_wave(sound)
        if isinstance(sound, Tensor):
            return sound, self.feature_extractor.sampling_rate
        samples = sound.get("array", sound.get("raw")) if isinstance(sound, dict) else None
        if samples is None or "sampling_rate" not in sound:
            wanted = '{"array": …, "sampling_rate": …}'
            raise ValueError(f"sound must be the name of a WAV file, a tensor or {wanted}, got {brief(sound)}")
        return samples, sound["sampling_rate"]

    def _start(self, heard: Tensor, language: str | None, task: str, config: GenerationConfig) -> list[int]:
        """Return the tokens that say what is to be written."""
        known: dict[str, Any] = config.extra
        start, languages, tasks = [self.config.decoder_start_token_id], known.get("lang_to_id"), known.get("task_to_id")
        if isinstance(languages, dict) and languages:
            found = self._detected(heard, languages) if language is None else languages.get(f"<|{language}|>")
            if found is None:
                names = ", ".join(str(one).strip("<|>") for one in languages)
                raise ValueError(f'the model knows no language "{language}"; it knows: {names}')
            if not isinstance(tasks, dict) or task not in tasks:
                raise ValueError(f'task must be one of {", ".join(tasks or ())}, got "{task}"')
            start += [found, tasks[task]]
        elif language is not None or task != "transcribe":
            raise ValueError("the model knows one language and no other task: leave language and task out")
        silent = None if config.return_timestamps else config.no_timestamps_token_id
        return start if silent is None else [*start, silent]

    def _detected(self, heard: Tensor, languages: dict[str, int]) -> int:
        with torch.no_grad():
            logits = self.model(heard, self.integers([[self.config.decoder_start_token_id]])).logits[0, -1]
        tokens = sorted(languages.values())
        return tokens[int(logits[self.integers([tokens])[0]].argmax().item())]
