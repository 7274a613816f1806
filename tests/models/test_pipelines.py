"""Pipelines return what transformers' pipelines returned, without it."""

from __future__ import annotations

import json
import struct
import wave
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import reference_cases as cases
import webgpu_torch_core as torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_models import folder_of
from webgpu_torch_models import AutoModel, AutoModelForQuestionAnswering, AutoTokenizer, pipeline
from webgpu_torch_models.audio import SpeechFeatures, read_wave, resampled
from webgpu_torch_models.config import write_json
from webgpu_torch_models.image_processor import ImageProcessor
from webgpu_torch_models.pipelines.segments import segments_of

ON_GPU = ("class", "mask", "image", "said")
WANTED = json.loads((cases.FOLDER / "calls.json").read_text())


def folder_for(name: str, folder: Path) -> Path:
    folder_of(cases.CALLS[name][1], folder)
    cases.write_call(name, folder)
    return folder


def assert_same(found: Any, wanted: Any) -> None:
    """Compare results: numbers to 1e-4, all else exactly."""
    if isinstance(wanted, dict):
        assert set(found) == set(wanted)
        for key in wanted:
            assert_same(found[key], wanted[key])
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    else:
        assert found == wanted


@pytest.mark.slow_on("webgpu")
@pytest.mark.slow_on(
    "cpu-said_in_french", "cpu-tokens_simple", "cpu-tokens_max", "cpu-fitting_each", "cpu-chat", "cpu-continued"
)
@pytest.mark.parametrize("name", cases.CALLS)
def test_results(name: str, tmp_path: Path, device: str) -> None:
    if device != "cpu" and name not in ON_GPU:
        pytest.skip("its parts run on the GPU in other cases")
    made = pipeline(cases.CALLS[name][0], folder_for(name, tmp_path), device=device)
    given, options = cases.given_to(name, torch)
    assert_same(made(*given, **options), WANTED[name])


def test_answers(tmp_path: Path) -> None:
    """The likeliest part of a text, by trying all of them."""
    folder = folder_of("bert_answers", tmp_path)
    cases.write_tokenizer(folder, "bert")
    made = pipeline("question-answering", folder)
    question, context = "who loves anna?", "bob loves anna in paris. the cats sat on a mat"
    answers = made(question=question, context=context, top_k=3)
    encoded = AutoTokenizer.from_pretrained(folder).backend.encode(question, context)
    model = AutoModelForQuestionAnswering.from_pretrained(folder)
    ids, segments = torch.tensor([encoded.ids]), torch.tensor([encoded.type_ids])
    result = model(ids, token_type_ids=segments)
    inside = [place for place, of in enumerate(encoded.sequence_ids) if of == 1]
    starts, ends = (each[0, inside].softmax(0).tolist() for each in (result.start_logits, result.end_logits))
    tried = {
        (first, last): starts[first] * ends[last]
        for first in range(len(inside)) for last in range(first, min(first + 15, len(inside)))
    }  # fmt: skip
    ranked = sorted(tried, key=lambda pair: -tried[pair])[:3]
    for answer, (first, last) in zip(answers, ranked, strict=True):
        assert answer["score"] == pytest.approx(tried[first, last])
        assert context[answer["start"] : answer["end"]] == answer["answer"]
        assert answer["start"] <= encoded.offsets[inside[first]][0]
        assert answer["end"] >= encoded.offsets[inside[last]][1]
    assert made(question, context) == answers[0]
    windows = made(question, context * 5, max_seq_len=20, doc_stride=4)
    assert (context * 5)[windows["start"] : windows["end"]] == windows["answer"]
    impossible = made(question, context, top_k=400, handle_impossible_answer=True)
    assert [one for one in impossible if one["answer"] == ""][0]["score"] >= 0
    with pytest.raises(ValueError, match="question and context must be texts that are not empty"):
        made("", context)


def test_texts_for_texts(tmp_path: Path) -> None:
    folder = folder_of("t5", tmp_path)
    cases.write_tokenizer(folder, "words")
    config = json.loads((folder / "config.json").read_text())
    config["task_specific_params"] = {"summarization": {"prefix": "this is a "}}
    (folder / "config.json").write_text(json.dumps(config))
    [summary] = pipeline("summarization", folder)("cat on a mat", max_new_tokens=5)
    [translation] = pipeline("translation_en_to_fr", folder)("this is a cat on a mat", max_new_tokens=5)
    assert summary["summary_text"] == translation["translation_text"]
    assert len(summary["summary_text"].split()) in (4, 5)


@settings(max_examples=20, deadline=None)
@given(st.integers(4, 80), st.integers(1, 40), st.booleans())
def test_readers_of_a_processor(bands: int, size: int, apart: bool) -> None:
    """What reads sound or images may be described in a file of its own, or as a part of one of a whole processor."""
    for reader, key in (
        (SpeechFeatures(feature_size=bands), "feature_extractor"),
        (ImageProcessor(crop_size=size), "image_processor"),
    ):
        with TemporaryDirectory() as name:
            folder = Path(name)
            if apart:
                reader.save_pretrained(folder)
            else:
                write_json(folder / "processor_config.json", {key: reader.to_dict(), "processor_class": "Any"})
            assert type(reader).from_folder(folder) == reader
            write_json(folder / "processor_config.json", {key: [1]})
            if not apart:
                with pytest.raises(ValueError, match=f"{key} is"):
                    type(reader).from_folder(folder)


def test_sound(tmp_path: Path) -> None:
    sound = cases.heard_sound(torch)
    numbers = [round(each * 32767) for each in sound.tolist()]
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(b"".join(struct.pack("<hh", each, each) for each in numbers))
    samples, rate = read_wave(tmp_path / "a.wav")
    assert rate == 16000
    assert (samples - sound).abs().max().item() < 1e-4
    assert resampled(torch.tensor([0.0, 1.0, 2.0, 3.0]), 4, 2).tolist() == [0.0, 2.0]
    features = SpeechFeatures(feature_size=8, chunk_length=1)
    assert features(torch.cat([samples, samples])[:20000]).shape == (2, 8, 100)
    with pytest.raises(ValueError, match=r"sound must be \[samples\], one number for each moment, got \[2, 3\]"):
        features(torch.zeros(2, 3))
    (tmp_path / "b.wav").write_bytes(b"not a sound")
    with pytest.raises(ValueError, match="b.wav is not a WAV file"):
        read_wave(tmp_path / "b.wav")


def test_times(tmp_path: Path) -> None:
    """Sound of two seconds and a half, a second at a time: what is written of each window, from its own samples on."""
    folder = folder_for("said", tmp_path)
    given = json.loads((folder / "generation_config.json").read_text())
    write_json(
        folder / "generation_config.json", {**given, **cases.TIMED, "suppress_tokens": [], "begin_suppress_tokens": []}
    )
    made = pipeline("automatic-speech-recognition", folder)
    sound = cases.heard_sound(torch)
    sound = torch.cat([sound, sound.flip(0), sound[:8000]])
    found = made(sound, return_timestamps=True)
    at, wanted = 0, []
    while at < 40000:
        heard = made.feature_extractor(sound[at : at + 16000])
        start = [3, made._detected(heard, {"en": 4, "fr": 5}), 6]
        options: dict[str, Any] = {"return_timestamps": True, "max_new_tokens": 12}
        tokens = made.model.generate(heard, decoder_input_ids=torch.tensor([start]), **options)[0, 3:].tolist()
        tokens = tokens[: tokens.index(2)] if 2 in tokens else tokens
        segments, heard_to = segments_of(tokens, 61, min(50, (40000 - at) // 320))
        for each in segments:
            times = tuple(round(at / 16000 + step * 0.02, 2) for step in (each.start, each.end))
            wanted.append({"timestamp": times, "text": made.tokenizer.decode(each.tokens, skip_special_tokens=True)})
        at += (heard_to or 50) * 320
    assert found == {"text": "".join(each["text"] for each in wanted), "chunks": wanted}
    assert len(wanted) >= 3
    assert set(made(sound)) == {"text"}


def test_images() -> None:
    image = cases.seen_image()
    whole = ImageProcessor.from_dict({"do_resize": False, "do_normalize": False})(image)
    assert whole.shape == (1, 3, 30, 40)
    assert [round(each * 255) for each in whole[0, :, 3, 5].tolist()] == [30, 24, 45]
    again = ImageProcessor.from_dict({"do_resize": False, "do_normalize": False})(
        (whole[0] * 255).round().to(torch.uint8)
    )
    assert torch.equal(again, whole)
    larger = ImageProcessor(
        do_resize=False, do_normalize=False, do_center_crop=True, crop_size={"height": 34, "width": 37}
    )(image)
    assert torch.equal(larger[0, :, 2:32], whole[0, :, :, 1:38])
    assert larger[0, :, :2].abs().sum().item() == 0
    with pytest.raises(ValueError, match="the images have different sizes"):
        ImageProcessor(do_resize=False)([image, image.rotate(90, expand=True)])
    with pytest.raises(ValueError, match="size is {'height': 0, 'width': 3}, expected positive numbers"):
        ImageProcessor.from_dict({"size": {"height": 0, "width": 3}})


def test_errors(tmp_path: Path) -> None:
    folder = folder_for("mask", tmp_path)
    with pytest.raises(ValueError, match='there is no task "fill"; known are: automatic-speech-recognition'):
        pipeline("fill", folder)
    with pytest.raises(ValueError, match="Bert has no model ForCausalLM"):
        pipeline("text-generation", folder)
    with pytest.raises(ValueError, match='"fill-mask" needs a BertForMaskedLM, got a BertModel'):
        pipeline("fill-mask", _bert())
    with pytest.raises(ValueError, match='"feature-extraction" with a model that is loaded already needs tokenizer='):
        pipeline("feature-extraction", _bert())
    made = pipeline("fill-mask", folder)
    for given, options, message in (
        (("a cat",), {}, r"'a cat' has no \[MASK\]: what is to be named"),
        ((3,), {}, "expected str or a list of them, got int"),
        (("a [MASK]",), {"targets": ["zebra"]}, "targets must be tokens of the model's vocabulary, got zebra"),
    ):
        with pytest.raises(ValueError, match=message):
            made(*given, **options)


def _bert() -> Any:
    recorded = cases.description("bert")["config"]
    from webgpu_torch_models.bert import BertConfig

    return AutoModel.from_config(BertConfig.from_dict(recorded))
