import numpy as np
from pytorch_tabnet.tab_model import TabNetClassifier


def classifier():
    x = np.random.randn(64, 5).astype("float32")
    model = TabNetClassifier(verbose=0, seed=0, device_name="cpu")
    model.fit(x, (x[:, 0] > 0).astype(int), max_epochs=2, batch_size=32, virtual_batch_size=16)
    return model.predict_proba(x)
