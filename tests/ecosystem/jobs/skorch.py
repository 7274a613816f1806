import numpy as np
import torch
from skorch import NeuralNetClassifier, NeuralNetRegressor


def classifier():
    x = np.random.randn(40, 5).astype("float32")
    y = (x.sum(1) > 0).astype("int64")
    net = NeuralNetClassifier(
        torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2), torch.nn.Softmax(-1)),
        max_epochs=3,
        lr=0.1,
        verbose=0,
        train_split=None,
        criterion=torch.nn.NLLLoss,
    )
    net.fit(x, y)
    return [net.predict_proba(x), float(net.score(x, y))]


def search():
    from sklearn.model_selection import GridSearchCV

    x = np.random.randn(30, 3).astype("float32")
    net = NeuralNetRegressor(torch.nn.Linear(3, 1), max_epochs=2, verbose=0, train_split=None)
    grid = GridSearchCV(net, {"lr": [0.01, 0.1]}, cv=2, refit=False)
    grid.fit(x, x.sum(1, keepdims=True))
    return float(grid.best_score_)
