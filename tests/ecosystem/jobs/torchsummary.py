import contextlib
import io

import torch
import torchsummary


def summary():
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        torchsummary.summary(
            torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)), (4,), device="cpu"
        )
    return text.getvalue()
