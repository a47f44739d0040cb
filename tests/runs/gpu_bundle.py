#!/usr/bin/env python3
"""tools/gpu-bundle and tools/gpu-check on the simulated GPU, as on a bare machine: gpu_bundle.py BUILD SOURCE

A bundle of the build's programs is unpacked elsewhere and run without environment, with no program on PATH but Python and a
stand-in for nvidia-smi. Several calls share the work; planted failures must be found and must not stop what follows.
"""
import contextlib
import importlib.util
import io
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
from unittest import mock

NVIDIA_SMI = """#!/bin/sh
case $1 in
  -L) echo "GPU 0: Simulated" ;;
  *) echo "Simulated GPU, 1.2, {}" ;;
esac
"""
ARCHITECTURES = ["80-real", "90a-real"]  # of which a simulated build has none
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
        self.folder, self.tools, self.scratch = folder, folder / "path", folder / "tmp"
        folder.mkdir()
        with tarfile.open(bundle) as tar:
            tar.extractall(folder / "elsewhere")
        self.bundle = folder / "elsewhere/pursuit-gpu"
        self.tools.mkdir()
        self.scratch.mkdir()
        (self.tools / "python3").symlink_to(sys.executable)
        script(self.tools / "nvidia-smi", NVIDIA_SMI.format("9.0"))

    def start(self, results, *words):
        """A call that writes to the folder `results`."""
        keep = {k: v for k, v in os.environ.items() if k in ("ASAN_OPTIONS", "UBSAN_OPTIONS")}
        variables = keep | {"PATH": self.tools, "TMPDIR": self.scratch}
        command = [self.bundle / "tools/gpu-check", "--small", "--jobs", "2", "--results", results, *words]
        return subprocess.Popen(["env", "-i", *(f"{k}={v}" for k, v in variables.items()), *command], cwd=self.folder,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def call(self, results, *words):
        """(exit status, output) of a call."""
        begin = time.monotonic()
        with self.start(results, *words) as process:
            output = process.communicate()[0]
        print(f"$ gpu-check {' '.join(map(str, words))} ({time.monotonic() - begin:.0f} s)\n{output}", flush=True)
        self.has_no_scratch()
        return process.returncode, output

    def has_no_scratch(self):
        want(not any(self.scratch.glob("gpu-check-*")), "the scratch folder is to be removed")

    def check(self, results, *words):
        """(exit status, parts, output) of a call that has results."""
        status, output = self.call(results, *words)
        files = sorted((self.folder / results).iterdir())
        want(len(files) <= 3, f"{len(files)} files of results")
        found = [f for f in files if f.suffix == ".json"]
        want(len(found) == 1, f"no JSON file of results in {results}")
        return status, json.loads(found[0].read_text())["parts"], output


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
    bare.check("first", "--for", "300", "goldens", "ops")
    status, parts, _ = bare.check("first", "--for", "1", "units")
    want(status == 3 and states(parts, ["goldens", "ops", "units"]) ==
         {"goldens": "passed", "ops": "passed", "units": "left"}, "a call of a second is to end before the unit tests")
    status, parts, output = bare.check("second", "--earlier", "first", "--for", "900")
    want("goldens:" not in output and "ops:" not in output, "the second call repeats what the first did")
    want(states(parts, PASS) == dict.fromkeys(PASS, "passed"), f"not passed: {states(parts, PASS)}")
    want(len(parts["goldens"]["items"]) == len(GOLDENS), "goldens are missing in the merged results")
    want(status == 3, f"parts that cannot run are to give exit status 3, not {status}")
    for name, why in CANNOT.items():
        want(parts[name]["state"] == "cannot" and why in parts[name]["what"], f"{name} is to say '{why}': {parts[name]}")
    status, _, output = bare.check("second", *PASS)
    want(status == 0 and not any(f"{name}: " in output for name in PASS), "parts that are done are to be skipped")


def unusable(bare):
    """A GPU that the programs have no code for, or that none runs on: one line, and nothing is stored."""
    manifest = bare.bundle / "MANIFEST.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"architectures": ARCHITECTURES}))
    script(bare.tools / "nvidia-smi", NVIDIA_SMI.format("10.0"))
    programs, refusal = bare.folder / "unusable-programs", "error: [device] 'cuda' cannot be used: update the driver"
    for name in ("bench", "ops"):
        script(programs / name, f'#!/bin/sh\necho "{refusal}"\nexit 1\n')
    for words, why in (((), "10.0 (Simulated GPU), but the programs have code for 80-real, 90a-real"),
                       (("--bin", programs), refusal)):
        status, output = bare.call("unusable", *words)
        want(status == 1 and why in output and len(output.splitlines()) == 1, f"one line is to say '{why}'")
        want(not (bare.folder / "unusable").exists(), "nothing is to be stored of a GPU that cannot be used")
    script(bare.tools / "nvidia-smi", NVIDIA_SMI.format("9.0"))


def compares():
    """Losses that are too far apart, not a number, or too few are found."""
    from gpu.correctness import apart
    from gpu.machine import Failed
    apart("same", [2.0, 1.0], [2.0, 1.0], 0)
    for got in ([2.0, 1.0001], [2.0, float("nan")], [2.0]):
        try:
            apart("planted", got, [2.0, 1.0], 5e-5)
        except Failed:
            continue
        want(False, f"losses {got} are to fail")


def code_and_libraries():
    """Which GPUs code runs on, and what is said of a library that is missing."""
    from gpu.host import require_libraries, runs_on
    from gpu.machine import Cannot
    for architecture, yes, no in (("80-real", ["8.0", "8.9"], ["7.5", "9.0"]), ("90a-real", ["9.0"], ["8.0", "10.0"]),
                                  ("90", ["9.0", "12.0"], ["8.9"]), ("100f-real", ["10.0", "10.3"], ["9.0", "12.0"])):
        got = [gpu for gpu in yes + no if runs_on(architecture, gpu)]
        want(got == yes, f"{architecture} is to run on {yes}, not {got}")
    try:
        with mock.patch("gpu.host.ask", return_value=(0, "\tlibnccl.so.2 => not found\n")):
            require_libraries(["program"], {})
    except Cannot as e:
        want("libnccl.so.2 (Python's package nvidia-nccl-cu13)" in str(e), f"a missing library: {e}")
        return
    want(False, "a missing library is to be named")


class Unsaved:
    """Results that no file keeps."""
    parts, save, log = {}, staticmethod(lambda: None), staticmethod(lambda _: None)


def loaded(source):
    """tools/gpu-check as a module."""
    loader = SourceFileLoader("gpu_check", str(source / "tools/gpu-check"))
    tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(tool)
    return tool


def budgets(tool):
    """A part ends with its own seconds and is left; it fails when it gets no further twice, or with any exception."""
    bench = next(p for p in tool.PARTS if p.name == "bench")
    names = [p.name for p in tool.PARTS]
    want(names.index("curves") < names.index("bench"), "the curves are to come before the benchmarks")
    machine = SimpleNamespace(until=0, results=Unsaved)

    def run(section, check):
        tool.run_part(bench._replace(check=check), machine, section, time.monotonic() + 480, False)
        return section["state"]

    def slow(machine, section):
        given.append(machine.until - time.monotonic())
        section["items"] = {str(i): {"state": "passed"} for i in range(does)}
        raise tool.OutOfTime

    given, section = [], {"seconds": 0}
    for does, state in ((0, "left"), (1, "left"), (2, "left"), (2, "left"), (2, "failed")):
        want(run(section, slow) == state, f"a part that is out of time with {does} items is to be {state}: {section}")
    want(all(bench.most - 1 < seconds <= bench.most < 480 for seconds in given), f"the benchmarks had {given} s")
    section = {"seconds": 0}
    def refuses(machine, section):
        raise tool.Cannot("no")

    does, section = 0, {"seconds": 0}
    want(run(section, refuses) == "cannot" and run(section, slow) == "left", f"the first time-out is to be left: {section}")
    section = {"seconds": 0}
    want(run(section, lambda machine, section: {}["planted"]) == "failed" and section["what"] == "KeyError: 'planted'",
         f"an exception is to fail the part: {section}")


def turns(tool):
    """Parts that have not begun come first, those that could not run last."""
    parts = [p for p in tool.PARTS if p.name in ("goldens", "ops", "units", "curves", "bench")]
    sections = {"goldens": {"state": "cannot", "date": "1"}, "ops": {"state": "left", "date": "1", "tries": 1},
                "units": {"state": "passed", "date": "1"}, "curves": {"state": "left", "date": "1", "tries": 0},
                "bench": {"state": "left", "date": ""}}
    got = [p.name for p in tool.in_turn(parts, sections)]
    want(got == ["bench", "curves", "ops", "goldens"], f"parts run in the order {got}")


def items(source):
    """Items that could not run come last; one that is too slow fails the second time; an exception fails its item."""
    from gpu.machine import Cannot, Failed, Machine, OutOfTime, TooSlow
    from gpu.sizes import SMALL
    raises = {"slow": TooSlow("200 s"), "broken": ValueError("planted"), "refused": Cannot("no")}

    def check(item):
        seen.append(item)
        if item in raises:
            raise raises[item]
        return {"what": ""}

    machine = Machine(source, source, source, sys.executable, 1, SMALL, {}, Unsaved)
    machine.close()
    section = {"items": {"refused": {"state": "cannot", "what": "no"}}}
    for order, end, state in ((["slow", "broken", "good", "refused"], OutOfTime, "left"),
                              (["slow", "refused"], Failed, "failed")):
        seen = []
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                machine.each(section, ["refused", "slow", "broken", "good"], check)
        except end:
            want(seen == order, f"items run in the order {seen}")
        else:
            want(False, f"items are to end with {end.__name__}: {section}")
        want(section["items"]["slow"]["state"] == state, f"an item that is too slow is to be {state}: {section}")
    want(section["items"]["broken"] == {"state": "failed", "what": "ValueError: planted"}, f"an exception: {section}")


def merges(folder):
    """Of two files the later verdicts count, in whatever order they are read; changed programs have results apart."""
    from gpu.results import Results, commit_of
    gpu = {"name": "GPU", "driver": "1", "capability": "9.0"}
    files = {"old": ("2026-01-01T00:00:00+00:00", "failed", {"a": "failed", "b": "passed"}),
             "new": ("2026-01-02T00:00:00+00:00", "passed", {"a": "passed", "c": "passed"})}
    for name, (date, state, verdicts) in files.items():
        results = Results(folder / name, "commit", gpu, [])
        results.parts["ops"] = {"state": state, "what": "", "seconds": 1, "date": date,
                                "items": {item: {"state": verdict} for item, verdict in verdicts.items()}}
        results.save()
    for order in (["old", "new"], ["new", "old"]):
        part = Results(folder / "merged", "commit", gpu, [folder / name for name in order]).parts["ops"]
        got = {item: verdict["state"] for item, verdict in part["items"].items()}
        want(part["state"] == "passed" and got == dict.fromkeys("abc", "passed"), f"{order} give {part}")
    (folder / "MANIFEST.json").write_text('{"commit": "abc-changed"}')
    program, names = folder / "program", set()
    for content in ("one", "other"):
        program.write_text(content)
        names.add(commit_of(folder, [program]))
    want(len(names) == 2, f"programs that differ are to have other names than {names}")


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
  "check reshape ") exec python3 -c "import os, time; print('begun', flush=True)
with open('{bare.folder}/hangs', 'w') as file: print(os.getpid(), file=file)
time.sleep(600)" ;;
esac
exec {bare.bundle}/bin/ops "$@"
""")
    status, parts, _ = bare.check("planted", "--bin", programs, "--for", "25", "goldens", "ops")
    want(status == 1, f"failures are to give exit status 1, not {status}")
    want(parts["goldens"]["state"] == "failed" and parts["goldens"]["items"][GOLDENS[1]]["state"] == "failed" and
         parts["goldens"]["items"][GOLDENS[0]]["state"] == "passed", f"goldens: {parts['goldens']}")
    want(parts["ops"]["state"] == "left", f"an operator that hangs is to be left: {parts['ops']}")
    what = parts["ops"]["items"]["argmax"]["what"]
    want("cuda error 700" in what and "with launches blocking it passes" in what, f"argmax: {what}")
    log = next((bare.folder / "planted").glob("*.log")).read_text()
    want("begun\n[stopped]" in log, "the output of a program that was stopped is to be in the log")
    golden.write_bytes(good)
    stopped(bare, programs)


def stopped(bare, programs):
    """SIGTERM ends the program that runs, and the scratch folder is removed."""
    hangs = bare.folder / "hangs"
    hangs.unlink()
    process, end = bare.start("stopped", "--bin", programs, "ops"), time.monotonic() + 120
    while not (hangs.exists() and hangs.read_text()):
        want(time.monotonic() < end and process.poll() is None, "no operator hangs")
        time.sleep(0.05)
    process.terminate()
    output = process.communicate(timeout=60)[0]
    want(process.returncode == 143, f"SIGTERM is to give exit status 143, not {process.returncode}:\n{output}")
    want(not Path(f"/proc/{hangs.read_text().strip()}").exists(), "SIGTERM is to end the program that runs")
    bare.has_no_scratch()


SANITIZER = """#!/bin/sh
# As the real one: the program's exit status, a report that a refusal counts in, a summary of another name for races.
[ "$3 $4 $5 $6" = "--report-api-errors no --kernel-name kernel_substring=pursuit" ] || exit 2
tool=$2
shift 6
say() { for line in "$@"; do echo "========= $line"; done; }
say COMPUTE-SANITIZER
fault() {
  echo "error: [cuda] cudaStreamSynchronize: cudaErrorLaunchFailure"
  say "Invalid __global__ write of size 4 bytes" "    at pursuit::$1(float *, long)+0x70 in $1.cu:15" \
    "Error: process didn't terminate successfully" "Target application returned an error" "ERROR SUMMARY: 32 errors"
  exit 1
}
case $1 in
  */canary)
    read turn <TURN
    echo $((turn + 1)) >TURN
    case $turn in
      0) say "Error: Device not supported. Please refer to the documentation" "ERROR SUMMARY: 2 errors"; exit 1 ;;
      1) say "Error: No attachable process found"; exit 1 ;;
      2) say "ERROR SUMMARY: 0 errors"; exit 0 ;;
      *) fault canary_kernel ;;
    esac ;;
esac
[ "$tool $3" = "memcheck argmax" ] && fault argmax_kernel
"$@"
status=$?
case "$tool $3" in
  "racecheck argmax")
    say "Error: Race reported between Write access" "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)" ;;
  racecheck*) say "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" ;;
  *) say "ERROR SUMMARY: 0 errors" ;;
esac
exit $status
"""


def planted_tools(bare):
    """compute-sanitizer that is refused, without a summary, blind, and finds something; ncu refused, and counting."""
    turn = bare.folder / "turn"
    turn.write_text("0\n")
    script(bare.tools / "compute-sanitizer", SANITIZER.replace("TURN", str(turn)))
    refusals = {"memcheck": "Device not supported", "racecheck": "gives no summary of memcheck: Error: No attachable",
                "initcheck": "does not find what the program canary does"}
    status, parts, _ = bare.check("tools", *refusals)
    want(status == 3, f"a tool that cannot run is to give exit status 3, not {status}")
    for name, why in refusals.items():
        want(parts[name]["state"] == "cannot" and why in parts[name]["what"], f"no '{why}': {parts[name]}")
    script(bare.tools / "ncu", """#!/bin/sh
[ "$2" = "regex:attention_kernel" ] && echo "==ERROR== ERR_NVGPUCTRPERM" && exit 1
echo "==PROF== Connected"
echo '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"'
echo '"0","k","GPU Speed Of Light Throughput","Duration","us","1,234.5"'
""")
    status, parts, _ = bare.check("tools", *refusals, "counters")
    want(status == 1, f"a fault is to give exit status 1, not {status}")
    want(states(parts, [*refusals, "counters"]) ==
         {"memcheck": "failed", "racecheck": "failed", "initcheck": "passed", "counters": "cannot"}, "tools")
    for name, found in (("memcheck", "memcheck found 32 error(s)"), ("racecheck", "Race reported")):
        verdicts = parts[name]["items"]
        want(states(verdicts, ["argmax", "reshape"]) == {"argmax": "failed", "reshape": "passed"} and
             found in verdicts["argmax"]["what"], f"{name} is to say '{found}': {verdicts}")
    verdicts = parts["counters"]["items"]
    want("ERR_NVGPUCTRPERM" in verdicts["attention"]["what"], f"ncu without permission: {verdicts}")
    want(verdicts["RPC-Attention"]["figures"] == {"Duration": "1,234.5 us"}, f"ncu's figures: {verdicts}")


def main(build, source):
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(source / "tools"))
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
        compares()
        code_and_libraries()
        tool = loaded(source)
        budgets(tool)
        turns(tool)
        items(source)
        merges(folder / "merging")
        unusable(bare)
        calls(bare)
        planted_failures(bare)
        planted_tools(bare)
    print("gpu-bundle and gpu-check do on a bare machine what they say")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
