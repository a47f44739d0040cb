#!/usr/bin/env python3
"""Writes golden files of whole convolutional networks: LeNet-5, and torchvision's ResNet-18 and -50 as they are or narrower. Weights,
pictures and labels by a seed; logits in evaluation; logits, loss and all gradients in training; parameters and running
statistics after one step of SGD. All in float64.

    tests/goldens/draw_picture_nets.py FOLDER --nets lenet resnet18 --width 64 --size 224 --batch 4
    build/bin/goldens FOLDER --verbose

The files of tests/goldens/draws were made by

    tests/goldens/draw_picture_nets.py tests/goldens/draws

Needs PyTorch, torchvision and NumPy.
"""
import argparse
import copy
import pathlib

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

from draw import f64, normal, relative, write

NETS = ["lenet", "resnet18", "resnet50"]
SGD = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-2}


class LeNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


def resnet(net, width, classes):
    """torchvision's resnet18 or resnet50; the widths are in its constructor alone, so narrower layers are put in."""
    block, blocks = {"resnet18": (BasicBlock, [2, 2, 2, 2]), "resnet50": (Bottleneck, [3, 4, 6, 3])}[net]
    model = ResNet(block, blocks, num_classes=classes)
    if width != 64:
        model.inplanes = width
        model.conv1, model.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        for i in range(4):
            setattr(model, f"layer{i + 1}", model._make_layer(block, width << i, blocks[i], stride=min(i, 1) + 1))
        model.fc = nn.Linear(8 * width * block.expansion, classes)
    return model


def results(model, x, y, dtype):
    model, x = copy.deepcopy(model).to(dtype), x.to(dtype)
    out = {}
    model.eval()
    with torch.no_grad():
        out["out.evaluated"] = model(x)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), **SGD)
    logits = model(x)
    loss = F.cross_entropy(logits, y)
    loss.backward()
    out |= {"out.logits": logits.detach(), "out.loss": loss.detach().reshape(1)}
    out |= {f"grad.{name}": p.grad.clone() for name, p in model.named_parameters()}
    optimizer.step()
    out |= {f"after.{name}": t.detach().clone() for name, t in model.state_dict().items() if t.is_floating_point()}
    return out


def drawn(model, attributes, g, shape, classes):
    for name, t in model.state_dict().items():
        if "running_mean" in name:
            t.copy_(normal(g, *t.shape, std=0.1))
        elif "running_var" in name or (t.ndim == 1 and name.endswith("weight")):
            t.copy_((1 + normal(g, *t.shape, std=0.1)).clamp(min=0.5))
        elif t.ndim == 1:
            t.copy_(normal(g, *t.shape, std=0.1))
        elif t.ndim > 1:
            t.copy_(normal(g, *t.shape, std=(2 / t[0].numel()) ** 0.5))
    x, y = normal(g, *shape), torch.randint(classes, (shape[0],), generator=g)
    model = model.double()
    state = {f"param.{name}": t.detach().clone() for name, t in model.state_dict().items()}
    tensors = results(model, x, y, f64)
    errors = {name: relative(t, tensors[name]) for name, t in results(model, x, y, torch.float32).items()}
    tensors |= state | {"in.x": x, "in.y": y}
    return tensors, attributes | {**SGD, "classes": classes, "f32_err": errors}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--nets", nargs="+", choices=NETS, default=NETS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--width", type=int, help="of a ResNet's first stage (default: 3 and 2; torchvision: 64)")
    parser.add_argument("--size", type=int, default=64, help="pixels of a ResNet's pictures")
    parser.add_argument("--batch", type=int, default=3)
    parser.add_argument("--classes", type=int, default=10)
    o = parser.parse_args()
    o.folder.mkdir(parents=True, exist_ok=True)
    for net in o.nets:
        g = torch.Generator().manual_seed(o.seed)
        width = o.width or {"resnet50": 2}.get(net, 3)
        attributes = {"case": net} | ({} if net == "lenet" else {"width": width})
        model = LeNet(o.classes) if net == "lenet" else resnet(net, width, o.classes)
        shape = (o.batch, 1, 28, 28) if net == "lenet" else (o.batch, 3, o.size, o.size)
        write(o.folder / f"{net}-{o.seed}.safetensors", *drawn(model, attributes, g, shape, o.classes))


if __name__ == "__main__":
    main()
