import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential


def dictionaries():
    made = TensorDict({"a": torch.randn(3, 4), "b": {"c": torch.ones(3, 2)}}, batch_size=[3])
    both = torch.stack([made, made * 2])
    return [
        both["a"],
        both[:, 1]["b", "c"],
        torch.cat([made, made])["a"],
        made.apply(lambda x: x + 1)["a"],
        list(made.keys()),
    ]


def modules():
    chain = TensorDictSequential(
        TensorDictModule(torch.nn.Linear(4, 3), ["x"], ["h"]), TensorDictModule(torch.nn.ReLU(), ["h"], ["y"])
    )
    return chain(TensorDict({"x": torch.randn(2, 4)}, [2]))["y"]
