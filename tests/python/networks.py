"""Small networks, one for each thing that an exported step has to get right."""

import torch
import torch.nn.functional as F
from torch import nn


class ConvNet(nn.Module):
    """Batch normalization, a depthwise convolution, and a buffer that no step changes."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, groups=8)
        self.last = nn.Linear(8, 10)
        self.register_buffer("shift", torch.linspace(-1, 1, 8).view(8, 1, 1))

    def forward(self, images):
        x = F.relu(self.norm(self.first(images))) + self.shift
        return self.last(self.depthwise(x).mean((2, 3)))


class Attention(nn.Module):
    """A causal language model whose embedding is the last layer's weight, too."""

    def __init__(self, words=40, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(words, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        # A tensor that is made here becomes a constant of the graph.
        x = self.embedding(tokens) * torch.tensor([1.0, 0.5]).repeat(self.norm.weight.shape[0] // 2)
        batch, length, width = x.shape
        split = lambda t: t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)  # noqa: E731
        q, k, v = (split(t) for t in self.qkv(self.norm(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(x + self.out(mixed.transpose(1, 2).reshape(batch, length, width)))


class Windows(nn.Module):
    """Attention as Swin has it: queries, keys and values are views with gaps of one tensor, one of them times a number."""

    def __init__(self, width=4):
        super().__init__()
        self.qkv, self.last = nn.Linear(3, 3 * width), nn.Linear(width, 10)

    def forward(self, images):
        joint = self.qkv(images.flatten(2).transpose(1, 2))
        q, k, v = joint.view(*joint.shape[:2], 3, -1).permute(2, 0, 1, 3)
        return self.last(((q * 0.5) @ k.transpose(1, 2)).softmax(-1) @ v).mean(1)


class Sums(nn.Module):
    """Two parameters that have one gradient, and one whose gradient flows on to those before it."""

    def __init__(self, batch):
        super().__init__()
        self.base, self.update = (nn.Parameter(0.1 * torch.randn(16, 192)) for _ in range(2))
        self.places = nn.Parameter(0.1 * torch.randn(batch, 16))
        self.last = nn.Linear(16, 10)

    def forward(self, images):
        return self.last(F.linear(images.flatten(1), self.base + self.update) + self.places)


class UNet(nn.Module):
    """One step down and up again, with a transposed convolution."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        self.middle = nn.Sequential(nn.GroupNorm(2, 6), nn.SiLU(), nn.Conv2d(6, 6, 3, padding=1))
        self.up = nn.ConvTranspose2d(6, 4, 2, stride=2)
        self.last = nn.Conv2d(7, 5, 1)

    def forward(self, images):
        return self.last(torch.cat([self.up(self.middle(self.down(images))), images], 1))


class Auxiliary(nn.Module):
    """Two outputs, of which the second counts less: the loss is multiplied by a number."""

    def __init__(self):
        super().__init__()
        self.first, self.side, self.last = nn.Linear(192, 16), nn.Linear(16, 10), nn.Linear(16, 10)

    def forward(self, images):
        x = F.relu(self.first(images.flatten(1)))
        return self.last(x), self.side(x)


def weighted_loss(outputs, labels):
    return F.cross_entropy(outputs[0], labels) + 0.3 * F.cross_entropy(outputs[1], labels)


class LstmClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 8)
        self.lstm = nn.LSTM(8, 12, batch_first=True)
        self.last = nn.Linear(12, 4)

    def forward(self, tokens):
        return self.last(self.lstm(self.embedding(tokens))[0][:, -1])


class Random(nn.Module):
    """Each kind of random number that a layer draws."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(16, 24), nn.Linear(8, 10)

    def forward(self, images):
        noisy = F.alpha_dropout(F.dropout2d(images, 0.3), 0.1) + 0.1 * torch.randn_like(images)
        q, k, v = self.first(noisy.reshape(len(images), 1, 12, 16)).chunk(3, -1)
        x = F.rrelu(F.scaled_dot_product_attention(q, k, v, dropout_p=0.2).mean((1, 2)), training=True)
        kept = torch.bernoulli(torch.full((len(x), 1), 0.8))
        return self.last(F.dropout(x * kept + torch.rand_like(x), 0.2) * F.gumbel_softmax(x))


def following_token_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make(name: str, batch: int = 4):
    """(model, loss, example inputs, example targets)"""
    torch.manual_seed(3)
    images, labels = torch.randn(batch, 3, 8, 8), torch.randint(0, 10, (batch,))
    tokens = torch.randint(0, 30, (batch, 6))
    if name == "conv":
        return ConvNet(), F.cross_entropy, images, labels
    if name == "attention":
        return Attention(), following_token_loss, tokens, torch.roll(tokens, -1, 1)
    if name == "windows":
        return Windows(), F.cross_entropy, images, labels
    if name == "sums":
        return Sums(batch), F.cross_entropy, images, labels
    if name == "unet":
        return UNet(), F.cross_entropy, images, torch.randint(0, 5, (batch, 8, 8))
    if name == "auxiliary":
        return Auxiliary(), weighted_loss, images, labels
    if name == "lstm":
        return LstmClassifier(), F.cross_entropy, tokens, torch.randint(0, 4, (batch,))
    if name == "dropout":
        model = nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 10))
        return model, F.cross_entropy, images, labels
    if name == "random":
        return Random(), F.cross_entropy, images, labels
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU(), nn.Linear(16, 10)), F.cross_entropy, images, labels
    raise ValueError(name)


NAMES = ["conv", "attention", "windows", "sums", "unet", "auxiliary", "lstm", "dropout", "random", "mlp"]
