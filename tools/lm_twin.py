#!/usr/bin/env python3
"""Trains the same language model with `lm` and with PyTorch and compares the validation perplexities.

Same initial weights (taken from lm's checkpoint), same order of the data, same optimizer and schedule; the PyTorch
side reads the text, numbers the words and cuts the rows itself. One epoch of WikiText-2 with a vocabulary of 2,000
words. Two programs that round differently drift apart, so what must agree is the perplexity at the end, within 0.5 %.

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
SETTINGS = {
    "dim": 64, "depth": 2, "heads": 4, "hidden": 256, "context": 64, "vocabulary-limit": 2000, "batch-size": 32,
    "eval-batch-size": 32, "eval-every": 0, "epochs": 1, "lr": 2e-3, "min-lr": 1e-4, "warmup-lr": 1e-6,
    "warmup-epochs": 0.1, "weight-decay": 0.05, "clip-norm": 1, "shuffle": "false", "dropout": 0}
PRE_NORM_EPS = 1e-5


class Block(torch.nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = (torch.nn.LayerNorm(dim, eps=PRE_NORM_EPS) for _ in range(2))
        self.attn = torch.nn.ModuleDict({"qkv": torch.nn.Linear(dim, 3 * dim), "proj": torch.nn.Linear(dim, dim)})
        self.mlp = torch.nn.ModuleDict({"fc1": torch.nn.Linear(dim, hidden), "fc2": torch.nn.Linear(hidden, dim)})

    def forward(self, x):
        b, n, dim = x.shape
        q, k, v = self.attn["qkv"](self.norm1(x)).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, dim)
        x = x + self.attn["proj"](mixed)
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(x))))


class Decoder(torch.nn.Module):
    def __init__(self, words, s):
        super().__init__()
        self.embed = torch.nn.Embedding(words, s["dim"])
        self.pos_embed = torch.nn.Parameter(torch.zeros(s["context"], s["dim"]))
        self.blocks = torch.nn.Sequential(*(Block(s["dim"], s["heads"], s["hidden"]) for _ in range(s["depth"])))
        self.norm = torch.nn.LayerNorm(s["dim"], eps=PRE_NORM_EPS)

    def loss(self, ids, labels, reduction):
        x = self.norm(self.blocks(self.embed(ids) + self.pos_embed))
        logits = F.linear(x, self.embed.weight)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1, reduction=reduction)


def vocabulary(path, limit):
    counts = collections.Counter(word for line in open(path, encoding="utf-8") for word in line.split())
    assert "<unk>" in counts
    # most_common keeps the order in which equals were met.
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


def learning_rate(step, per_epoch, s):
    epoch, total, warm = step / per_epoch, s["epochs"], s["warmup-epochs"]
    if epoch < warm:
        return s["warmup-lr"] + (s["lr"] - s["warmup-lr"]) * epoch / warm
    return s["min-lr"] + (s["lr"] - s["min-lr"]) * (1 + math.cos(math.pi * epoch / total)) / 2


def train_twin(weights, words, data, s, steps):
    model = Decoder(len(words), s)
    own = dict(model.named_parameters())
    assert own.keys() == weights.keys(), sorted(own.keys() ^ weights.keys())
    model.load_state_dict(weights)
    decays = [p for name, p in own.items() if p.dim() >= 2 and name != "pos_embed"]
    rest = [p for name, p in own.items() if p.dim() < 2 or name == "pos_embed"]
    optimizer = torch.optim.AdamW([{"params": decays, "weight_decay": s["weight-decay"]},
                                   {"params": rest, "weight_decay": 0}], lr=s["lr"])
    ids = {word: i for i, word in enumerate(words)}
    train, valid = (rows(encode(data / f"wiki.{split}.tokens", ids), s["context"]) for split in ("train", "valid"))
    per_epoch = -(-len(train[0]) // s["batch-size"])
    for step, (x, y) in enumerate(batches(*train, s["batch-size"])):
        if steps and step == steps:
            break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, per_epoch, s)
        optimizer.zero_grad()
        loss = model.loss(x, y, "mean")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), s["clip-norm"])
        optimizer.step()
        if step % 100 == 0:
            print(f"twin step {step}: loss {loss.item():.4f}", file=sys.stderr)
    with torch.no_grad():
        nats = sum(model.loss(x, y, "sum").item() for x, y in batches(*valid, s["eval-batch-size"]))
    return math.exp(nats / int((valid[1] >= 0).sum()))


def compare(args):
    torch.set_num_threads(args.threads)
    settings = [word for name, value in SETTINGS.items() for word in (f"--{name}", str(value))]
    settings += ["--data", str(args.data), "--threads", str(args.threads), "--quiet"]

    with tempfile.TemporaryDirectory() as folder:
        def train(name, *more):
            out = pathlib.Path(folder, name)
            subprocess.run([args.lm, "train", "--out", out, *settings, *more], check=True, stdout=subprocess.DEVNULL)
            return out
        # One step at a learning rate below all rounding leaves the initial weights.
        start = train("start", "--steps", "1", "--lr", "1e-30", "--min-lr", "0", "--warmup-lr", "0",
                      "--eval-tokens", "64")
        weights = {name: t for name, t in load_file(start / "checkpoint.safetensors").items()
                   if not name.startswith("optimizer.")}
        words = vocabulary(args.data / "wiki.train.tokens", SETTINGS["vocabulary-limit"])
        config = json.loads((start / "config.json").read_text())
        if config["vocabulary"].split() != words:
            sys.exit("lm_twin: the vocabularies differ")
        ours = train("ours", *(["--steps", str(args.steps)] if args.steps else []))
        last = [line for line in map(json.loads, open(ours / "metrics.jsonl")) if "valid_perplexity" in line][-1]
        twin = train_twin(weights, words, args.data, SETTINGS, args.steps)
    off = last["valid_perplexity"] / twin - 1
    agree = abs(off) <= BAR
    print(f"validation perplexity after {last['step']} steps: lm {last['valid_perplexity']:.4f}, PyTorch {twin:.4f}, "
          f"{100 * off:+.3f} %: {'they agree' if agree else 'they differ'} (bar {100 * BAR} %)")
    sys.exit(0 if agree else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm", required=True, help="the program `lm`")
    parser.add_argument("--data", required=True, type=pathlib.Path, help="folder with wiki.train.tokens and the others")
    parser.add_argument("--steps", type=int, default=0, help="stop both after this many steps (0: one epoch)")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    try:
        compare(args)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"lm_twin: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
