import numpy as np
from darts import TimeSeries
from darts.models import BlockRNNModel, NBEATSModel, TCNModel

_TRAINER = {"accelerator": "cpu", "enable_progress_bar": False, "logger": False}


def _run(model):
    series = TimeSeries.from_values(np.sin(np.arange(50) / 4).astype("float32"))
    model.fit(series)
    return model.predict(4).values()


def nbeats():
    return _run(
        NBEATSModel(
            8, 4, n_epochs=1, num_stacks=2, num_blocks=1, layer_widths=8, pl_trainer_kwargs=_TRAINER, random_state=0
        )
    )


def rnn():
    return _run(BlockRNNModel(8, 4, n_epochs=1, hidden_dim=8, pl_trainer_kwargs=_TRAINER, random_state=0))


def tcn():
    return _run(TCNModel(8, 4, n_epochs=1, pl_trainer_kwargs=_TRAINER, random_state=0))
