#!/usr/bin/env python3
"""Computes the scores of `segment eval` anew, from the predictions it wrote and the data set's own label maps.

    build/bin/segment eval --checkpoint RUN --data camvid --save-predictions DIR --json > scores.json
    tools/segment_check.py --scores scores.json --predictions DIR --labels camvid/testannot --ignore 11

Pixel accuracy, mean accuracy, mIoU and the numbers of each class must agree to 1e-9. Labels are index PNGs; --shift is
added to their numbers (-1 for ADE20K, whose 0, then -1, is ignored: --shift -1 --ignore -1).
Needs NumPy and Pillow. Exit code 0: all agree; 1: something differs; 2: something is missing.
"""
import argparse
import json
import pathlib
import sys

try:
    import numpy as np
    from PIL import Image
except ImportError as error:
    print(f"segment_check: {error}; install with: pip install numpy pillow", file=sys.stderr)
    sys.exit(2)


def confusion_of(predictions, labels, classes, shift, ignore):
    """Counts [label, prediction] over all pictures."""
    counts = np.zeros((classes, classes), np.int64)
    for path in predictions:
        predicted = np.asarray(Image.open(path)).astype(np.int64)
        label = np.asarray(Image.open(labels / path.name)).astype(np.int64) + shift
        if predicted.shape != label.shape:
            raise ValueError(f"{path.name}: {predicted.shape} predicted, {label.shape} labelled")
        counted = (label != ignore) & (label != 255)
        np.add.at(counts, (label[counted], predicted[counted]), 1)
    return counts


def ratio(part, whole):
    """part / whole, -1 where whole is 0."""
    return np.where(whole > 0, part / np.maximum(whole, 1), -1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scores", type=pathlib.Path, required=True, help="what `segment eval --json` printed")
    parser.add_argument("--predictions", type=pathlib.Path, required=True)
    parser.add_argument("--labels", type=pathlib.Path, required=True)
    parser.add_argument("--shift", type=int, default=0)
    parser.add_argument("--ignore", type=int, default=255)
    options = parser.parse_args()

    try:
        told = json.loads(options.scores.read_text())
        predictions = sorted(options.predictions.glob("*.png"))
        if not predictions or len(predictions) != told["count"]:
            raise ValueError(f"{len(predictions)} predictions in {options.predictions}, {told['count']} were scored")
        counts = confusion_of(predictions, options.labels, len(told["classes"]), options.shift, options.ignore)
    except (OSError, ValueError, IndexError) as error:
        print(f"segment_check: {error}", file=sys.stderr)
        sys.exit(2)

    right, labelled, predicted = np.diag(counts), counts.sum(1), counts.sum(0)
    iou, accuracy = ratio(right, labelled + predicted - right), ratio(right, labelled)
    pairs = [("pixel accuracy", told["scores"]["pixel_accuracy"], right.sum() / counts.sum()),
             ("mean accuracy", told["scores"]["mean_accuracy"], accuracy[accuracy >= 0].mean()),
             ("mIoU", told["scores"]["mean_iou"], iou[iou >= 0].mean())]
    for c, entry in enumerate(told["classes"]):
        pairs += [(f"IoU of {entry['name']}", entry["iou"], iou[c]),
                  (f"accuracy of {entry['name']}", entry["accuracy"], accuracy[c]),
                  (f"pixels of {entry['name']}", entry["pixels"], labelled[c])]
    wrong = [p for p in pairs if not abs(p[1] - p[2]) <= 1e-9]
    for name, ours, theirs in pairs[:3] + wrong:
        print(f"{name:24s} {ours:.12f} here {theirs:.12f}: {'equal' if abs(ours - theirs) <= 1e-9 else 'DIFFERENT'}")
    print(f"verdict: {len(wrong)} of {len(pairs)} numbers differ over {len(predictions)} pictures, "
          f"{counts.sum()} pixels")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
