"""Graphs, point clouds, tables and time series, and pictures beside texts."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from .model import Adapter, Model, image, model, seeded, subject
from .text import VOCABULARY


class _GraphConvolution(nn.Module):
    """Two rounds of messages along edges, added up at the nodes (Kipf and Welling, 2017)."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, width), nn.Linear(width, width)
        self.head = nn.Linear(width, 3)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        degree = torch.ones(nodes.shape[0]).index_add(0, target, torch.ones(edges.shape[1]))
        scale = degree.rsqrt()
        for layer in (self.first, self.second):
            nodes = layer(nodes)
            messages = nodes[source] * (scale[source] * scale[target])[:, None]
            nodes = functional.relu(nodes.index_add(0, target, messages))
        logits: Tensor = self.head(nodes)
        return logits


@model("graph")
def graph_convolution() -> Model:
    """Any number of nodes and edges."""

    def inputs(size: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        nodes, edges = size
        generator = seeded(size)
        return torch.randn(nodes, 8, generator=generator), torch.randint(nodes, (2, edges), generator=generator)

    sizes = [(1, 0), (2, 1), (9, 20), (33, 64), (100, 500), (400, 1000)]
    return subject(_GraphConvolution(), inputs, ({0: "nodes"}, {1: "edges"}), sizes, (12, 30))


class _PointNet(nn.Module):
    """A function of each point, the largest over all points, and both together for every point (Qi et al., 2017)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.local = nn.Sequential(nn.Conv1d(3, width, 1), nn.BatchNorm1d(width), nn.ReLU(), nn.Conv1d(width, width, 1))
        self.head = nn.Sequential(nn.Conv1d(2 * width, width, 1), nn.ReLU(), nn.Conv1d(width, 4, 1))

    def forward(self, points: Tensor) -> Tensor:
        local = self.local(points)
        whole = local.amax(2, keepdim=True).expand_as(local)
        logits: Tensor = self.head(torch.cat([local, whole], 1))
        return logits


def points(size: tuple[int, ...]) -> tuple[Tensor]:
    batch, count = size
    return (torch.randn(batch, 3, count, generator=seeded(size)),)


@model("point cloud")
def point_net() -> Model:
    """Any number of clouds and points."""
    sizes = [(1, 1), (1, 2), (2, 17), (3, 64), (2, 257), (1, 1000)]
    return subject(_PointNet(), points, ({0: "batch", 2: "points"},), sizes, (4, 11))


class _Visible(nn.Module):
    """Points in front of the viewer are kept, the nearest neighbours of each are gathered and summed up."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 16)

    def forward(self, cloud: Tensor) -> tuple[Tensor, Tensor]:
        cloud = cloud[0].T
        seen = cloud[(cloud[:, 2] > 0).nonzero()[:, 0]]
        distance = (seen[:, None] - seen[None]).square().sum(2)
        weights = (-distance).softmax(1)
        return seen, weights @ self.layer(seen)


@model("point cloud", data_dependent=True)
def visible_points() -> Model:
    """As many points out as lie in front of the viewer."""
    sizes = [(1, 1), (1, 2), (1, 17), (1, 64), (1, 257), (1, 400)]
    return subject(_Visible(), points, ({2: "points"},), sizes, (1, 11))


class _Recommender(nn.Module):
    """Embeddings of categories, products of all pairs of them, and numbers (Naumov et al., 2019)."""

    def __init__(self, width: int = 8, tables: int = 5) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(50, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, width))
        self.top = nn.Sequential(nn.Linear(width + 15, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        rows = [self.bottom(numbers), *(table(categories[:, i]) for i, table in enumerate(self.tables))]
        together = torch.stack(rows, 1)
        products = together @ together.transpose(1, 2)
        first, second = torch.triu_indices(6, 6, 1)
        chance: Tensor = self.top(torch.cat([rows[0], products[:, first, second]], 1)).sigmoid()
        return chance


@model("recommender")
def dlrm() -> Model:
    """Any batch."""

    def inputs(size: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        generator = seeded(size)
        return torch.randn(*size, 4, generator=generator), torch.randint(50, (*size, 5), generator=generator)

    batch = {0: "batch"}
    return subject(_Recommender(), inputs, (batch, batch), [(1,), (2,), (7,), (33,), (128,), (1000,)], (19,))


@model("time series")
def patch_tst() -> Model:
    """A forecast from patches of a series (Nie et al., 2023), any batch."""
    from transformers import PatchTSTConfig, PatchTSTForPrediction

    config = PatchTSTConfig(
        num_input_channels=3,
        context_length=32,
        prediction_length=8,
        patch_length=8,
        patch_stride=8,
        d_model=16,
        num_attention_heads=4,
        num_hidden_layers=2,
        ffn_dim=32,
        attn_implementation="eager",
    )

    def inputs(size: tuple[int, ...]) -> tuple[Tensor]:
        return (torch.randn(*size, 32, 3, generator=seeded(size)),)

    module = Adapter(PatchTSTForPrediction(config), ["past_values"], ["prediction_outputs"])
    return subject(module, inputs, ({0: "batch"},), [(1,), (2,), (3,), (5,), (8,), (13,)], (4,))


@model("picture and text")
def clip() -> Model:
    """Pictures and texts in one space (Radford et al., 2021): any number of either, texts of any length."""
    from transformers import CLIPConfig, CLIPModel

    shared = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    text = {**shared, "vocab_size": VOCABULARY, "max_position_embeddings": 256, "eos_token_id": VOCABULARY - 1}
    config = CLIPConfig(
        text_config=text,
        vision_config={**shared, "image_size": 32, "patch_size": 8},
        projection_dim=16,
        attn_implementation="eager",
    )

    def inputs(size: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        pictures, texts, length = size
        ids = torch.randint(VOCABULARY - 1, (texts, length), generator=seeded(size))
        return (*image((pictures, 32, 32)), ids)

    module = Adapter(CLIPModel(config), ["pixel_values", "input_ids"], ["logits_per_image"])
    dynamic = ({0: "pictures"}, {0: "texts", 1: "length"})
    sizes = [(1, 1, 1), (1, 2, 3), (2, 3, 7), (3, 2, 16), (5, 4, 33), (2, 3, 100)]
    return subject(module, inputs, dynamic, sizes, (4, 6, 11))
