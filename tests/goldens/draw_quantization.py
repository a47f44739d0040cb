#!/usr/bin/env python3
"""Writes golden files of quantised models (nn/quantization): what quantisers and whole models give by the formulas of
Bondarenko, Nagel & Blankevoort (2023), written down once more in NumPy.

    tests/goldens/draw_quantization.py tests/goldens/quantization
    build/bin/unit_tests -tc="quantization*"

A model file has random weights, the batches of the calibration and one to evaluate; then the step and zero point of
every activation and what the quantised model gives. Needs NumPy and SciPy.
"""
import argparse
import json
import pathlib
import struct

import numpy as np
from scipy.special import erf

F = np.float32
DEPTH, DIM, HEADS, HIDDEN, BITS = 2, 16, 2, 24, 8
IMAGE, PATCH, CHANNELS, CLASSES = 8, 4, 3, 5
VOCAB, CONTEXT = 19, 7


def grid_of(low, high, bits):
    low, high, levels = min(low, 0.0), max(high, 1e-8), 2**bits - 1
    step = F(max((high - low) / levels, 1e-8))
    return step, int(np.clip(np.rint(-low / np.float64(step)), 0, levels)), levels


def on_grid(x, grid):
    step, zero, levels = grid
    return step * (np.clip(np.rint(x / step) + zero, 0, levels) - zero).astype(F)


def symmetric(w, bits, how, gains=False):
    """Codes and scale of one tensor."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if gains and (w >= 0).all():
        low, high = 0, 2**bits - 1
    largest = np.float64(np.abs(w).max())
    ranges = [largest] if how == "minmax" else [k * (largest + 0.5) / 100 for k in range(1, 101)]
    best = None
    for r in ranges:
        scale = F(max(r, 1e-8) / high)
        codes = np.clip(np.rint(w / scale), low, high)
        error = ((np.float64(scale) * codes - w) ** 2).sum()
        if best is None or error < best[0]:
            best = error, codes, scale
    return best[1], best[2]


def by_rows(w, bits, how, granularity):
    if granularity == "tensor":
        codes, scale = symmetric(w, bits, how)
        return codes.astype(np.int8), np.full(len(w), scale, F)
    rows = [symmetric(row, bits, how) for row in w]
    return np.stack([c for c, _ in rows]).astype(np.int8), np.array([s for _, s in rows], F)


class Model:
    """A quantised model in simulation. sites: name of an activation to its grid; calibrating, every activation enters
    its running range first."""

    def __init__(self, weights, granularity):
        self.ranges, self.sites, self.calibrating = {}, {}, False
        self.w = {}
        for name, w in weights.items():
            if name.endswith("norm1.weight") or name.endswith("norm2.weight") or name in (
                    "norm.weight", "pos_embed", "cls_token"):
                codes, scale = symmetric(w, BITS, "minmax", gains=True)
                self.w[name] = scale * codes.astype(F)
            elif w.ndim >= 2 and not name.endswith("gate.weight"):
                codes, scale = by_rows(w.reshape(len(w), -1), BITS, "minmax", granularity)
                self.w[name] = (scale[:, None] * codes.astype(F)).reshape(w.shape)
            else:
                self.w[name] = w

    def at(self, site, x):
        if self.calibrating:
            low, high = float(x.min()), float(x.max())
            if site in self.ranges:
                a, b = self.ranges[site]
                low, high = 0.9 * a + 0.1 * low, 0.9 * b + 0.1 * high
            self.ranges[site] = low, high
            self.sites[site] = grid_of(low, high, BITS)
        return on_grid(x.astype(F), self.sites[site])

    def linear(self, name, x):
        y = x @ self.w[name + ".weight"].reshape(len(self.w[name + ".weight"]), -1).T
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def norm(self, name, x, eps):
        mean = x.mean(-1, keepdims=True, dtype=np.float64)
        var = ((x - mean) ** 2).mean(-1, keepdims=True, dtype=np.float64)
        y = ((x - mean) / np.sqrt(var + eps)).astype(F) * self.w[name + ".weight"] + self.w[name + ".bias"]
        return self.at(name + ".output", y)

    def attention(self, name, x, kind, causal):
        b, n, d = x.shape
        q, k, v = self.linear(name + ".qkv", x).reshape(b, n, 3, HEADS, d // HEADS).transpose(2, 0, 3, 1, 4)
        q, k, v = self.at(name + ".queries", q), self.at(name + ".keys", k), self.at(name + ".values", v)
        scores = self.at(name + ".scores", (q @ k.swapaxes(-1, -2)) * F(1 / np.sqrt(d // HEADS)))
        if causal:
            scores = np.where(np.tril(np.ones((n, n))) > 0, scores, -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        if kind == "clipped":
            p = np.clip(F(1.06) * p - F(0.03), 0, 1)
        out = (self.at(name + ".probabilities", p) @ v).transpose(0, 2, 1, 3)  # [b, n, heads, d]
        if kind == "gated":
            logit = (x.reshape(b, n, HEADS, -1) * self.w[name + ".gate.weight"]).sum(-1) + self.w[name + ".gate.bias"]
            out = out / (1 + np.exp(-logit))[..., None]
        context = self.at(name + ".context", out.reshape(b, n, d))
        return self.at(name + ".output", self.linear(name + ".proj", context))

    def mlp(self, name, x, act):
        hidden = self.at(name + ".hidden", act(self.linear(name + ".fc1", x)).astype(F))
        return self.at(name + ".output", self.linear(name + ".fc2", hidden))

    def vit(self, images):
        b, side = len(images), IMAGE // PATCH
        x = self.at("patch_embed.proj.input", images)
        x = x.reshape(b, CHANNELS, side, PATCH, side, PATCH).transpose(0, 2, 4, 1, 3, 5).reshape(b, side * side, -1)
        x = self.at("patch_embed.proj.output", self.linear("patch_embed.proj", x))
        x = np.concatenate([np.broadcast_to(self.w["cls_token"], (b, 1, DIM)), x], 1) + self.w["pos_embed"]
        x = self.at("embedding", x)
        gelu = lambda h: h * (0.5 * (1 + erf(h.astype(np.float64) / np.sqrt(2))))
        for i in range(DEPTH):
            block = f"blocks.{i}."
            h = self.norm(block + "norm1", x, 1e-6)
            x = self.at(block + "attn_sum", x + self.attention(block + "attn", h, "clipped", False))
            h = self.norm(block + "norm2", x, 1e-6)
            x = self.at(block + "mlp_sum", x + self.mlp(block + "mlp", h, gelu))
        return self.linear("head", self.norm("norm", x[:, 0], 1e-6))

    def lm(self, ids):
        x = self.w["embed.weight"][ids] + self.w["pos_embed"][: ids.shape[1]]
        x = self.at("embedding", x)
        relu = lambda h: np.maximum(h, 0)
        for i in range(DEPTH):  # the norms after the sums
            block = f"blocks.{i}."
            x = self.at(block + "attn_sum", x + self.attention(block + "attn", x, "gated", True))
            x = self.norm(block + "norm1", x, 1e-5)
            x = self.at(block + "mlp_sum", x + self.mlp(block + "mlp", x, relu))
            x = self.norm(block + "norm2", x, 1e-5)
        logits = x @ self.w["embed.weight"].T
        top = logits.max(-1, keepdims=True)
        return logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))


def block_shapes(gated):
    shapes = {}
    for i in range(DEPTH):
        b = f"blocks.{i}."
        if gated:
            shapes |= {b + "attn.gate.weight": (HEADS, DIM // HEADS), b + "attn.gate.bias": (HEADS,)}
        shapes |= {b + "attn.qkv.weight": (3 * DIM, DIM), b + "attn.qkv.bias": (3 * DIM,),
                   b + "attn.proj.weight": (DIM, DIM), b + "attn.proj.bias": (DIM,),
                   b + "mlp.fc1.weight": (HIDDEN, DIM), b + "mlp.fc1.bias": (HIDDEN,),
                   b + "mlp.fc2.weight": (DIM, HIDDEN), b + "mlp.fc2.bias": (DIM,)}
        for n in ("norm1", "norm2"):
            shapes |= {b + n + ".weight": (DIM,), b + n + ".bias": (DIM,)}
    return shapes


VIT = {"cls_token": (1, 1, DIM), "pos_embed": (1, 1 + (IMAGE // PATCH) ** 2, DIM),
       "patch_embed.proj.weight": (DIM, CHANNELS, PATCH, PATCH), "patch_embed.proj.bias": (DIM,),
       "norm.weight": (DIM,), "norm.bias": (DIM,), "head.weight": (CLASSES, DIM), "head.bias": (CLASSES,)}
LM = {"embed.weight": (VOCAB, DIM), "pos_embed": (CONTEXT, DIM)}


def model_file(which, granularity, seed):
    draw = np.random.default_rng(seed)
    shapes = VIT | block_shapes(False) if which == "vit" else LM | block_shapes(True)
    weights = {}
    for name, shape in shapes.items():
        spread = 0.2 if "bias" in name else 1 / np.sqrt(DIM) if len(shape) > 1 and "embed" not in name else 0.5
        is_gain = "norm" in name and name.endswith("weight")
        weights[name] = (is_gain + draw.normal(0, 0.1 if is_gain else spread, shape)).astype(F)
    if which == "vit":
        batches = [draw.normal(0, 1, (4, CHANNELS, IMAGE, IMAGE)).astype(F) for _ in range(4)]
    else:
        batches = [draw.integers(0, VOCAB, (4, CONTEXT)) for _ in range(4)]
    model = Model(weights, granularity)
    forward = model.vit if which == "vit" else model.lm
    model.calibrating = True
    for x in batches[:3]:
        forward(x)
    model.calibrating = False
    out = {"param." + n: w for n, w in weights.items()}
    out |= {f"in.{i}": x for i, x in enumerate(batches)}
    out |= {"grid." + n: np.array(g[:2], F) for n, g in model.sites.items()}
    out["out"] = forward(batches[3]).astype(F)
    return out, {"model": which, "granularity": granularity}


def quantiser_file(seed):
    draw = np.random.default_rng(seed)
    w = draw.normal(0, 1, (7, 33)).astype(F)
    gains = draw.uniform(0.3, 2, 48).astype(F)
    out = {"w": w, "gains": gains}
    for bits in (8, 4):
        for how in ("minmax", "mse"):
            for granularity in ("tensor", "channel"):
                out[f"codes.{bits}.{how}.{granularity}"], out[f"scale.{bits}.{how}.{granularity}"] = by_rows(
                    w, bits, how, granularity)
    codes, scale = symmetric(gains, 8, "minmax", gains=True)
    out["rounded"] = scale * codes.astype(F)
    running = {"running": None, "percentile": None}
    for i in range(5):
        x = (draw.standard_t(4, (40, 25)) * (1 + i) + i).astype(F)
        out[f"x.{i}"] = x
        found = {"running": (float(x.min()), float(x.max())),
                 "percentile": tuple(np.percentile(x.astype(np.float64), [1, 99]))}
        for how, (low, high) in found.items():
            if running[how]:
                low, high = 0.9 * running[how][0] + 0.1 * low, 0.9 * running[how][1] + 0.1 * high
            running[how] = low, high
    for how, (low, high) in running.items():
        out["range." + how] = np.array([low, high])
        out["grid." + how] = np.array(grid_of(low, high, 8)[:2], F)
        out["y." + how] = on_grid(out["x.4"], grid_of(low, high, 8))
    # The least squared error of 4 bits on x.4, over all pairs of ends on a fine raster.
    x, best = out["x.4"].astype(np.float64), np.inf
    for low in np.linspace(x.min(), 0, 60):
        for high in np.linspace(x.max() / 60, x.max(), 60):
            best = min(best, ((on_grid(out["x.4"], grid_of(low, high, 4)).astype(np.float64) - x) ** 2).sum())
    out["least_error"] = np.array([best])
    return out, {}


def save(path, tensors, words):
    types = {"f4": "F32", "f8": "F64", "i1": "I8", "i8": "I64"}
    order = sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0]))
    header, at = {"__metadata__": words} if words else {}, 0
    for name, x in order:
        header[name] = {"dtype": types[x.dtype.str[1:]], "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(np.ascontiguousarray(x).tobytes() for _, x in order))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    save(folder / "quantisers.safetensors", *quantiser_file(1))
    for which in ("vit", "lm"):
        for granularity in ("tensor", "channel"):
            save(folder / f"{which}_{granularity}.safetensors", *model_file(which, granularity, 5))


if __name__ == "__main__":
    main()
