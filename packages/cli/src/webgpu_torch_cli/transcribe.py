"""``webgpu-torch transcribe``."""

from __future__ import annotations

import json
import wave
from argparse import Namespace
from array import array
from collections.abc import Callable
from pathlib import Path

from .models import OTHER, OWN, load, load_own, prepare, tell_library


def read_wave(path: str) -> tuple[list[float], int]:
    """Return a WAV file's samples from -1 to 1, channels averaged, and the samples per second.

    Raises:
        SystemExit: the file is no WAV file of 16-bit samples.
    """
    try:
        with wave.open(path, "rb") as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise SystemExit(f"error: {path} is not a WAV file ({error}); convert it to 16-bit WAV first") from error
    if width != 2:
        raise SystemExit(f"error: {path} has {8 * width}-bit samples; convert it to 16-bit WAV first")
    samples = array("h", data)
    return [sum(samples[i : i + channels]) / channels / 32768 for i in range(0, len(samples), channels)], rate


def transcribe(options: Namespace) -> int:
    """Print what is said in each file."""
    missing = [each for each in options.inputs if not Path(each).is_file()]
    if missing:
        raise SystemExit(f"error: there is no file {missing[0]}")
    library, write = _writer(options)
    for path in options.inputs:
        said = write(*read_wave(path)).strip()
        print(json.dumps({"file": path, "text": said, "library": library}) if options.json else said)
    tell_library(options, library)
    return 0


def _writer(options: Namespace) -> tuple[str, Callable[[list[float], int], str]]:
    """Return the library that writes, and a function that writes down what is said in samples of so many a second."""
    torch, device = prepare(options)
    own = load_own("automatic-speech-recognition", options, device)
    if own is not None:
        return OWN, lambda samples, rate: own({"array": samples, "sampling_rate": rate})["text"]
    import numpy
    from transformers import AutoModelForSpeechSeq2Seq, AutoProcessor

    processor = AutoProcessor.from_pretrained(options.model)
    model = load(AutoModelForSpeechSeq2Seq, options, device)
    wanted = processor.feature_extractor.sampling_rate

    def write(samples: list[float], rate: int) -> str:
        given = numpy.asarray(samples, "float32")
        if rate != wanted:
            places = numpy.arange(int(len(given) * wanted / rate)) * (rate / wanted)
            given = numpy.interp(places, numpy.arange(len(given)), given).astype("float32")
        inputs = processor(given, sampling_rate=wanted, return_tensors="pt")
        with torch.inference_mode():
            tokens = model.generate(**{key: value.to(device, model.dtype) for key, value in inputs.items()})
        return processor.batch_decode(tokens, skip_special_tokens=True)[0]

    return OTHER, write
