#!/usr/bin/env python3
"""Trains the same language models with `lm` and with PyTorch and compares the validation perplexities.

Same initial weights (taken from lm's checkpoint), same order of the data, same optimizer and schedule; the PyTorch
side reads the text, numbers the words and cuts the rows itself. One epoch of WikiText-2 with a vocabulary of 2,000
words. Two programs that round differently drift apart, so what must agree is the perplexity at the end, within 0.5 %.

Two models: `modern`, a pre-norm decoder with GELU and learned positions, and `published`, that of the recipe
published-softmax at a small size: post-norm, ReLU, sinusoids counted from the window's end, and an adaptive softmax
tied to the embedding with a bias for every word and cluster. Dropout is off in both, as its draws differ.

Needs PyTorch and safetensors. Exit code 0: they agree; 1: they do not; 2: something is missing.

    tools/lm_twin.py --lm build/bin/lm --data wikitext-2
"""
import argparse
import collections
import json
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as F
    from safetensors.torch import load_file
except ImportError as error:
    print(f"lm_twin: {error}; install with: pip install torch safetensors", file=sys.stderr)
    sys.exit(2)

BAR = 0.005  # of the perplexity
COMMON = {
    "dim": 64, "depth": 2, "heads": 4, "hidden": 256, "context": 64, "vocabulary-limit": 2000, "batch-size": 32,
    "eval-batch-size": 32, "eval-every": 0, "epochs": 1, "lr": 2e-3, "shuffle": "false", "dropout": 0}
MODELS = {
    "modern": COMMON | {"min-lr": 1e-4, "warmup-lr": 1e-6, "warmup-epochs": 0.1, "weight-decay": 0.05, "clip-norm": 1},
    "published": COMMON | {
        "norm": "post", "activation": "relu", "positions": "reversed", "init": "transformer-xl",
        "attention-bias": "false", "scale-embedding": "true", "tied": "true", "output-bias": "true",
        "cutoffs": "500,1000,1500", "min-lr": 0, "warmup-lr": 0, "warmup-epochs": 0.1, "weight-decay": 0,
        "clip-norm": 0.25}}
EPS = 1e-5


class Block(torch.nn.Module):
    def __init__(self, s):
        super().__init__()
        dim, hidden, bias = s["dim"], s["hidden"], s.get("attention-bias") != "false"
        self.heads, self.post = s["heads"], s.get("norm") == "post"
        self.activation = F.relu if s.get("activation") == "relu" else F.gelu
        self.norm1, self.norm2 = (torch.nn.LayerNorm(dim, eps=EPS) for _ in range(2))
        self.attn = torch.nn.ModuleDict({"qkv": torch.nn.Linear(dim, 3 * dim, bias),
                                         "proj": torch.nn.Linear(dim, dim, bias)})
        self.mlp = torch.nn.ModuleDict({"fc1": torch.nn.Linear(dim, hidden), "fc2": torch.nn.Linear(hidden, dim)})

    def mixed(self, x):
        b, n, dim = x.shape
        q, k, v = self.attn["qkv"](x).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, dim)
        return self.attn["proj"](mixed)

    def transformed(self, x):
        return self.mlp["fc2"](self.activation(self.mlp["fc1"](x)))

    def forward(self, x):
        if self.post:
            x = self.norm1(x + self.mixed(x))
            return self.norm2(x + self.transformed(x))
        x = x + self.mixed(self.norm1(x))
        return x + self.transformed(self.norm2(x))


class Modern(torch.nn.Module):
    def __init__(self, words, s):
        super().__init__()
        self.embed = torch.nn.Embedding(words, s["dim"])
        self.pos_embed = torch.nn.Parameter(torch.zeros(s["context"], s["dim"]))
        self.blocks = torch.nn.Sequential(*(Block(s) for _ in range(s["depth"])))
        self.norm = torch.nn.LayerNorm(s["dim"], eps=EPS)

    def losses(self, ids, labels):
        x = self.norm(self.blocks(self.embed(ids) + self.pos_embed))
        return F.cross_entropy(F.linear(x, self.embed.weight).flatten(0, 1), labels, reduction="none")


def with_parameters(**parameters):
    """A module that has no more than these."""
    module = torch.nn.Module()
    for name, value in parameters.items():
        setattr(module, name, value if isinstance(value, torch.nn.Module) else torch.nn.Parameter(value))
    return module


class Published(torch.nn.Module):
    def __init__(self, words, s):
        super().__init__()
        self.embed = torch.nn.Embedding(words, s["dim"])
        self.blocks = torch.nn.Sequential(*(Block(s) for _ in range(s["depth"])))
        self.cutoffs = [int(c) for c in s["cutoffs"].split(",")]
        clusters = len(self.cutoffs)
        cluster = with_parameters(weight=torch.zeros(clusters, s["dim"]), bias=torch.zeros(clusters))
        self.output = with_parameters(bias=torch.zeros(words), head=with_parameters(cluster=cluster))
        frequencies = 1 / 10000 ** (torch.arange(0, s["dim"], 2) / s["dim"])
        angles = torch.arange(s["context"] - 1, -1, -1.0)[:, None] * frequencies  # the last token is at 0
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], -1))

    def losses(self, ids, labels):
        scale = math.sqrt(self.embed.embedding_dim)
        x = self.blocks(scale * self.embed(ids) + self.positions).flatten(0, 1)
        weight, bias, own = self.embed.weight, self.output.bias, self.output.head.cluster
        first, ends = self.cutoffs[0], [*self.cutoffs, len(bias)]
        head = F.log_softmax(F.linear(x, torch.cat([weight[:first], own.weight]),
                                      torch.cat([bias[:first], own.bias])), -1)
        # log p of every word: log p of its cluster plus log p of the word within the cluster.
        parts = [head[:, :first]]
        for i, (begin, end) in enumerate(zip(ends, ends[1:])):
            tail = F.log_softmax(F.linear(x, weight[begin:end], bias[begin:end]), -1)
            parts.append(head[:, first + i, None] + tail)
        return F.nll_loss(torch.cat(parts, 1), labels, reduction="none")


def loss(model, ids, labels, reduction):
    counts = labels.flatten() >= 0
    total = model.losses(ids, labels.flatten().clamp(min=0))[counts].sum()
    return total / counts.sum() if reduction == "mean" else total


def vocabulary(path, limit):
    counts = collections.Counter(word for line in open(path, encoding="utf-8") for word in line.split())
    assert "<unk>" in counts
    # most_common keeps the order of first occurrence for equal counts.
    return ["<eos>"] + [word for word, _ in counts.most_common(limit - 1)]


def encode(path, ids):
    unknown = ids["<unk>"]
    out = []
    for line in open(path, encoding="utf-8"):
        out += [ids.get(word, unknown) for word in line.split()] + [0]
    return torch.tensor(out)


def rows(stream, length):
    """What every token follows, and the tokens, [rows, length]; labels that fill the last row up are -1."""
    fill = -len(stream) % length
    labels = torch.cat([stream, stream.new_full((fill,), -1)]).reshape(-1, length)
    ids = torch.cat([stream.new_zeros(1), stream, stream.new_zeros(fill)])[:-1].reshape(-1, length)
    return ids, labels


def batches(ids, labels, size):
    """Row r of batch b is row r * batches + b of the text."""
    count = -(-len(ids) // size)
    for b in range(count):
        at = torch.arange(b, len(ids), count)
        yield ids[at], labels[at]


def learning_rate(step, per_epoch, total, s):
    epoch, warm = step / per_epoch, s["warmup-epochs"]
    if epoch < warm:
        return s["warmup-lr"] + (s["lr"] - s["warmup-lr"]) * epoch / warm
    return s["min-lr"] + (s["lr"] - s["min-lr"]) * (1 + math.cos(math.pi * epoch / total)) / 2


def train_twin(name, weights, words, data, s, steps):
    model = {"modern": Modern, "published": Published}[name](len(words), s)
    own = dict(model.named_parameters())
    assert own.keys() == weights.keys(), sorted(own.keys() ^ weights.keys())
    model.load_state_dict(weights, strict=False)  # the sinusoids are no weights
    decays = [p for name, p in own.items() if p.dim() >= 2 and name != "pos_embed"]
    rest = [p for name, p in own.items() if p.dim() < 2 or name == "pos_embed"]
    optimizer = torch.optim.AdamW([{"params": decays, "weight_decay": s["weight-decay"]},
                                   {"params": rest, "weight_decay": 0}], lr=s["lr"])
    ids = {word: i for i, word in enumerate(words)}
    train, valid = (rows(encode(data / f"wiki.{split}.tokens", ids), s["context"]) for split in ("train", "valid"))
    per_epoch = -(-len(train[0]) // s["batch-size"])
    total = steps / per_epoch if steps else s["epochs"]  # epochs, at whose end the schedule ends
    for step, (x, y) in enumerate(batches(*train, s["batch-size"])):
        if steps and step == steps:
            break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, per_epoch, total, s)
        optimizer.zero_grad()
        value = loss(model, x, y, "mean")
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), s["clip-norm"])
        optimizer.step()
        if step % 100 == 0:
            print(f"twin step {step}: loss {value.item():.4f}", file=sys.stderr)
    with torch.no_grad():
        nats = sum(loss(model, x, y, "sum").item() for x, y in batches(*valid, s["eval-batch-size"]))
    return math.exp(nats / int((valid[1] >= 0).sum()))


def compare(args, model):
    """Whether the perplexities of one model agree."""
    chosen = MODELS[model]
    settings = [word for name, value in chosen.items() for word in (f"--{name}", str(value))]
    settings += ["--data", str(args.data), "--threads", str(args.threads), "--quiet"]

    with tempfile.TemporaryDirectory() as folder:
        def train(name, *more):
            out = pathlib.Path(folder, name)
            subprocess.run([args.lm, "train", "--out", out, *settings, *more], check=True, stdout=subprocess.DEVNULL)
            return out
        # One step with a learning rate too small to change f32 weights writes the initial weights.
        start = train("start", "--steps", "1", "--lr", "1e-30", "--min-lr", "0", "--warmup-lr", "0",
                      "--eval-tokens", "64")
        weights = {name: t for name, t in load_file(start / "checkpoint.safetensors").items()
                   if not name.startswith("optimizer.")}
        words = vocabulary(args.data / "wiki.train.tokens", chosen["vocabulary-limit"])
        config = json.loads((start / "config.json").read_text())
        if config["vocabulary"].split() != words:
            sys.exit("lm_twin: the vocabularies differ")
        ours = train("ours", *(["--steps", str(args.steps)] if args.steps else []))
        last = [line for line in map(json.loads, open(ours / "metrics.jsonl")) if "valid_perplexity" in line][-1]
        twin = train_twin(model, weights, words, args.data, chosen, args.steps)
    off = last["valid_perplexity"] / twin - 1
    agree = abs(off) <= BAR
    print(f"{model}: validation perplexity after {last['step']} steps: lm {last['valid_perplexity']:.4f}, "
          f"PyTorch {twin:.4f}, {100 * off:+.3f} %: {'they agree' if agree else 'they differ'} (bar {100 * BAR} %)")
    return agree


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm", required=True, help="the program `lm`")
    parser.add_argument("--data", required=True, type=pathlib.Path, help="folder with wiki.train.tokens and the others")
    parser.add_argument("--model", choices=MODELS, help="only this one")
    parser.add_argument("--steps", type=int, default=0, help="stop both after this many steps (0: one epoch)")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    try:
        agree = [compare(args, model) for model in ([args.model] if args.model else MODELS)]
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"lm_twin: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(0 if all(agree) else 1)


if __name__ == "__main__":
    main()
