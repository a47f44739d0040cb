#!/usr/bin/env python3
"""What `bench loader` times, in PyTorch: a JSON object a line. Needs torch, torchvision, and timm with Pillow < 12."""
import argparse
import json
import sys
import time
from pathlib import Path

import PIL
import torch
from PIL import Image
from timm.data.auto_augment import rand_augment_transform
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T

from bench_common import at_least


class Repeated(Dataset):
    """The items again and again, each made by `make`."""

    def __init__(self, items, make, size):
        self.items, self.make, self.size = items, make, size

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        return self.make(self.items[i % len(self.items)])


def rate(items, make, options):
    loader = DataLoader(Repeated(items, make, 1 << 30), batch_size=64, num_workers=options.threads)
    batches = iter(loader)
    for _ in range(2 * options.threads):  # the workers have started
        next(batches)
    start, pictures = time.perf_counter(), 0
    while time.perf_counter() - start < options.seconds:
        pictures += len(next(batches))
    return pictures / (time.perf_counter() - start)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--data", type=Path, required=True)
    p.add_argument("--threads", type=at_least(1), default=2, help="workers")
    p.add_argument("--seconds", type=at_least(0.01, float), default=2)
    p.add_argument("--size", type=at_least(1), default=224)
    options = p.parse_args()
    if int(PIL.__version__.split(".")[0]) >= 12:
        sys.exit(f"loader_twin: got Pillow {PIL.__version__}, need one below 12: timm asks posterize for 0 bits")
    torch.set_num_threads(1)
    files = sorted(f for f in (options.data / "val").rglob("*") if f.suffix.lower() in (".jpg", ".jpeg"))[:512]
    if not files:
        sys.exit(f"loader_twin: no val/<class>/*.JPEG in {options.data}")
    size = options.size
    crop = T.Compose([T.RandomResizedCrop(size, interpolation=T.InterpolationMode.BICUBIC), T.RandomHorizontalFlip(),
                      T.PILToTensor()])
    view = T.Compose([T.Resize(size * 256 // 224, interpolation=T.InterpolationMode.BICUBIC), T.CenterCrop(size)])
    views = [view(Image.open(f).convert("RGB")) for f in files]
    timm = rand_augment_transform("rand-m9-mstd0.5-inc1", {
        "translate_const": int(size * 0.45), "img_mean": (124, 116, 104), "interpolation": Image.BICUBIC})
    torchvision = T.RandAugment(2, 9, interpolation=T.InterpolationMode.BICUBIC)

    def load(f):
        return crop(Image.open(f).convert("RGB"))

    def augment(change):
        # One number per picture: what is timed is the augmentation, not the copy to the other process.
        return lambda picture: change(picture).getpixel((0, 0))[0]

    for stage, what, items, make in (("loader", "DataLoader", files, load),
                                     ("augment", "RandAugment timm", views, augment(timm)),
                                     ("augment", "RandAugment torchvision", views, augment(torchvision))):
        print(json.dumps({"stage": stage, "what": what, "threads": options.threads,
                          "pictures_per_s": rate(items, make, options)}), flush=True)


if __name__ == "__main__":
    main()
