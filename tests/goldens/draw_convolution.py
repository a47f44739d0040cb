#!/usr/bin/env python3
"""Writes golden files of convolutions and pooling: random inputs by a seed, and what PyTorch's own functions make of them
in float64.

    tests/goldens/draw_convolution.py FOLDER --seeds 0 1 2
    build/bin/goldens FOLDER

Values and all gradients. Inputs of max pooling have many equal numbers, so that it matters which of them gets the gradient.
The files of tests/goldens/draws were made by

    tests/goldens/draw_convolution.py tests/goldens/draws --seeds 0

Needs PyTorch and NumPy.
"""
import argparse
import pathlib

import torch
import torch.nn.functional as F

from draw import Case, computed, normal, write


def both(value):
    return [value, value] if isinstance(value, int) else list(value)


def conv2d(g, x, weight, stride=1, padding=0, dilation=1, groups=1, bias=True):
    options = {"stride": both(stride), "padding": both(padding), "dilation": both(dilation), "groups": groups}
    inputs = {"x": normal(g, *x), "weight": normal(g, *weight, std=0.3)}
    if bias:
        inputs["bias"] = normal(g, weight[0])
    function = lambda t: {"y": F.conv2d(t["x"], t["weight"], t.get("bias"), **options)}
    return computed(g, Case({"case": "conv2d", **options}, inputs, function, ["y"]))


def max_pool2d(g, x, kernel, stride, padding=0, dilation=1):
    options = {"stride": both(stride), "padding": both(padding), "dilation": both(dilation)}
    # Multiples of a quarter stay apart or equal in every type.
    inputs = {"x": (normal(g, *x) * 4).round() / 4}
    function = lambda t: {"y": F.max_pool2d(t["x"], both(kernel), **options)}
    return computed(g, Case({"case": "max_pool2d", "kernel": both(kernel), **options}, inputs, function, ["y"]))


def avg_pool2d(g, x, kernel, stride, padding=0, count_include_pad=True):
    options = {"stride": both(stride), "padding": both(padding)}
    attributes = {"case": "avg_pool2d", "kernel": both(kernel), "count_include_pad": int(count_include_pad), **options}
    function = lambda t: {"y": F.avg_pool2d(t["x"], both(kernel), count_include_pad=count_include_pad, **options)}
    return computed(g, Case(attributes, {"x": normal(g, *x)}, function, ["y"]))


CASES = {
    "conv2d_3x3": lambda g: conv2d(g, (2, 5, 9, 7), (6, 5, 3, 3), padding=1),
    "conv2d_1x1": lambda g: conv2d(g, (2, 6, 5, 7), (9, 6, 1, 1)),
    "conv2d_1x1_stride": lambda g: conv2d(g, (2, 6, 8, 7), (5, 6, 1, 1), stride=2, bias=False),
    "conv2d_7x7_stride": lambda g: conv2d(g, (2, 3, 19, 22), (8, 3, 7, 7), stride=2, padding=3),
    "conv2d_pairs": lambda g: conv2d(g, (2, 4, 13, 18), (6, 4, 2, 3), (3, 2), (2, 1), (2, 3)),
    "conv2d_groups": lambda g: conv2d(g, (2, 6, 7, 8), (9, 2, 3, 3), stride=2, padding=1, groups=3),
    "conv2d_depthwise": lambda g: conv2d(g, (3, 5, 11, 20), (5, 1, 7, 7), padding=3, groups=5),
    "conv2d_depthwise_stride": lambda g: conv2d(g, (2, 4, 12, 9), (4, 1, 3, 3), 2, 2, 2, groups=4),
    "conv2d_large_kernel": lambda g: conv2d(g, (2, 3, 2, 3), (4, 3, 5, 7), padding=(2, 3)),
    "max_pool2d_3x3": lambda g: max_pool2d(g, (2, 3, 13, 10), 3, 2, 1),
    "max_pool2d_pairs": lambda g: max_pool2d(g, (2, 3, 11, 12), (3, 2), (1, 2), (1, 0), (2, 3)),
    "avg_pool2d_3x3": lambda g: avg_pool2d(g, (2, 3, 13, 10), 3, 2, 1),
    "avg_pool2d_within": lambda g: avg_pool2d(g, (2, 3, 11, 12), (3, 4), (1, 3), (1, 2), False),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    o = parser.parse_args()
    o.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for number, (name, case) in enumerate(CASES.items()):
        for seed in o.seeds:
            g = torch.Generator().manual_seed(seed * len(CASES) + number)
            write(o.folder / f"{name}-{seed}.safetensors", *case(g))


if __name__ == "__main__":
    main()
