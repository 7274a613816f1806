import lightning
import torch


class _Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 2)

    def training_step(self, batch, index):
        loss = torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.05)


def _data():
    x = torch.randn(32, 6)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long()), batch_size=8)


def fit():
    net = _Net()
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(net, _data())
    return [*net.parameters(), float(trainer.callback_metrics["loss"])]


def checkpoints():
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        net = _Net()
        trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", default_root_dir=folder, enable_progress_bar=False)
        trainer.fit(net, _data())
        again = _Net.load_from_checkpoint(trainer.checkpoint_callback.best_model_path)
    return list(again.parameters())


def fabric():
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    model = torch.nn.Linear(3, 1)
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    loss = model(torch.ones(4, 3)).square().mean()
    fabric.backward(loss)
    optimizer.step()
    return [loss, *model.parameters()]
