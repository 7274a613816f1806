import numpy as np
import pandas as pd
from neuralforecast import NeuralForecast
from neuralforecast.models import MLP, NHITS


def _run(model):
    frame = pd.DataFrame(
        {"unique_id": "a", "ds": pd.date_range("2020-01-01", periods=60), "y": np.sin(np.arange(60) / 4)}
    )
    forecast = NeuralForecast(models=[model], freq="D")
    forecast.fit(frame)
    return forecast.predict().iloc[:, -1].to_numpy()


_OPTIONS = {
    "h": 4,
    "input_size": 8,
    "max_steps": 3,
    "accelerator": "cpu",
    "enable_progress_bar": False,
    "logger": False,
    "enable_checkpointing": False,
}


def mlp():
    return _run(MLP(num_layers=2, hidden_size=8, **_OPTIONS))


def nhits():
    return _run(NHITS(mlp_units=[[8, 8]] * 3, **_OPTIONS))
