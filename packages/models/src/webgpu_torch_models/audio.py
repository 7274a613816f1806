"""Sound as Whisper hears it: logarithmic spectrograms in bands of mel frequency, as preprocessor_config.json says it."""

from __future__ import annotations

import dataclasses
import math
import wave
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_models.config import JsonConfig


def read_wave(path: str | Path) -> tuple[Tensor, int]:
    """Return a WAV file's samples, float32 [samples] from -1 to 1 with channels averaged, and the samples per second.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no WAV file of 16-bit samples.
    """
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise ValueError(f"{path} is not a WAV file ({error}); convert it to 16-bit WAV first") from error
    if width != 2:
        raise ValueError(f"{path} has {8 * width}-bit samples; convert it to 16-bit WAV first")
    samples = torch.tensor(array("h", data), dtype=torch.float32) / 32768
    return samples.reshape(-1, channels).mean(1), rate


def resampled(samples: Tensor, rate: int, wanted: int) -> Tensor:
    """Return samples [samples] at another number per second, by linear interpolation."""
    if rate == wanted:
        return samples
    places = torch.arange(int(samples.shape[0] * wanted / rate)).float() * (rate / wanted)
    low = places.long().clamp(max=samples.shape[0] - 1)
    high = (low + 1).clamp(max=samples.shape[0] - 1)
    return samples[low] + (samples[high] - samples[low]) * (places - low)


def mel_filters(bands: int, bins: int, rate: int, highest: float = 8000.0) -> list[list[float]]:
    """Return triangular filters of equal area, [bands][bins], evenly spaced in Slaney's scale of mel frequency (1998)."""

    def mel(hertz: float) -> float:
        return 3 * hertz / 200 if hertz < 1000 else 15 + math.log(hertz / 1000) * 27 / math.log(6.4)

    def hertz(mels: float) -> float:
        return 200 * mels / 3 if mels < 15 else 1000 * math.exp((mels - 15) * math.log(6.4) / 27)

    edges = [hertz(mel(highest) * number / (bands + 1)) for number in range(bands + 2)]
    frequencies = [rate / 2 * number / (bins - 1) for number in range(bins)]
    return [
        [
            max(0.0, min((each - low) / (middle - low), (high - each) / (high - middle))) * 2 / (high - low)
            for each in frequencies
        ]
        for low, middle, high in zip(edges, edges[1:], edges[2:], strict=False)
    ]


@dataclasses.dataclass
class SpeechFeatures(JsonConfig):
    """How sound becomes what Whisper reads, named as in preprocessor_config.json.

    Attributes:
        feature_size: bands of frequency.
        sampling_rate: samples per second.
        hop_length, n_fft: samples between spectra, and in one.
        chunk_length: seconds that the network reads at once.
        padding_value: what stands after the sound.
    """

    file_name: ClassVar[str] = "preprocessor_config.json"
    within: ClassVar[tuple[str, str]] = ("processor_config.json", "feature_extractor")

    feature_size: int = 80
    sampling_rate: int = 16000
    hop_length: int = 160
    n_fft: int = 400
    chunk_length: float = 30
    padding_value: float = 0.0

    def __post_init__(self) -> None:
        bins = self.n_fft // 2 + 1
        filters = mel_filters(self.feature_size, bins, self.sampling_rate, min(8000.0, self.sampling_rate / 2))
        self._filters, self._window = torch.tensor(filters), torch.hann_window(self.n_fft)

    @property
    def window_samples(self) -> int:
        """How many samples the network reads at once."""
        return int(self.chunk_length * self.sampling_rate)

    def __call__(self, samples: Tensor | Sequence[float], sampling_rate: int | None = None) -> Tensor:
        """Return spectrograms, float32 [windows, bands, frames], of sound in windows one after the other; silence fills the last.

        Args:
            samples: [samples], from -1 to 1.
            sampling_rate: theirs, if it is not the network's.

        Raises:
            ValueError: there is no sound, or not one number for each moment.
        """
        sound, size = self.sound(samples, sampling_rate), self.window_samples
        missing = -sound.shape[0] % size
        sound = torch.cat([sound, torch.full((missing,), self.padding_value)])
        return torch.stack([self._spectrogram(sound[at : at + size]) for at in range(0, sound.shape[0], size)])

    def sound(self, samples: Tensor | Sequence[float], sampling_rate: int | None = None) -> Tensor:
        """Return sound at the network's rate, float32 [samples]; arguments and errors as a call's."""
        sound = samples if isinstance(samples, Tensor) else torch.tensor(samples, dtype=torch.float32)
        if sound.ndim != 1 or not sound.shape[0]:
            raise ValueError(f"sound must be [samples], one number for each moment, got {list(sound.shape)}")
        return resampled(sound.float(), sampling_rate or self.sampling_rate, self.sampling_rate)

    def _spectrogram(self, sound: Tensor) -> Tensor:
        spectra = torch.stft(sound, self.n_fft, self.hop_length, window=self._window, return_complex=True)
        power = spectra[:, :-1].abs() ** 2
        bands = (self._filters @ power).clamp(min=1e-10).log10()  # (bands, frames)
        return (torch.maximum(bands, bands.max() - 8.0) + 4.0) / 4.0
