import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, TransformerConv, global_mean_pool


def _graph():
    return Data(x=torch.randn(6, 4), edge_index=torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]]))


def _run(layer):
    data = _graph()
    out = layer(data.x, data.edge_index)
    out.square().sum().backward()
    return [out, torch.stack([each.grad.norm() for each in layer.parameters() if each.grad is not None])]


def gcn():
    return _run(GCNConv(4, 3))


def gat():
    return _run(GATConv(4, 3, heads=2))


def sage():
    return _run(SAGEConv(4, 3))


def gin():
    return _run(GINConv(torch.nn.Linear(4, 3)))


def transformer():
    return _run(TransformerConv(4, 3))


def batches():
    loader = DataLoader([_graph() for _ in range(5)], batch_size=2)
    return [global_mean_pool(each.x, each.batch) for each in loader]


def transforms():
    import torch_geometric.transforms as t

    found = t.Compose([t.AddSelfLoops(), t.NormalizeFeatures(), t.ToUndirected()])(_graph())
    return [found.x, found.edge_index]
