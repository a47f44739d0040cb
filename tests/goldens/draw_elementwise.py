#!/usr/bin/env python3
"""Writes golden files of elementwise operators and of those that pick, turn and add up along a dimension: random inputs
by a seed, and what PyTorch's own functions make of them in float64.

    tests/goldens/draw_elementwise.py FOLDER --seeds 0 1 2
    build/bin/goldens FOLDER

The files of tests/goldens/draws were made by

    tests/goldens/draw_elementwise.py tests/goldens/draws --seeds 0 1 2

Needs PyTorch and NumPy.
"""
import argparse
import pathlib

import torch
import torch.nn.functional as F

from draw import Case, computed, normal, write


def elementwise(g):
    inputs = {"a": normal(g, 3, 1, 7), "b": normal(g, 2, 7), "p": normal(g, 3, 5).abs().add(0.5).float().double()}
    function = lambda x: {
        "silu": F.silu(x["a"]), "sin": torch.sin(x["a"]), "cos": torch.cos(x["a"]),
        "maximum": torch.maximum(x["a"], x["b"]), "minimum": torch.minimum(x["a"], x["b"]),
        "pow": x["p"] ** 1.5, "pow_tensor": x["p"] ** x["p"].flip(0),
        "reciprocal": 2 / x["p"], "difference": 1.0 - x["a"],
    }
    return computed(g, Case({"case": "elementwise"}, inputs, function, list(function(inputs))))


def along(g):
    index = torch.randint(0, 6, (4, 9, 3), generator=g)
    condition = torch.randint(0, 2, (4, 6, 1), generator=g)
    inputs = {"x": normal(g, 4, 6, 3), "y": normal(g, 6, 3)}
    function = lambda x: {
        "gather": torch.gather(x["x"], 1, index), "flip": torch.flip(x["x"], (0, 2)),
        "cumsum": torch.cumsum(x["x"], 1), "where": torch.where(condition > 0, x["x"], x["y"]),
        "max": x["x"].max(1).values, "min": x["x"].min(-1, keepdim=True).values,
    }
    tensors, attributes = computed(g, Case({"case": "along"}, inputs, function, list(function(inputs))))
    return {**tensors, "in.index": index, "in.condition": condition}, attributes


def compared(g):
    quarters = lambda *shape: torch.randint(-8, 9, shape, generator=g).double() / 4  # some are equal, in every dtype
    inputs = {"a": quarters(3, 1, 7), "b": quarters(2, 7)}
    function = lambda x: {"lerp": torch.lerp(x["a"], x["b"], 0.3)}
    tensors, attributes = computed(g, Case({"case": "compared"}, inputs, function, ["lerp"]))
    a, b = inputs["a"], inputs["b"]
    wholes = {
        "eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "eq_number": a == 0.5, "ne_number": a != 0.5,
        "lt_number": a < 0.5, "le_number": a <= 0.5, "argmax": a.argmax(-1),
        "max_indices": a.max(0).indices, "min_indices": b.min(1).indices,
    }
    return {**tensors, **{f"out.{name}": t.int() for name, t in wholes.items()}}, attributes


CASES = {"elementwise": elementwise, "along": along, "compared": compared}
SEEDS_APART = 2  # of the generators of two draws of a case; part of what the kept files are


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    o = parser.parse_args()
    o.folder.mkdir(parents=True, exist_ok=True)
    for number, (name, case) in enumerate(CASES.items()):
        for seed in o.seeds:
            g = torch.Generator().manual_seed(seed * SEEDS_APART + number)
            write(o.folder / f"{name}-{seed}.safetensors", *case(g))


if __name__ == "__main__":
    main()
