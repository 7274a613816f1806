import torch
import whisper


def _model():
    model = whisper.model.Whisper(whisper.model.ModelDimensions(80, 1500, 32, 2, 1, 51865, 32, 32, 2, 1)).eval()
    # Positions begin as whatever the memory held.
    torch.nn.init.normal_(model.decoder.positional_embedding, std=0.1)
    return model


def spectrogram():
    return whisper.log_mel_spectrogram(torch.sin(torch.arange(16000) / 20.0))


def forward():
    with torch.no_grad():
        return _model()(torch.randn(1, 80, 3000), torch.randint(0, 51865, (1, 5)))


def greedy():
    return whisper.decode(
        _model(), torch.randn(80, 3000), whisper.DecodingOptions(fp16=False, sample_len=4, language="en")
    ).tokens


def beam():
    return whisper.decode(
        _model(), torch.randn(80, 3000), whisper.DecodingOptions(fp16=False, sample_len=3, language="en", beam_size=2)
    ).tokens
