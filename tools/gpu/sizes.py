"""How much each part does: on a GPU, and (--small) where seconds must do, as on the simulated one."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    operators: tuple      # names; none: all
    unit_tests: str       # doctest's filter of test cases
    curve: tuple          # settings of classify
    curve_steps: int
    runs: dict            # {app: (settings of train, settings of eval)}
    steps: int            # of a whole short run, even
    benchmarks: tuple     # (workload, type, batch, variables of the environment); batch 0: the workload's
    bench_seconds: float  # timed, of each
    timed: bool           # also the times of a step's parts and of the laboratory, which a simulated GPU refuses


FULL = Sizes(
    operators=(), unit_tests="*",
    curve=("--recipe", "nano-synthetic"), curve_steps=40,
    runs={"classify": (("--recipe", "nano-synthetic"), ("--corruptions", "all", "--limit", "200")),
          "lm": (("--recipe", "nano"), ("--limit", "20000")),
          "segment": (("--recipe", "nano"), ("--limit", "20"))},
    steps=100,
    benchmarks=(("deit-tiny-softmax", "bf16", 256), ("deit-tiny-softmax", "bf16", 32), ("deit-tiny-softmax", "f32", 256),
                ("deit-tiny-rpc", "bf16", 256), ("rpc-operator", "bf16", 1024), ("attention-softmax", "bf16", 1024),
                ("attention-1025", "bf16", 192), ("attention-causal-1024", "bf16", 192), ("layer-norm", "bf16", 1024),
                ("mlp", "bf16", 256), ("adamw", "f32", 0), ("adamw", "f32", 43_800_000), ("copy", "f32", 0),
                ("copy", "f32", 43_800_000), ("svt", "f32", 3072),
                ("lm-paper", "bf16", 32), ("lm-paper-rpc", "bf16", 32), ("lm-paper-267735", "bf16", 96),
                ("segment-tiny", "bf16", 32), ("segment-tiny-512", "bf16", 8), ("upsample-cross-entropy", "bf16", 8),
                ("attention-forward", "bf16", 1024), ("rpc-forward", "bf16", 1024), ("deit-tiny-rpc-all", "bf16", 256),
                ("conv-3x3-56", "bf16", 64), ("conv-depthwise-56", "bf16", 64),
                ("deit-tiny-forward", "bf16", 256), ("deit-tiny-int8", "f32", 256), ("lm-int8", "f32", 32),
                *(("deit-tiny-softmax", "bf16", batch, f"PURSUIT_MLP={form}") for batch in (256, 32)
                  for form in ("apart", "products"))),
    bench_seconds=1, timed=True)

TINY = ("--dim", "16", "--depth", "1", "--heads", "2", "--iterations", "2", "--batch-size", "4", "--warmup-epochs", "0.1")
PICTURES = ("--image-size", "16", "--patch", "8", "--mlp-ratio", "2", "--limit", "12", "--test-limit", "8",
            "--eval-batch-size", "8", *TINY)

SMALL = Sizes(
    operators=("argmax", "reshape"), unit_tests="graph*",
    curve=PICTURES, curve_steps=12,
    runs={"classify": (PICTURES, ("--limit", "4")),
          "lm": (("--context", "16", "--hidden", "32", "--rows", "blocks", "--eval-tokens", "64", "--eval-batch-size", "4",
                  *TINY), ("--limit", "64")),
          "segment": (("--height", "32", "--width", "32", "--patch", "16", "--mlp-ratio", "2", "--limit", "12",
                       "--test-limit", "1", *TINY), ("--limit", "1"))},
    steps=4,
    benchmarks=(("adamw", "f32", 1024), ("adamw", "f32", 1024, "PURSUIT_MLP=apart")),
    bench_seconds=0, timed=False)
