import torch
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import EarlyStopping, EMAHandler, PiecewiseLinear
from ignite.metrics import Accuracy, ConfusionMatrix, Loss, Precision, Recall, RunningAverage


def _data():
    x = torch.randn(32, 4)
    data = torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())
    return torch.utils.data.DataLoader(data, batch_size=8)


def training():
    loader, model = _data(), torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = create_supervised_trainer(model, optimizer, torch.nn.functional.cross_entropy)
    RunningAverage(output_transform=lambda loss: loss).attach(trainer, "loss")
    trainer.add_event_handler(
        Events.ITERATION_STARTED, PiecewiseLinear(optimizer, "lr", milestones_values=[(0, 0.1), (10, 0.01)])
    )
    metrics = {"accuracy": Accuracy(), "loss": Loss(torch.nn.functional.cross_entropy), "confusion": ConfusionMatrix(2)}
    evaluator = create_supervised_evaluator(model, metrics=metrics)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda engine: evaluator.run(loader))
    averaged = EMAHandler(model, momentum=0.1)
    averaged.attach(trainer, event=Events.ITERATION_COMPLETED)
    state = trainer.run(loader, max_epochs=3)
    return [state.metrics, evaluator.state.metrics, list(model.parameters()), list(averaged.ema_model.parameters())]


def stopping():
    scores = iter([0.5, 0.6, 0.6, 0.55, 0.5, 0.4])
    trainer = Engine(lambda engine, batch: batch)
    handler = EarlyStopping(patience=2, score_function=lambda engine: next(scores), trainer=trainer)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, handler)
    return trainer.run([0], max_epochs=6).epoch


def metrics():
    found = []
    for metric in (Precision(average="macro"), Recall(), Precision(average="weighted") * 2):
        metric.reset()
        for _ in range(2):
            metric.update((torch.randn(20, 3), torch.randint(3, (20,))))
        found.append(metric.compute())
    return found
