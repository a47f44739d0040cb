#!/usr/bin/env python3
"""Statistics of ImageNet-C's corruptions, from the original program.

tests/corruptions/imagenet_c.json holds what this script wrote; our corruptions are tested against it.

    apt-get install libmagickwand-6.q16-6
    python3 -m venv VENV
    VENV/bin/pip install "numpy<2" "scipy==1.11.*" "scikit-image==0.22.*" "opencv-python-headless==4.9.*" "Pillow<11" wand
    git clone https://github.com/hendrycks/robustness          # commit 8190fe3 was used
    build/bin/corruptions draw PICTURES
    VENV/bin/python tools/corruption_statistics.py robustness/ImageNet-C/create_c PICTURES > tests/corruptions/imagenet_c.json
"""
import argparse
import glob
import json
import multiprocessing
import os
import sys

import numpy as np
from PIL import Image

NAMES = ["gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur",
         "snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression"]
FIXED = {"defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression"}  # draw nothing
SEEDS = {"motion_blur": 200, "frost": 200, "fog": 200}  # differ much from draw to draw; the others take 20
# Names that the libraries have changed since 2018.
RENAMED = [("scipy.ndimage.interpolation", "scipy.ndimage"), ("multichannel=True", "channel_axis=-1"),
           ("np.float_", "np.float64"), ("np.fromstring", "np.frombuffer")]
os.environ.setdefault("OMP_NUM_THREADS", "1")  # ImageMagick's threads would wait for each other's


def corruptions(folder):
    """The functions of make_imagenet_c.py, without its data set and its main program."""
    source = open(os.path.join(folder, "make_imagenet_c.py")).read()
    source = source[source.index("# /////////////// Distortion Helpers"):source.index("# /////////////// Further Setup")]
    for old, new in RENAMED:
        source = source.replace(old, new)
    os.chdir(folder)  # where it looks for the frost overlays
    scope = {"np": np}
    exec(compile(source, "make_imagenet_c.py", "exec"), scope)
    return {name: scope[name] for name in NAMES}


def statistics(corrupted, picture):
    v, before = corrupted.astype(np.float64), picture.astype(np.float64)
    inner = v[1:-1, 1:-1]
    laplacian = 4 * inner - v[:-2, 1:-1] - v[2:, 1:-1] - v[1:-1, :-2] - v[1:-1, 2:]
    return [v.mean(), v.std(), np.abs(laplacian).mean(), 10 * np.log10(255 ** 2 / ((v - before) ** 2).mean())]


def measure(task):
    folder, files, name, severity = task
    corrupt = corruptions(folder)[name]
    found = []
    for number, file in enumerate(files):
        picture = Image.open(file).convert("RGB")
        for seed in range(1 if name in FIXED else SEEDS.get(name, 20)):
            np.random.seed(1000 * number + seed)
            corrupted = np.uint8(corrupt(picture, severity))  # as the original saves them, but for JPEG
            found.append(statistics(corrupted, np.array(picture)))
    print(name, severity, np.round(np.mean(found, 0), 2), "+-",
          np.round(np.std(found, 0) / len(found) ** 0.5 / np.mean(found, 0) * 100, 2), "%", file=sys.stderr)
    return [float(f"{x:.6g}") for x in np.mean(found, 0)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("original", help="folder with make_imagenet_c.py and the frost overlays")
    parser.add_argument("pictures", help="folder with pictures of 224 x 224 pixels")
    args = parser.parse_args()
    files = sorted(glob.glob(os.path.abspath(args.pictures) + "/*.png"))
    folder = os.path.abspath(args.original)
    tasks = [(folder, files, name, severity) for name in NAMES for severity in range(1, 6)]
    with multiprocessing.Pool() as pool:
        results = pool.map(measure, tasks, chunksize=1)
    rows = {name: results[5 * i:5 * i + 5] for i, name in enumerate(NAMES)}
    print('{"of": "ImageNet-C/create_c/make_imagenet_c.py, four scenes, severities 1 to 5, mean over all draws",')
    print(' "columns": ["mean", "deviation", "laplacian", "psnr"],\n "statistics": {')
    print(",\n".join(f'  "{name}": {json.dumps(rows[name])}' for name in NAMES))
    print("}}")


if __name__ == "__main__":
    main()
