#!/usr/bin/env python3
"""Writes golden files: random inputs of a case by a seed, and what the published formulas make of them in float64.

    tests/goldens/draw.py FOLDER --seeds 0 1 2 --cases rpc_n4 vit_rpc      # all cases without --cases
    build/bin/goldens FOLDER

The formulas are written down here once more, in PyTorch, with its automatic gradients; nothing of the engine is used.
Inputs are rounded to float32 first, so that every engine starts from the same numbers. `f32_err` is what the same
formulas lose in float32. The files of tests/goldens/draws were made by

    tests/goldens/draw.py tests/goldens/draws --small --seeds 0 1 2

and four in which rounding goes far by

    tests/goldens/draw.py tests/goldens/draws --small --cases vit_rpc --seeds 137 143 146
    tests/goldens/draw.py tests/goldens/draws --small --cases rpc_n6 --seeds 120

Needs PyTorch and NumPy.
"""
import argparse
import json
import math
import pathlib
import struct

import numpy as np
import torch

f64 = torch.float64


def heads_first(x, parts, heads):
    """[B, N, parts * H * D] to `parts` tensors [B, H, N, D]."""
    b, n, width = x.shape
    return x.reshape(b, n, parts, heads, width // parts // heads).permute(2, 0, 3, 1, 4)


def probabilities(q, k, scale, causal=False):
    scores = q @ k.transpose(-1, -2) * scale
    if causal:
        scores = scores + torch.full(scores.shape[-2:], -math.inf, dtype=scores.dtype).triu(1)
    return torch.softmax(scores, -1)


class SoftThreshold(torch.autograd.Function):
    """sign(a) max(|a| - t, 0); at the threshold itself the derivative is 1."""

    @staticmethod
    def forward(ctx, a, t):
        active = a.abs() >= t
        ctx.save_for_backward(a, active)
        ctx.shape = t.shape
        return torch.where(active, a - a.sign() * t, torch.zeros_like(a))

    @staticmethod
    def backward(ctx, g):
        a, active = ctx.saved_tensors
        gt = -(g * a.sign() * active)
        while gt.shape != ctx.shape:
            for d in range(gt.dim()):
                if gt.shape[d] != ctx.shape[d]:
                    gt = gt.sum(d, keepdim=True)
        return g * active, gt


def rpc(k, v, n, weight, scale, causal=False, margins=None, q=None):
    """Principal attention pursuit as the published code computes it; with q by section E.10 of the paper."""
    heads, tokens, width = k.shape[1], k.shape[2], k.shape[1] * k.shape[3]
    mu = tokens * width / 4 / k.abs().sum((2, 3), keepdim=True)
    low = dual = torch.zeros_like(k)
    for _ in range(n):
        a, t = k - low + dual / mu, weight * mu
        if margins is not None:
            margins.append(float(((a.abs() - t).abs() / t).min()))
        sparse = SoftThreshold.apply(a, t)
        z = k - sparse - dual / mu
        low = probabilities(z if q is None else q, z, scale, causal) @ v
        dual = dual + mu * (k - low - sparse)
    return low


class Case:
    """Inputs by name, and a function of them that gives the outputs; those named in `up` are part of the loss."""

    def __init__(self, attributes, inputs, function, up):
        self.attributes, self.inputs, self.function, self.up = attributes, inputs, function, up


def normal(g, *shape, std=1.0):
    return (torch.randn(shape, generator=g, dtype=f64) * std).float().double()


def attention(g, small, symmetric=False, causal=False):
    b, h, n, d = (1, 2, 11, 8) if small else (2, 3, 19, 16)
    scale = d**-0.5
    names = ["k", "v"] if symmetric else ["q", "k", "v"]

    def function(x):
        p = probabilities(x["k" if symmetric else "q"], x["k"], scale, causal)
        return {"x": p @ x["v"], "p": p}

    attributes = {"case": "attention", "scale": scale, "causal": int(causal), "symmetric": int(symmetric)}
    return Case(attributes, {name: normal(g, b, h, n, d, std=1.5) for name in names}, function, ["x"])


def scaled_attention(g, small, variant):
    b, h, n, d = (1, 2, 11, 8) if small else (2, 3, 17, 16)
    scale = d**-0.5
    names = ["k", "v"] if variant == "alpha_sym" else ["q", "k", "v"]
    inputs = {name: normal(g, b, h, n, d, std=1.5) for name in names}
    learned = "s" if variant == "S" else "alpha"
    inputs[learned] = normal(g, h, n, n, std=0.5) if variant == "S" else normal(g, 1)

    def function(x):
        k, v = x["k"], x["v"]
        a = probabilities(x.get("q", k), k, scale)
        inner = x["s"] if variant == "S" else x["alpha"] * (a if variant == "alpha_asym" else probabilities(k, k, scale))
        return {"x": a @ (v - inner @ v)}

    return Case({"case": "scaled_attention", "variant": variant, "scale": scale}, inputs, function, ["x"])


def rpc_attention(g, small, n, weight=3.0, causal=False, asymmetric=False):
    b, h, tokens, d = (1, 2, 14, 8) if small else (2, 4, 20, 12)
    scale = d**-0.5
    # Keys of which 30 % of the entries exceed the first threshold.
    std = math.sqrt(weight * h / (4 * 0.8 * 1.04))
    while True:  # until no entry is so close to a threshold that float32 rounding crosses it
        inputs = {"k": normal(g, b, h, tokens, d, std=std), "v": normal(g, b, h, tokens, d)}
        if asymmetric:
            inputs["q"] = normal(g, b, h, tokens, d, std=1.5)
        margins = []
        rpc(**inputs, n=n, weight=weight, scale=scale, causal=causal, margins=margins)
        if min(margins) > (2e-4 if n <= 4 else 1e-3):  # every iteration amplifies rounding errors
            break
    attributes = {"case": "rpc_attention", "n": n, "lambda": weight, "scale": scale, "causal": int(causal),
                  "mu": "from_k", "C": h * d}  # fmt: skip
    return Case(attributes, inputs, lambda x: {"x": rpc(**x, n=n, weight=weight, scale=scale, causal=causal)}, ["x"])


def svt(g, small):
    b, rows, cols = (2, 12, 9) if small else (4, 24, 16)
    a = normal(g, b, rows, cols)
    # A threshold between two singular values, since the gradient jumps at each of them.
    sigma = torch.linalg.svdvals(a).flatten().sort().values
    middle = len(sigma) // 2 + int((sigma[len(sigma) // 2 + 1 :] - sigma[len(sigma) // 2 : -1])[:3].argmax())
    tau = float(np.float32((sigma[middle] + sigma[middle + 1]) / 2))

    def function(x):
        u, s, vt = torch.linalg.svd(x["a"], full_matrices=False)
        return {"d": (u * (s - tau).clamp(min=0).unsqueeze(-2)) @ vt, "sigma": s.detach()}

    return Case({"case": "svt", "tau": tau}, {"a": a}, function, ["d"])


def norm(x, weight, bias):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight + bias


def vit_logits(x, p, o, margins=None):
    b = x.shape[0]
    patches = torch.nn.functional.conv2d(x, p["patch_embed.proj.weight"], p["patch_embed.proj.bias"], stride=o["patch"])
    x = torch.cat([p["cls_token"].expand(b, -1, -1), patches.flatten(2).transpose(1, 2)], 1) + p["pos_embed"]
    for i in range(o["depth"]):
        at = lambda name: (p[f"blocks.{i}.{name}.weight"], p[f"blocks.{i}.{name}.bias"])
        dense = lambda y, name: y @ at(name)[0].T + at(name)[1]
        parts = heads_first(dense(norm(x, *at("norm1")), "attn.qkv"), 3 if o["attention"] == "softmax" else 2, o["heads"])
        scale = (o["dim"] // o["heads"]) ** -0.5
        if o["attention"] == "rpc" and i == o["layer"]:
            mixed = rpc(parts[0], parts[1], o["n"], o["lambda"], scale, margins=margins)
        else:
            mixed = probabilities(parts[0], parts[-2], scale) @ parts[-1]
        x = x + dense(mixed.transpose(1, 2).flatten(2), "attn.proj")
        hidden = dense(norm(x, *at("norm2")), "mlp.fc1")
        x = x + dense(hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2))), "mlp.fc2")
    return norm(x[:, 0], p["norm.weight"], p["norm.bias"]) @ p["head.weight"].T + p["head.bias"]


def vit(g, small, kind):
    while True:  # as in rpc_attention; and until float32 takes the same steps: Adam divides gradients by themselves
        margins = [1.0]
        tensors, attributes, steps_off = drawn_vit(g, small, kind, margins)
        if min(margins) > 1e-4 and steps_off < 2e-6:
            return tensors, attributes


def drawn_vit(g, small, kind, margins):
    o = {"case": "vit", "image": 12 if small else 32, "patch": 4 if small else 8, "dim": 16 if small else 48,
         "depth": 2, "heads": 2 if small else 3, "classes": 5 if small else 10, "mlp_ratio": 2 if small else 4,
         "ln_eps": 1e-6, "attention": kind, "n": 4 if kind == "rpc" else 0, "lambda": 4.0 if kind == "rpc" else 0,
         "layer": 0, "label_smoothing": 0.1, "lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "adam_eps": 1e-8,
         "weight_decay": 0.05, "steps": 1 if small or kind == "rpc" else 3}  # fmt: skip
    dim, parts, hidden = o["dim"], 3 if kind == "softmax" else 2, o["dim"] * o["mlp_ratio"]
    shapes = {"cls_token": (1, 1, dim), "pos_embed": (1, (o["image"] // o["patch"]) ** 2 + 1, dim),
              "patch_embed.proj": (dim, 3, o["patch"], o["patch"]), "norm": (dim,), "head": (o["classes"], dim)}  # fmt: skip
    for i in range(o["depth"]):
        for name, shape in {"norm1": (dim,), "attn.qkv": (parts * dim, dim), "attn.proj": (dim, dim),
                            "norm2": (dim,), "mlp.fc1": (hidden, dim), "mlp.fc2": (dim, hidden)}.items():  # fmt: skip
            shapes[f"blocks.{i}.{name}"] = shape
    param = {}
    for name, shape in shapes.items():
        if len(shape) == 3:
            param[name] = normal(g, *shape, std=0.5)
        elif len(shape) == 1:
            param[name + ".weight"], param[name + ".bias"] = 1 + normal(g, *shape, std=0.2), normal(g, *shape, std=0.2)
            param[name + ".weight"] = param[name + ".weight"].float().double()
        else:
            fan_in = math.prod(shape[1:])
            param[name + ".weight"] = normal(g, *shape, std=(1.8 if "qkv" in name else 1) / math.sqrt(fan_in))
            param[name + ".bias"] = normal(g, shape[0], std=0.1)
    batch = 3 if small else 4
    x, y = normal(g, batch, 3, o["image"], o["image"]), torch.randint(o["classes"], (batch,), generator=g)

    def run(dtype):
        p = {name: t.to(dtype).clone().requires_grad_() for name, t in param.items()}
        moments = {name: [torch.zeros_like(t), torch.zeros_like(t)] for name, t in p.items()}
        out, losses = {}, []
        for step in range(o["steps"] + 1):
            logits = vit_logits(x.to(dtype), p, o, margins if dtype == f64 else None)
            loss = torch.nn.functional.cross_entropy(logits, y, label_smoothing=o["label_smoothing"])
            losses.append(loss.detach())
            if step == o["steps"]:
                break
            grads = dict(zip(p, torch.autograd.grad(loss, list(p.values()))))
            if step == 0:
                out.update({"out.logits": logits.detach(), "out.loss": loss.detach().reshape(1)})
                out.update({f"grad.{name}": t for name, t in grads.items()})
            with torch.no_grad():
                for name, t in p.items():
                    m, v = moments[name]
                    m.lerp_(grads[name], 1 - o["beta1"])
                    v.lerp_(grads[name].square(), 1 - o["beta2"])
                    t.mul_(1 - o["lr"] * o["weight_decay"])
                    mhat, vhat = m / (1 - o["beta1"] ** (step + 1)), v / (1 - o["beta2"] ** (step + 1))
                    t.sub_(o["lr"] * mhat / (vhat.sqrt() + o["adam_eps"]))
        out["out.losses"] = torch.stack(losses)
        out.update({f"after{o['steps']}.{name}": t.detach() for name, t in p.items()})
        return out

    tensors, narrow = run(f64), run(torch.float32)
    errors = {name: relative(t, tensors[name]) for name, t in narrow.items() if not name.startswith("after")}
    steps_off = max(float((narrow[name].double() - t).abs().quantile(0.999)) for name, t in tensors.items()
                    if name.startswith("after") and not (kind == "softmax" and name.endswith("qkv.bias")))  # fmt: skip
    tensors.update({"in.x": x, "in.y": y})
    tensors.update({f"param.{name}": t for name, t in param.items()})
    if kind == "softmax":  # the key bias has no gradient but rounding
        o["loose"] = [f"after{o['steps']}.blocks.{i}.attn.qkv.bias" for i in range(o["depth"])]
    return tensors, {**o, "f32_err": errors}, steps_off


def relative(got, want):
    return float((got.double() - want).abs().max() / want.abs().max().clamp(min=1e-300))


def evaluate(case, up, dtype):
    leaves = {name: t.to(dtype).clone().requires_grad_() for name, t in case.inputs.items()}
    outputs = case.function(leaves)
    loss = sum((outputs[name] * up[name].to(dtype)).sum() for name in case.up)
    grads = torch.autograd.grad(loss, list(leaves.values()))
    out = {f"out.{name}": t.detach() for name, t in outputs.items()}
    return {**out, **{f"grad.{name}": t for name, t in zip(leaves, grads)}}


def computed(g, case):
    up = {name: normal(g, *case.function(case.inputs)[name].shape) for name in case.up}
    tensors = evaluate(case, up, f64)
    errors = {name: relative(t, tensors[name]) for name, t in evaluate(case, up, torch.float32).items()}
    tensors.update({f"in.{name}": t for name, t in case.inputs.items()})
    tensors.update({f"up.{name}": t for name, t in up.items()})
    return tensors, {**case.attributes, "f32_err": errors}


CASES = {
    "attention_softmax": lambda g, small: computed(g, attention(g, small)),
    "attention_symmetric_causal": lambda g, small: computed(g, attention(g, small, True, True)),
    "scaled_attention_s": lambda g, small: computed(g, scaled_attention(g, small, "S")),
    "scaled_attention_alpha": lambda g, small: computed(g, scaled_attention(g, small, "alpha")),
    "scaled_attention_alpha_sym": lambda g, small: computed(g, scaled_attention(g, small, "alpha_sym")),
    "rpc_n2": lambda g, small: computed(g, rpc_attention(g, small, 2)),
    "rpc_n4": lambda g, small: computed(g, rpc_attention(g, small, 4)),
    "rpc_n6": lambda g, small: computed(g, rpc_attention(g, small, 6)),
    "rpc_causal_n4": lambda g, small: computed(g, rpc_attention(g, small, 4, causal=True)),
    "svt": lambda g, small: computed(g, svt(g, small)),
    "vit_softmax": lambda g, small: vit(g, small, "softmax"),
    "vit_rpc": lambda g, small: vit(g, small, "rpc"),
    "rpc_asymmetric_n3": lambda g, small: computed(g, rpc_attention(g, small, 3, asymmetric=True)),
    "rpc_asymmetric_causal_n2": lambda g, small: computed(g, rpc_attention(g, small, 2, causal=True, asymmetric=True)),
}
SEEDS_APART = 12  # of the generators of two draws of a case; part of what the kept files are


def write(path, tensors, attributes):
    """safetensors: the header's length, a JSON header, the data."""
    header = {"__metadata__": {k: v if isinstance(v, str) else json.dumps(v) for k, v in attributes.items()}}
    data = b""
    for name, t in sorted(tensors.items()):
        whole = not t.is_floating_point()
        bytes_ = np.ascontiguousarray(t.numpy().astype("<i4" if whole else "<f4")).tobytes()
        header[name] = {"dtype": "I32" if whole else "F32", "shape": list(t.shape),
                        "data_offsets": [len(data), len(data) + len(bytes_)]}  # fmt: skip
        data += bytes_
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--small", action="store_true", help="sizes that make files of a few KiB")
    o = parser.parse_args()
    o.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for number, name in enumerate(CASES):
        for seed in o.seeds if name in o.cases else []:
            g = torch.Generator().manual_seed(seed * SEEDS_APART + number)
            write(o.folder / f"{name}-{seed}.safetensors", *CASES[name](g, o.small))


if __name__ == "__main__":
    main()
