#!/usr/bin/env python3
"""The workloads of `bench` in PyTorch: same names, shapes, batch sizes, protocol and JSON lines.

Plain PyTorch at its best settings: F.scaled_dot_product_attention, fused AdamW, denormals flushed, gradients set to
None, bf16 by autocast. RPC-Attention is written as its published code computes it, operator by operator
(--variant eager). Some workloads have other variants, which bench_common.py lists: sdpa puts
scaled_dot_product_attention into RPC's loop or POMO's decoder, compile runs forward and backward through torch.compile
(on a GPU with mode max-autotune, which includes CUDA graphs), onednn takes oneDNN for the f32 products of linear
layers, which are slow in MKL on AMD's processors (attention's stay with MKL), and onnx runs a forward pass in ONNX
Runtime, exported from the same model. The int8 workloads are quantised dynamically, by torch.ao.quantization and by
ONNX Runtime, whose static quantisation was slower. Singular value thresholding on a GPU has three more variants: gesvda
(that driver of torch.linalg.svd), cupy and jax (batched eigenvalues of the Gram matrix). Peak RSS includes the
interpreter and PyTorch's libraries; "rss_start_bytes" is what they take before the workload is built.

With --ranks a model is trained by so many processes under DistributedDataParallel (gloo; on GPUs NCCL, one a process);
--batch and --threads are a rank's, items, memory and processor time those of all ranks together. --start takes the
weights and the whole batch, of which each rank has its part, from the file that `bench NAME --start FILE` wrote, and
adds the losses of the first ten steps, without dropout: they are to be those of `bench`.
"""
import argparse
import importlib
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict

from bench_common import VARIANTS, at_least, why_not

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("names", nargs="+", metavar="NAME", help="workloads, or 'list'")
parser.add_argument("--threads", type=at_least(0), default=0, help="CPU threads (0: all)")
parser.add_argument("--steps", type=at_least(0), default=0,
                    help="timed steps, at least (0: 10 for models, 20 for operators)")
parser.add_argument("--seconds", type=at_least(0, float), default=1, help="timed seconds, at least")
parser.add_argument("--batch", type=at_least(0), default=0, help="batch size (0: the workload's)")
parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
parser.add_argument("--variant", choices=list(VARIANTS), default="eager")
parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
parser.add_argument("--ranks", type=at_least(1), default=1, help="processes that train together")
parser.add_argument("--start", help="file of weights and batch that `bench NAME --start FILE` wrote")
args = parser.parse_args()


def run_ranks():
    """This program once a rank. The first that fails ends the others, and its exit code is returned."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen([sys.executable, *sys.argv],
                                  env=os.environ | {"RANK": str(r), "MEET": f"{folder}/meet"})
                 for r in range(args.ranks)]
        codes = [None]
        while None in codes and not any(codes):
            time.sleep(0.05)
            codes = [r.poll() for r in ranks]
        for r in ranks:
            r.kill()
            r.wait()
        return next((code for code in codes if code), 0)


if args.ranks > 1 and "RANK" not in os.environ:
    sys.exit(run_ranks())
rank = int(os.environ.get("RANK", 0)) if args.ranks > 1 else 0

threads = args.threads or len(os.sched_getaffinity(0))
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(threads)

try:
    import torch  # noqa: E402  (after the thread counts, which are read when it loads)
    import torch.distributed as dist  # noqa: E402
    import torch.nn.functional as F  # noqa: E402
    from torch import nn  # noqa: E402
except ImportError as error:
    sys.exit(f"torch_twin: {error}; it needs PyTorch")


class OnednnLinear(torch.autograd.Function):
    """y = x w^T + b in f32 with three products of oneDNN; PyTorch takes MKL for them."""

    @staticmethod
    def product(x, w, b=None):
        return torch.ops.mkldnn._linear_pointwise(x, w, b, "none", [], "")

    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        return OnednnLinear.product(x, w, b)

    @staticmethod
    def backward(ctx, gy):
        x, w = ctx.saved_tensors
        rows = gy.reshape(-1, gy.shape[-1])
        gx = OnednnLinear.product(gy, w.t()) if ctx.needs_input_grad[0] else None
        gw = OnednnLinear.product(rows.t(), x.reshape(-1, x.shape[-1]).t())
        return gx, gw, rows.sum(0) if ctx.needs_input_grad[2] else None


if args.variant == "onednn":
    F.linear = lambda x, w, b=None: OnednnLinear.apply(x, w, b)

HEADS, TOKENS, HEAD_DIM = 3, 197, 64
DIM = HEADS * HEAD_DIM
SVT_THRESHOLD = 13.5


def published_attention(q, k, v, is_causal=False):
    scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1), float("-inf"))
    return scores.softmax(-1) @ v


def rpc_attention(k, v, iterations, lam=4.0, causal=False):
    """Principal attention pursuit on keys and values [B, H, N, D], as in the published code."""
    attend = F.scaled_dot_product_attention if args.variant == "sdpa" else published_attention
    width = k.shape[1] * k.shape[3]
    if causal:  # of the keys up to each
        tokens = torch.arange(1, k.shape[2] + 1, device=k.device)[:, None]
        mu = tokens * width / 4 / k.abs().sum(-1, keepdim=True).cumsum(-2)
    else:
        mu = k.shape[2] * width / 4 / k.abs().sum((-2, -1), keepdim=True)
    low, dual = torch.zeros_like(k), torch.zeros_like(k)
    for i in range(iterations):
        x = k - low + dual / mu
        sparse = torch.sign(x) * F.relu(x.abs() - lam * mu)
        z = k - sparse - dual / mu
        low = attend(z, z, v, is_causal=causal)
        if i + 1 < iterations:
            dual = dual + mu * (k - low - sparse)
    return low


class Attention(nn.Module):
    def __init__(self, dim, heads, iterations, kind, lam=4.0, causal=False, bias=True):
        super().__init__()
        self.heads, self.iterations, self.kind, self.lam, self.causal = heads, iterations, kind, lam, causal
        self.parts = 3 if kind == "softmax" else 2
        self.qkv = nn.Linear(dim, self.parts * dim, bias=bias)
        self.proj = nn.Linear(dim, dim, bias=bias)

    def forward(self, x):
        b, n, c = x.shape
        parts = self.qkv(x).reshape(b, n, self.parts, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        k, v = parts[-2], parts[-1]
        if self.kind == "rpc":
            y = rpc_attention(k, v, self.iterations, self.lam, causal=self.causal)
        else:
            y = F.scaled_dot_product_attention(parts[0], k, v, is_causal=self.causal)
        return self.proj(y.transpose(1, 2).reshape(b, n, c))


# Modules have the names of the engine's, which are timm's.
def feed_forward(dim, hidden, activation):
    return nn.Sequential(OrderedDict(fc1=nn.Linear(dim, hidden), activation=activation, fc2=nn.Linear(hidden, dim)))


class DropPath(nn.Module):
    """Drops a sample's branch whole with the probability `rate` and scales the others by 1 / (1 - rate)."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.training or self.rate == 0:
            return x
        return x * x.new_empty(len(x), *[1] * (x.ndim - 1)).bernoulli_(1 - self.rate).div_(1 - self.rate)


class Block(nn.Module):
    def __init__(self, dim, heads, iterations, kind, lam, drop_path):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads, iterations, kind, lam)
        self.mlp = feed_forward(dim, 4 * dim, nn.GELU())
        self.drop_path = DropPath(drop_path)

    def forward(self, x):
        x = x + self.drop_path(self.attn(self.norm1(x)))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class VisionTransformer(nn.Module):
    """`layer`: the block that runs RPC-Attention, the others being symmetric; -1: all of them."""

    def __init__(self, kind, image=224, patch=16, depth=12, classes=1000, iterations=4, layer=0, lam=4.0,
                 drop_path=0.0):
        super().__init__()
        self.patch_embed = nn.Sequential(OrderedDict(proj=nn.Conv2d(3, DIM, patch, patch)))
        self.cls_token = nn.Parameter(0.02 * torch.randn(1, 1, DIM))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, (image // patch) ** 2 + 1, DIM))
        kinds = ["symmetric" if kind == "rpc" and layer not in (-1, i) else kind for i in range(depth)]
        self.blocks = nn.Sequential(*[Block(DIM, HEADS, iterations, k, lam, drop_path * i / max(1, depth - 1))
                                      for i, k in enumerate(kinds)])
        self.norm = nn.LayerNorm(DIM, eps=1e-6)
        self.head = nn.Linear(DIM, classes)
        for name, p in self.named_parameters():
            if p.ndim > 1 and "embed" not in name and "token" not in name:
                nn.init.trunc_normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def tokens(self, images):
        x = self.patch_embed(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.repeat(len(x), 1, 1), x], 1) + self.pos_embed
        return self.norm(self.blocks(x))

    def forward(self, images):
        return self.head(self.tokens(images)[:, 0])


class Segmenter(VisionTransformer):
    """Logits of every pixel by a linear decoder of the patch tokens and bilinear upsampling."""

    def forward(self, images):
        logits = self.head(self.tokens(images)[:, 1:]).transpose(1, 2)
        side = math.isqrt(logits.shape[2])
        return F.interpolate(logits.unflatten(2, (side, side)), size=images.shape[2:], mode="bilinear")


def autocast():
    return torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.dtype == "bf16")


def compiled(f):
    if args.variant != "compile":
        return f
    return torch.compile(f, mode="max-autotune" if args.device == "cuda" else None)


losses = []  # of the first steps, with --start


def read_start():
    """Tensors of a safetensors file."""
    types = {"F32": torch.float32, "I64": torch.int64}
    try:
        with open(args.start, "rb") as f:
            header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
            data = bytearray(f.read())
    except (OSError, ValueError) as error:
        sys.exit(f"torch_twin: --start {args.start}: {error}; `bench NAME --start FILE` writes it")
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(data, dtype=types[t["dtype"]], count=math.prod(t["shape"]),
                                   offset=t["data_offsets"][0]).reshape(t["shape"]).to(args.device)
            for name, t in header.items()}


def of_ranks(value, op=dist.ReduceOp.SUM):
    """The sum, or what `op` makes, of every rank's number."""
    if args.ranks == 1:
        return value
    number = torch.tensor(value, dtype=torch.float64, device="cpu")
    dist.all_reduce(number, op)
    return number.item()


def training_step(model, optimizer, loss_of, batch, clip_norm=0.0):
    """Forward, loss of (forward, *batch), backward and the optimizer's step."""
    if args.start:
        tensors = read_start()
        start = {name[len("batch."):]: tensors.pop(name) for name in list(tensors) if name.startswith("batch.")}
        model.load_state_dict({name.replace("output.head.cluster.weight", "cluster"): x for name, x in tensors.items()})
        part = len(next(iter(batch.values())))
        batch = {name: start[name][rank * part:(rank + 1) * part].to(t.dtype) for name, t in batch.items()}
    if args.ranks > 1:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    forward = compiled(model)

    def step():
        with autocast():
            loss = loss_of(forward, **batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if clip_norm:
            nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        return loss.detach()

    if args.start:
        model.eval()
        losses.extend(of_ranks(step().item()) / args.ranks for _ in range(10))
        model.train()
    return step


def training(batch, image=224, classes=1000, segment=False, **config):
    model = (Segmenter if segment else VisionTransformer)(image=image, classes=classes, **config)
    decays = {name: p.ndim > 1 and name not in ("cls_token", "pos_embed") for name, p in model.named_parameters()}
    groups = [{"params": [p for name, p in model.named_parameters() if decays[name]], "weight_decay": 0.05},
              {"params": [p for name, p in model.named_parameters() if not decays[name]], "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, lr=5e-4, fused=True)

    def loss_of(forward, images, labels):
        return F.cross_entropy(forward(images).float(), labels, label_smoothing=0.0 if segment else 0.1)
    return training_step(model, optimizer, loss_of, {
        "images": torch.randn(batch, 3, image, image),
        "labels": torch.randint(classes, (batch, image, image) if segment else (batch,))})


class LmBlock(nn.Module):
    def __init__(self, dim, heads, hidden, kind):
        super().__init__()
        self.attn = Attention(dim, heads, 4, kind, causal=True, bias=False)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = feed_forward(dim, hidden, nn.ReLU())
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        x = self.norm1(x + self.dropout(self.attn(x)))
        return self.norm2(x + self.dropout(self.mlp(x)))


class LanguageModel(nn.Module):
    """Post-norm decoder; the output layer is tied to the embedding, with a cluster of rare words for each cutoff."""

    def __init__(self, cutoffs, rpc_layers, vocab=33278, context=256, dim=128, depth=16, heads=8, hidden=2048):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.Sequential(*[
            LmBlock(dim, heads, hidden, "softmax" if rpc_layers == 0 else "rpc" if i < rpc_layers else "symmetric")
            for i in range(depth)])
        self.dropout = nn.Dropout(0.1)
        self.cutoffs, self.scale = (*(cutoffs or ()), vocab), dim ** 0.5
        if cutoffs:
            self.cluster = nn.Parameter(torch.empty(len(cutoffs), dim))
        angle = torch.arange(context - 1, -1, -1.0)[:, None] * 10000 ** (torch.arange(0, dim, 2.0) / -dim)
        self.register_buffer("positions", torch.cat([angle.sin(), angle.cos()], 1), persistent=False)
        for name, p in self.named_parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids, labels):
        x = self.blocks(self.dropout(self.embed(ids) * self.scale + self.positions)).flatten(0, 1)
        labels, weight = labels.flatten(), self.embed.weight
        first = self.cutoffs[0]
        if len(self.cutoffs) == 1:
            return F.cross_entropy(F.linear(x, weight).float(), labels)
        columns, loss = labels, 0
        for i, (begin, end) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            in_part = (labels >= begin) & (labels < end)
            columns = columns.masked_fill(in_part, first + i)
            rare = in_part.nonzero().squeeze(1)
            tail = F.linear(x[rare], weight[begin:end]).float()
            loss = loss + F.cross_entropy(tail, labels[rare] - begin, reduction="sum")
        head = F.linear(x, torch.cat([weight[:first], self.cluster])).float()
        return (loss + F.cross_entropy(head, columns, reduction="sum")) / len(labels)


def language(batch, cutoffs=(), rpc_layers=0, vocab=33278):
    model = LanguageModel(cutoffs, rpc_layers, vocab)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, fused=True)
    return training_step(model, optimizer, lambda forward, ids, labels: forward(ids, labels), {
        "ids": torch.randint(vocab, (batch, 256)), "labels": torch.randint(vocab, (batch, 256))}, clip_norm=0.25)


class NodeNorm(nn.InstanceNorm1d):
    def forward(self, x):
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class NodeLayer(nn.Module):
    """A layer of LEHD and POMO, after their published code."""

    def __init__(self, dim=128, heads=8, hidden=512, norm=False):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.mlp = feed_forward(dim, hidden, nn.ReLU())
        self.norm1, self.norm2 = (NodeNorm(dim, affine=True), NodeNorm(dim, affine=True)) if norm else (None, None)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        h = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        h = self.norm1(h) if self.norm1 else h
        y = h + self.mlp(h)
        return self.norm2(y) if self.norm2 else y


class Lehd(nn.Module):
    def __init__(self, dim=128, layers=6):
        super().__init__()
        self.embed, self.encoder = nn.Linear(2, dim), NodeLayer()
        self.destination, self.current, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, 1)
        self.decoder = nn.Sequential(*[NodeLayer() for _ in range(layers)])

    def forward(self, nodes):
        h = self.encoder(self.embed(nodes))
        z = self.decoder(torch.cat([self.destination(h[:, -1:]), h[:, 1:-1], self.current(h[:, :1])], 1))
        return self.out(z[:, 1:-1]).squeeze(2)


class Pomo(nn.Module):
    def __init__(self, dim=128, layers=6):
        super().__init__()
        self.embed, self.encoder = nn.Linear(2, dim), nn.Sequential(*[NodeLayer(norm=True) for _ in range(layers)])
        self.first, self.last, self.keys, self.values = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.combine = nn.Linear(dim, dim)

    def forward(self, nodes):
        """Lengths [B, N] and log probabilities [B, N] of drawn tours from every node."""
        b, n, _ = nodes.shape
        h = self.encoder(self.embed(nodes))
        dim = h.shape[2]

        def by_head(x):
            return x.reshape(b, -1, 8, dim // 8).transpose(1, 2)
        keys, values, first = by_head(self.keys(h)), by_head(self.values(h)), by_head(self.first(h))
        batch, start = torch.arange(b)[:, None].expand(b, n), torch.arange(n).expand(b, n)
        at, chosen, tour, mask = start, [], [start], torch.zeros(b, n, n)
        for _ in range(n - 1):
            mask = mask.clone()
            mask[batch, start, at] = float("-inf")
            query = first + by_head(self.last(h.gather(1, at[:, :, None].expand(-1, -1, dim))))
            if args.variant == "sdpa":
                mixed = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask[:, None])
            else:
                mixed = (query @ keys.transpose(2, 3) / (dim // 8) ** 0.5 + mask[:, None]).softmax(3) @ values
            scores = self.combine(mixed.transpose(1, 2).flatten(2)) @ h.transpose(1, 2)
            p = (10 * torch.tanh(scores / dim ** 0.5) + mask).softmax(2)
            at = p.reshape(b * n, n).multinomial(1).reshape(b, n)
            chosen.append(p[batch, start, at])
            tour.append(at)
        path = nodes[torch.arange(b)[:, None, None], torch.stack(tour, 2)]
        return (path - path.roll(-1, 2)).norm(dim=3).sum(2), torch.stack(chosen, 2).log().sum(2)


def lehd(batch):
    model = Lehd()
    return training_step(model, torch.optim.Adam(model.parameters(), lr=5e-4, fused=True),
                         lambda forward, nodes, labels: F.cross_entropy(forward(nodes), labels),
                         {"nodes": torch.rand(batch, 100, 2), "labels": torch.randint(98, (batch,))})


def pomo(batch):
    def loss_of(forward, nodes):
        length, log_p = forward(nodes)
        return ((length - length.mean(1, keepdim=True)).detach() * log_p).mean()
    model = Pomo()
    return training_step(model, torch.optim.Adam(model.parameters(), lr=5e-4, fused=True), loss_of,
                         {"nodes": torch.rand(batch, 50, 2)})


def forward(f, *inputs):
    dtype = torch.bfloat16 if args.dtype == "bf16" else torch.float32
    inputs, f = [x.to(dtype) for x in inputs], compiled(f)

    def step():
        with torch.no_grad():
            f(*inputs)
    return step


def images_forward(batch, int8=False):
    """A forward pass of DeiT-tiny in evaluation, with weights of the type."""
    return inference(VisionTransformer("softmax").eval(), torch.randn(batch, 3, 224, 224), int8)


class LogProb(nn.Module):
    """log p of every word of the windows words[0], given the next ones words[1]."""

    def __init__(self, model):
        super().__init__()
        self.model, self.head = model, tied_head(model)

    def forward(self, words):
        x = self.model.blocks(self.model.embed(words[0]) * self.model.scale + self.model.positions)
        return self.head(x).float().log_softmax(-1).gather(-1, words[1, :, :, None])


def tied_head(model):
    """As a module of its own, so that it can have weights of another type."""
    head = nn.Linear(model.embed.embedding_dim, model.embed.num_embeddings, bias=False)
    head.weight = model.embed.weight
    return head


def text_forward(batch, int8=False):
    return inference(LogProb(LanguageModel((), 0)).eval(), torch.randint(33278, (2, batch, 256)), int8)


def int8_linear(model):
    """int8 weights in every linear layer, one scale an output; activations are rounded as they come."""
    return torch.ao.quantization.quantize_dynamic(
        model, {nn.Linear: torch.ao.quantization.per_channel_dynamic_qconfig})


def inference(model, x, int8):
    if args.variant == "onnx":
        return onnx_forward(model, x, int8)
    dtype = torch.bfloat16 if args.dtype == "bf16" else torch.float32
    f = compiled(int8_linear(model) if int8 else model.to(dtype))
    x = x.to(dtype) if x.is_floating_point() else x

    def step():
        with torch.inference_mode():
            f(x)
    return step


def peer(module):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        sys.exit(f"torch_twin: {error}; --variant {args.variant} needs it")


def onnx_forward(model, x, int8):
    onnxruntime = peer("onnxruntime")
    peer("onnx")
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/model.onnx"
        torch.onnx.export(model, (x,), file, dynamo=False, opset_version=18)
        if int8:
            from onnxruntime.quantization import QuantType, quantize_dynamic
            coded = f"{folder}/int8.onnx"
            quantize_dynamic(file, coded, weight_type=QuantType.QInt8, per_channel=True)
            file = coded
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(file, options, ["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x.numpy()}
    with torch.inference_mode():
        want = model(x)
        apart = ((torch.from_numpy(session.run(None, feed)[0]) - want).abs().max() / want.abs().max()).item()
    if not apart < (0.2 if int8 else 1e-3):
        sys.exit(f"torch_twin: ONNX Runtime's results are {apart} from PyTorch's, relatively")
    return lambda: session.run(None, feed)


def generation(words, int8=False):
    """So many words, each the most probable one, after a prompt of 64 whose keys and values are cached."""
    prompt, context, dim, heads, vocab = 64, 256, 128, 8, 33278
    if prompt + words > context:
        sys.exit(f"torch_twin: got --batch {words}, need at most {context - prompt} words after a prompt of {prompt}")
    dtype = torch.bfloat16 if args.dtype == "bf16" else torch.float32
    model = LanguageModel(0, 0).eval().to(dtype)
    head = tied_head(model)
    if int8:
        model, head = int8_linear(model), int8_linear(nn.Sequential(head))
    positions = (0.02 * torch.randn(context, dim)).to(dtype)
    caches = [torch.zeros(2, 1, heads, context, dim // heads, dtype=dtype) for _ in model.blocks]

    def logits_of(ids, first):
        x = model.embed(ids) * model.scale + positions[first:first + ids.shape[1]]
        for block, cache in zip(model.blocks, caches):
            n, last = x.shape[1], first + x.shape[1]
            q, k, v = block.attn.qkv(x).view(1, n, 3, heads, dim // heads).permute(2, 0, 3, 1, 4)
            cache[0, :, :, first:last], cache[1, :, :, first:last] = k, v
            y = F.scaled_dot_product_attention(q, cache[0, :, :, :last], cache[1, :, :, :last], is_causal=n > 1)
            x = block.norm1(x + block.attn.proj(y.transpose(1, 2).reshape(1, n, dim)))
            x = block.norm2(x + block.mlp(x))
        return head(x[:, -1])

    def step():
        with torch.inference_mode():
            word = torch.zeros(1, 1, dtype=torch.int64)
            for i in range(words):
                word = logits_of(word, prompt + i).argmax(-1, keepdim=True)

    with torch.inference_mode():
        logits_of(torch.randint(vocab, (1, prompt)), 0)
    return step


def product(batch, inner, outer):
    return forward(F.linear, torch.randn(batch, TOKENS, inner), 0.02 * torch.randn(outer, inner))


def forward_backward(f, *inputs):
    dtype = torch.bfloat16 if args.dtype == "bf16" else torch.float32
    leaves = [x.to(dtype).requires_grad_() for x in inputs]
    f = compiled(f)
    seed_grad = torch.randn_like(f(*leaves))

    def step():
        for x in leaves:
            x.grad = None
        f(*leaves).backward(seed_grad)
    return step


def attention(batch, parts, run=forward_backward, tokens=TOKENS, causal=False):
    def f(packed):
        p = packed.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(p[0], p[-2], p[-1], is_causal=causal)
        return y.transpose(1, 2).reshape(batch, tokens, DIM)
    return run(f, torch.randn(batch, tokens, parts, HEADS, HEAD_DIM))


def rpc(batch, run=forward_backward):
    def f(packed):
        p = packed.permute(2, 0, 3, 1, 4).unbind(0)
        return rpc_attention(p[0], p[1], 4).transpose(1, 2).reshape(batch, TOKENS, DIM)
    keys_and_values = torch.randn(batch, TOKENS, 2, HEADS, HEAD_DIM)
    keys_and_values[:, :, 0] *= 2
    return run(f, keys_and_values)


def threshold(a):
    driver = "gesvda" if args.variant == "gesvda" else None
    u, s, vh = torch.linalg.svd(a, full_matrices=False, driver=driver)
    return (u * F.relu(s - SVT_THRESHOLD)[:, None]) @ vh


def gram_threshold(library):
    """a max(0, 1 - tau / sigma) in the eigenvectors of a^T a, by a library with a batched eigensolver."""
    def f(a):
        squares, v = library.linalg.eigh(a.swapaxes(1, 2) @ a)
        kept = library.maximum(1 - SVT_THRESHOLD / library.sqrt(library.maximum(squares, 1e-30)), 0)
        return a @ ((v * kept[:, None, :]) @ v.swapaxes(1, 2))
    return f


def svt(batch):
    if args.variant == "cupy":
        cupy = peer("cupy")
        f, a = gram_threshold(cupy), cupy.random.standard_normal((batch, TOKENS, HEAD_DIM), dtype="float32")
        return lambda: f(a)
    if args.variant == "jax":
        jax = peer("jax")
        f = jax.jit(gram_threshold(jax.numpy))
        a = jax.random.normal(jax.random.key(1), (batch, TOKENS, HEAD_DIM))
        return lambda: f(a).block_until_ready()
    return forward(threshold, torch.randn(batch, TOKENS, HEAD_DIM))


def mlp(batch):
    def f(x, w1, b1, w2, b2):
        return x + F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2)
    return forward_backward(f, torch.randn(batch, TOKENS, DIM), 0.02 * torch.randn(4 * DIM, DIM),
                            0.02 * torch.randn(4 * DIM), 0.02 * torch.randn(DIM, 4 * DIM), 0.02 * torch.randn(DIM))


def layer_norm(batch):
    return forward_backward(lambda x, w, b: F.layer_norm(x, (DIM,), w, b, 1e-6),
                            torch.randn(batch, TOKENS, DIM), torch.randn(DIM), torch.randn(DIM))


def upsampled_loss(batch, classes=150, size=512):
    labels = torch.randint(classes, (batch, size, size))

    def f(x):
        logits = F.interpolate(x.permute(0, 3, 1, 2), size=(size, size), mode="bilinear")
        return F.cross_entropy(logits.float(), labels)
    return forward_backward(f, torch.randn(batch, size // 16, size // 16, classes))


def convolution(batch, channels, size, kernel, groups=1):
    return forward_backward(lambda x, w, b: F.conv2d(x, w, b, padding=kernel // 2, groups=groups),
                            torch.randn(batch, channels, size, size),
                            0.02 * torch.randn(channels, channels // groups, kernel, kernel),
                            0.02 * torch.randn(channels))


def adamw(parameters):
    weight = nn.Parameter(torch.randn(parameters))
    weight.grad = 1e-3 * torch.randn(parameters)
    return torch.optim.AdamW([weight], lr=5e-4, weight_decay=0.05, fused=True).step


def copy(parameters):
    source = torch.rand(parameters // 2 * 7)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


SMALL = {"image": 32, "patch": 4, "depth": 6, "classes": 10}
# name: (default batch, unit, least steps, takes bf16, builder of the step)
MODELS = {
    "deit-tiny-softmax": (8, "images", 10, True, lambda b: training(b, kind="softmax", drop_path=0.1)),
    "deit-tiny-symmetric": (8, "images", 10, True, lambda b: training(b, kind="symmetric", drop_path=0.1)),
    "deit-tiny-rpc": (8, "images", 10, True, lambda b: training(b, kind="rpc", drop_path=0.1)),
    "deit-tiny-rpc-all": (8, "images", 10, True, lambda b: training(b, kind="rpc", iterations=2, layer=-1, lam=3.0,
                                                                    drop_path=0.1)),
    "vit32-softmax": (64, "images", 10, True, lambda b: training(b, kind="softmax", **SMALL)),
    "vit32-rpc": (64, "images", 10, True, lambda b: training(b, kind="rpc", **SMALL)),
    "segment-tiny": (4, "images", 10, True,
                     lambda b: training(b, kind="softmax", image=256, classes=150, segment=True, drop_path=0.1)),
    "segment-tiny-512": (2, "images", 10, True,
                         lambda b: training(b, kind="softmax", image=512, classes=150, segment=True, drop_path=0.1)),
    "lm-paper": (4, "sequences", 10, True, language),
    "lm-paper-adaptive": (4, "sequences", 10, True, lambda b: language(b, (20000,))),
    "lm-paper-267735": (4, "sequences", 10, True, lambda b: language(b, (20000, 40000, 200000), vocab=267735)),
    "lm-paper-rpc": (4, "sequences", 10, True, lambda b: language(b, (20000,), rpc_layers=4)),
    "lehd": (64, "instances", 10, False, lehd),
    "pomo": (64, "instances", 10, False, pomo),
}
INFERENCE = {
    "deit-tiny-forward": (64, "images", 10, True, images_forward),
    "deit-tiny-forward-1": (1, "images", 10, True, images_forward),
    "deit-tiny-int8": (64, "images", 10, False, lambda b: images_forward(b, int8=True)),
    "deit-tiny-int8-1": (1, "images", 10, False, lambda b: images_forward(b, int8=True)),
    "lm-forward": (4, "sequences", 10, True, text_forward),
    "lm-int8": (4, "sequences", 10, False, lambda b: text_forward(b, int8=True)),
    "lm-generate": (64, "words", 10, True, generation),
    "lm-generate-int8": (64, "words", 10, False, lambda b: generation(b, int8=True)),
}
OPERATORS = {
    "attention-softmax": (8, "images", 20, True, lambda b: attention(b, 3)),
    "attention-symmetric": (8, "images", 20, True, lambda b: attention(b, 2)),
    "attention-forward": (8, "images", 20, True, lambda b: attention(b, 3, forward)),
    "attention-1025": (2, "images", 20, True, lambda b: attention(b, 3, tokens=1025)),
    "attention-causal-1024": (2, "images", 20, True, lambda b: attention(b, 3, tokens=1024, causal=True)),
    "product-qkv": (8, "images", 20, True, lambda b: product(b, DIM, 3 * DIM)),
    "product-fc1": (8, "images", 20, True, lambda b: product(b, DIM, 4 * DIM)),
    "product-fc2": (8, "images", 20, True, lambda b: product(b, 4 * DIM, DIM)),
    "rpc-operator": (8, "images", 20, True, rpc),
    "rpc-forward": (8, "images", 20, True, lambda b: rpc(b, forward)),
    "svt": (256, "matrices", 20, False, svt),
    "svt-grad": (256, "matrices", 20, False,
                 lambda b: forward_backward(threshold, torch.randn(b, TOKENS, HEAD_DIM))),
    "layer-norm": (32, "images", 20, True, layer_norm),
    "mlp": (8, "images", 20, True, mlp),
    "upsample-cross-entropy": (2, "images", 20, True, upsampled_loss),
    "conv-3x3-56": (8, "images", 20, True, lambda b: convolution(b, 64, 56, 3)),
    "conv-3x3-28": (8, "images", 20, True, lambda b: convolution(b, 128, 28, 3)),
    "conv-3x3-14": (8, "images", 20, True, lambda b: convolution(b, 256, 14, 3)),
    "conv-3x3-7": (8, "images", 20, True, lambda b: convolution(b, 512, 7, 3)),
    "conv-depthwise-56": (8, "images", 20, True, lambda b: convolution(b, 96, 56, 7, 96)),
    "conv-depthwise-28": (8, "images", 20, True, lambda b: convolution(b, 192, 28, 7, 192)),
    "conv-depthwise-14": (8, "images", 20, True, lambda b: convolution(b, 384, 14, 7, 384)),
    "conv-depthwise-7": (8, "images", 20, True, lambda b: convolution(b, 768, 7, 7, 768)),
    "adamw": (5717416, "parameters", 20, False, adamw),
    "copy": (5717416, "parameters", 20, False, copy),
}
WORKLOADS = MODELS | INFERENCE | OPERATORS


def queued():
    """Seconds that this process's threads spent in a run queue."""
    total = 0
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/schedstat") as f:
                total += int(f.read().split()[1])
        except OSError:  # the thread is gone, or the kernel does not say
            pass
    return total * 1e-9


def status(field):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(field + ":"))


def measure(step, least):
    """On a GPU a sample is as many steps as take 20 ms, and their mean, as in `bench`. Rank 0's clock counts."""
    group = 1

    def agreed(number):
        return of_ranks(number if rank == 0 else 0)

    def sample():
        for _ in range(group):
            step()
        if args.device == "cuda":
            torch.cuda.synchronize()

    start, runs, last = time.perf_counter(), 0, 0.0
    while agreed(runs < 3 or time.perf_counter() < start + 0.2):
        t = time.perf_counter()
        sample()
        last = time.perf_counter() - t
        runs += 1
    if args.device == "cuda":
        group = int(agreed(min(max(int(0.02 / last), 1), 1000)))
    ms, cpu_ms, begin, queued_before = [], [], time.perf_counter(), queued()
    t = begin
    while agreed(len(ms) < least or t < begin + args.seconds):
        cpu = time.process_time()
        sample()
        end = time.perf_counter()
        ms.append((end - t) * 1e3 / group)
        cpu_ms.append((time.process_time() - cpu) * 1e3 / group)
        t = end
    return ms, cpu_ms, (queued() - queued_before) / (t - begin) / threads


def build():
    """The libraries of products: "MKL 2024.2, oneDNN 3.13.3", or ONNX Runtime's version."""
    if args.variant == "onnx":
        return f"ONNX Runtime {peer('onnxruntime').__version__}"
    versions = [(name, re.search(pattern, torch.__config__.show())) for name, pattern in
                (("MKL", r"Math Kernel Library Version (\S+?)-"), ("oneDNN", r"MKL-DNN v(\S+)"))]
    return ", ".join(f"{name} {found[1]}" for name, found in versions if found)


def run(name):
    batch, unit, least, takes_bf16, make = WORKLOADS[name]
    batch = args.batch or batch
    if not takes_bf16:
        args.dtype = "f32"
    torch.manual_seed(1)
    if args.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    rss_start = status("VmRSS")
    ms, cpu_ms, waited = measure(make(batch), args.steps or least)
    median = statistics.median(ms)
    on_gpu = args.device == "cuda"
    line = {
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "pool_peak_bytes": of_ranks(torch.cuda.max_memory_allocated() if on_gpu else 0),
        "workload": name, "engine": "torch", "variant": args.variant, "version": torch.__version__,
        "build": build(),
        "isa": torch.backends.cpu.get_cpu_capability().lower(), "threads": torch.get_num_threads(),
        "ranks": args.ranks, "dtype": args.dtype, "batch": batch, "unit": unit, "steps": len(ms), "median_ms": median,
        "min_ms": min(ms), "max_ms": max(ms), "cpu_ms": of_ranks(statistics.median(cpu_ms)),
        "items_per_s": args.ranks * batch / median * 1e3, "waited": of_ranks(waited, dist.ReduceOp.MAX),
        "rss_start_bytes": of_ranks(rss_start), "rss_peak_bytes": of_ranks(status("VmHWM"))}
    if args.start:
        line["losses"] = losses
    if rank == 0:
        print(json.dumps(line), flush=True)


if args.names == ["list"]:
    print("\n".join(WORKLOADS))
    sys.exit(0)
for name in args.names:
    if name not in WORKLOADS:
        sys.exit(f"torch_twin: unknown workload '{name}'; 'list' shows the names")
    if (args.start or args.ranks > 1) and name not in MODELS:
        sys.exit(f"torch_twin: {name} is no training step; --start and --ranks are of a model")
    reason = why_not(name, args.variant, args.device, args.dtype)
    if reason:
        sys.exit(f"torch_twin: {reason}")
if args.start and len(args.names) > 1:
    sys.exit("torch_twin: --start is the file of one workload")
if args.device == "cuda" and not torch.cuda.is_available():
    sys.exit("torch_twin: PyTorch sees no GPU")
torch.set_num_threads(threads)
if args.ranks > 1:
    if args.device == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group("gloo" if args.device == "cpu" else "cpu:gloo,cuda:nccl", rank=rank, world_size=args.ranks,
                            init_method="file://" + os.environ["MEET"])
torch.set_default_device(args.device)
torch.set_flush_denormal(True)  # as the engine does; the RPC operator is three times faster with it
dtype = args.dtype
for name in args.names:
    args.dtype = dtype
    run(name)
if args.ranks > 1:
    dist.barrier()
    os._exit(0)  # the ordinary end sometimes aborts: "terminate called without an active exception"
