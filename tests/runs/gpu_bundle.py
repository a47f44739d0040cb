#!/usr/bin/env python3
"""tools/gpu-bundle and tools/gpu-check on the simulated GPU, as on a bare machine: gpu_bundle.py BUILD SOURCE

A bundle of the build's programs is unpacked elsewhere and run without environment, with no program on PATH but Python and a
stand-in for nvidia-smi. Several calls share the work; planted failures must be found and must not stop what follows.
"""
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import SimpleNamespace

NVIDIA_SMI = """#!/bin/sh
case $1 in
  -L) echo "GPU 0: Simulated" ;;
  *) echo "Simulated GPU, 1.2, 9.0" ;;
esac
"""
GOLDENS = ["along-0", "batch_norm_training-0", "svt-0"]
# What a machine without PyTorch, compute-sanitizer and ncu cannot run, and what it must say of it.
CANNOT = {"memcheck": "compute-sanitizer is not installed", "racecheck": "compute-sanitizer is not installed",
          "initcheck": "compute-sanitizer is not installed", "synccheck": "compute-sanitizer is not installed",
          "counters": "ncu is not installed", "peers": "torch", "compile-256": "torch", "compile-32": "torch",
          "compile-rpc": "torch", "compile-lm": "torch", "compile-seg": "torch", "compile-loss": "torch"}
PASS = ["goldens", "ops", "units", "curves", "bench", "graph", "runs", "nccl", "laboratory"]


def want(true, text):
    if not true:
        sys.exit(f"gpu_bundle: {text}")


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class Bare:
    """An empty machine: a folder, and a PATH that has Python, nvidia-smi and what a test adds."""

    def __init__(self, folder, bundle):
        self.folder, self.tools = folder, folder / "path"
        folder.mkdir()
        with tarfile.open(bundle) as tar:
            tar.extractall(folder / "elsewhere")
        self.bundle = folder / "elsewhere/pursuit-gpu"
        self.tools.mkdir()
        (self.tools / "python3").symlink_to(sys.executable)
        script(self.tools / "nvidia-smi", NVIDIA_SMI)

    def check(self, results, *words):
        """(exit status, parts, output) of a call that writes to the folder `results`."""
        keep = {k: v for k, v in os.environ.items() if k in ("ASAN_OPTIONS", "UBSAN_OPTIONS")}
        begin = time.monotonic()
        done = subprocess.run(["env", "-i", *(f"{k}={v}" for k, v in keep.items()), f"PATH={self.tools}",
                               self.bundle / "tools/gpu-check", "--small", "--jobs", "2", "--results", results, *words],
                              cwd=self.folder, capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
        print(f"$ gpu-check {' '.join(map(str, words))} ({time.monotonic() - begin:.0f} s)\n{output}", flush=True)
        files = sorted((self.folder / results).iterdir())
        want(len(files) <= 3, f"{len(files)} files of results")
        found = [f for f in files if f.suffix == ".json"]
        want(len(found) == 1, f"no JSON file of results in {results}")
        return done.returncode, json.loads(found[0].read_text())["parts"], output


def states(parts, names):
    return {name: parts[name]["state"] for name in names}


def complete_libraries(bundle):
    """All libraries of the programs come from the bundle, but for those of every Linux."""
    system = ("linux-vdso", "ld-linux", "/lib64/ld-linux", "libc.", "libm.", "libstdc++.", "libgcc_s.", "libdl.", "librt.",
              "libpthread.", "libresolv.")
    for program in sorted((bundle / "bin").iterdir()):
        env = {"LD_TRACE_LOADED_OBJECTS": "1", "LD_LIBRARY_PATH": str(bundle / "lib")}
        loaded = subprocess.run([program], env=env, capture_output=True, text=True, check=True).stdout
        other = [line.strip() for line in loaded.splitlines()
                 if str(bundle / "lib") not in line and not line.strip().startswith(system)]
        want(not other, f"{program.name} loads what the bundle lacks: {other}")


def calls(bare):
    """The second call does what the first left, in another folder of results; the third has nothing to do."""
    status, parts, _ = bare.check("first", "--for", "12", "goldens", "ops", "units")
    want(status == 3 and states(parts, ["goldens", "ops", "units"]) ==
         {"goldens": "passed", "ops": "passed", "units": "left"}, "a call of 12 s is to end before the unit tests")
    status, parts, output = bare.check("second", "--earlier", "first", "--for", "900")
    want("goldens:" not in output and "ops:" not in output, "the second call repeats what the first did")
    want(states(parts, PASS) == dict.fromkeys(PASS, "passed"), f"not passed: {states(parts, PASS)}")
    want(len(parts["goldens"]["items"]) == len(GOLDENS), "goldens are missing in the merged results")
    want(status == 3, f"parts that cannot run are to give exit status 3, not {status}")
    for name, why in CANNOT.items():
        want(parts[name]["state"] == "cannot" and why in parts[name]["what"], f"{name} is to say '{why}': {parts[name]}")
    status, _, output = bare.check("second", *PASS)
    want(status == 0 and not any(f"{name}: " in output for name in PASS), "parts that are done are to be skipped")


def compares(source):
    """Losses that are too far apart, not a number, or too few are found."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(source / "tools"))
    from gpu.correctness import apart
    from gpu.machine import Failed
    apart("same", [2.0, 1.0], [2.0, 1.0], 0)
    for got in ([2.0, 1.0001], [2.0, float("nan")], [2.0]):
        try:
            apart("planted", got, [2.0, 1.0], 5e-5)
        except Failed:
            continue
        want(False, f"losses {got} are to fail")


def budgets(source):
    """A part ends with its own seconds, not only with those of the call, and is left where it has done something."""
    loader = SourceFileLoader("gpu_check", str(source / "tools/gpu-check"))
    tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(tool)
    bench = next(p for p in tool.PARTS if p.name == "bench")
    names = [p.name for p in tool.PARTS]
    want(names.index("curves") < names.index("bench"), "the curves are to come before the benchmarks")

    def slow(machine, section):
        given.append(machine.until - time.monotonic())
        section["items"] = {"first": {"state": "passed"}} if does else {}
        raise tool.OutOfTime

    for does, state in ((True, "left"), (False, "failed")):
        given, section, machine = [], {"seconds": 0}, SimpleNamespace(until=0)
        tool.run_part(bench._replace(check=slow), machine, section, time.monotonic() + 480)
        want(bench.most - 1 < given[0] <= bench.most < 480, f"the benchmarks are to have {bench.most} s, not {given[0]}")
        want(section["state"] == state, f"a part that is out of time is to be {state}: {section}")


def planted_failures(bare):
    """A golden with another number, an operator that fails, one that hangs: the parts after them run."""
    golden = bare.bundle / "goldens" / f"{GOLDENS[1]}.safetensors"
    good = golden.read_bytes()
    golden.write_bytes(good[:-2] + bytes([good[-2] ^ 0x60]) + good[-1:])
    programs = bare.folder / "planted-programs"
    shutil.copytree(bare.bundle / "bin", programs, symlinks=True)
    (programs / "ops").unlink()
    script(programs / "ops", f"""#!/bin/sh
case "$1 $2 ${{CUDA_LAUNCH_BLOCKING:-}}" in
  "check argmax ") echo "cuda error 700"; exit 1 ;;
  "check reshape ") exec python3 -c "import time; print('begun', flush=True); time.sleep(600)" ;;
esac
exec {bare.bundle}/bin/ops "$@"
""")
    status, parts, _ = bare.check("planted", "--bin", programs, "--for", "10", "goldens", "ops")
    want(status == 1, f"failures are to give exit status 1, not {status}")
    want(parts["goldens"]["state"] == "failed" and parts["goldens"]["items"][GOLDENS[1]]["state"] == "failed" and
         parts["goldens"]["items"][GOLDENS[0]]["state"] == "passed", f"goldens: {parts['goldens']}")
    want(parts["ops"]["state"] == "left", f"an operator that hangs is to be left: {parts['ops']}")
    what = parts["ops"]["items"]["argmax"]["what"]
    want("cuda error 700" in what and "with launches blocking it passes" in what, f"argmax: {what}")
    log = next((bare.folder / "planted").glob("*.log")).read_text()
    want("begun\n[stopped]" in log, "the output of a program that was stopped is to be in the log")
    golden.write_bytes(good)


def planted_tools(bare):
    """compute-sanitizer that is refused, blind, and finds something; ncu that is refused, and that counts."""
    def sanitizer(canary):
        script(bare.tools / "compute-sanitizer", f"""#!/bin/sh
[ "$6 $5" = "kernel_substring=pursuit --kernel-name" ] || exit 1
case $7 in */canary) {canary} ;; esac
[ "$2" = racecheck ] && echo "========= Error: Race reported" && exit 86
shift 6
exec "$@"
""")
    for canary, why in (("echo '========= Error: Device not supported'; exit 1", "Device not supported"),
                        ("exit 0", "does not find what the program canary does")):
        sanitizer(canary)
        status, parts, _ = bare.check("tools", "memcheck")
        want(status == 3 and parts["memcheck"]["state"] == "cannot" and why in parts["memcheck"]["what"], f"memcheck: {parts}")
    sanitizer("exit 86")
    script(bare.tools / "ncu", """#!/bin/sh
[ "$2" = "regex:attention_kernel" ] && echo "==ERROR== ERR_NVGPUCTRPERM" && exit 1
echo "==PROF== Connected"
echo '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"'
echo '"0","k","GPU Speed Of Light Throughput","Duration","us","1,234.5"'
""")
    status, parts, _ = bare.check("tools", "memcheck", "racecheck", "counters")
    want(status == 1, f"a race is to give exit status 1, not {status}")
    want(states(parts, ["memcheck", "racecheck", "counters"]) ==
         {"memcheck": "passed", "racecheck": "failed", "counters": "cannot"}, "tools")
    want("Race reported" in parts["racecheck"]["what"], f"racecheck: {parts['racecheck']}")
    items = parts["counters"]["items"]
    want("ERR_NVGPUCTRPERM" in items["attention"]["what"], f"ncu without permission: {items['attention']}")
    want(items["RPC-Attention"]["figures"] == {"Duration": "1,234.5 us"}, f"ncu's figures: {items['RPC-Attention']}")


def main(build, source):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        goldens = folder / "goldens"
        goldens.mkdir()
        for golden in GOLDENS:
            shutil.copy(source / "tests/goldens/draws" / f"{golden}.safetensors", goldens)
        bundle = [sys.executable, source / "tools/gpu-bundle", folder, "--build", build, "--goldens", goldens]
        begin = time.monotonic()
        # Under sanitizers the programs are larger than those for a GPU.
        subprocess.run([*bundle, "--compression", "0", "--most", "1000"], check=True)
        print(f"packed in {time.monotonic() - begin:.0f} s", flush=True)
        shutil.rmtree(folder / "pursuit-gpu")
        bare = Bare(folder / "machine", folder / "pursuit-gpu.tar.xz")
        complete_libraries(bare.bundle)
        compares(source)
        budgets(source)
        calls(bare)
        planted_failures(bare)
        planted_tools(bare)
    print("gpu-bundle and gpu-check do on a bare machine what they say")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
