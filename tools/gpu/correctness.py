"""The parts that ask whether the GPU computes right."""
import json
import math
import re
import socket

from gpu.host import count_gpus, find_tool
from gpu.machine import Cannot, Failed, TooSlow, count_passed, tail

# Largest relative difference of the losses of the first 40 steps; later, runs with different rounding diverge. On CPUs
# AVX2 and AVX-512 are 1.2e-7 apart and bf16 is 4.7e-4 from f32 (three seeds). Products of three TF32 parts lose one digit
# of seven, and steps add up, so f32 is allowed a thousand times the first figure and bf16 ten times the second.
F32_APART = 1e-4
BF16_APART = 5e-3
# Operators that call cuBLASLt or cuSOLVER. initcheck does not see their writes, since it checks only our kernels.
LIBRARY_OPERATORS = {"conv2d", "linear", "linear_cross_entropy", "matmul", "mlp", "patchify", "rpc_attention",
                     "singular_value_threshold"}
# What compute-sanitizer found. Its exit status does not tell: after a fault it is that of the program.
SUMMARY = re.compile(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)", re.M)


def goldens(machine, section):
    files = {f.stem: f for f in sorted(machine.goldens.glob("*.safetensors"))}
    if not files:
        raise Failed(f"no goldens in {machine.goldens}; name the folder by --goldens")

    def check(name):
        command = [machine.program("goldens"), files[name], "--device", "cuda"]
        return {"what": f"{machine.counted(command, 240, machine.together_env)} passed"}
    return machine.each(section, list(files), check, machine.jobs)


def operators(machine):
    listed = machine.good([machine.program("ops"), "list"])
    names = re.findall(r"^(\S+) +\d+ samples$", listed, re.M)
    if not names:
        raise Failed(f"ops list names no operator:\n{tail(listed)}")
    return [n for n in names if n in (machine.sizes.operators or names)]


def ops(machine, section):
    """A process an operator: after one fault everything in that process fails."""
    def check(name):
        command = [machine.program("ops"), "check", name, "--device", "cuda"]
        try:
            return {"what": f"{machine.counted(command, 120, machine.together_env)} passed"}
        except Failed as e:
            why = str(e)
        try:
            machine.counted(command, 120, machine.together_env | {"CUDA_LAUNCH_BLOCKING": "1"})
        except Failed as e:
            raise Failed(f"{why}\nwith launches blocking: {e}") from e
        raise Failed(f"{why}\nwith launches blocking it passes")
    return machine.each(section, operators(machine), check, machine.jobs)


def units(machine, _):
    output = machine.good([machine.program("unit_tests"), "-ts=gpu", f"-tc={machine.sizes.unit_tests}", "--no-skip"])
    passed = re.search(r"test cases: *(\d+) \| *(\d+) passed \| *0 failed", output)
    if not passed or passed[1] == "0" or passed[1] != passed[2]:
        raise Failed(f"unit_tests: no line 'test cases: N | N passed | 0 failed':\n{tail(output)}")
    return f"{passed[1]} passed"


def laboratory(machine, _):
    checked = machine.counted([machine.program("laboratory"), "check"], 240)
    if machine.sizes.timed:
        machine.good([machine.program("laboratory"), "bench", "--device", "cuda"], 240)
    return f"{checked} passed; their times are in the log"


def curve(machine, name, *settings):
    """(losses, checkpoint) of the first steps of a small RPC transformer."""
    out = machine.scratch / name
    machine.good([machine.program("classify"), "train", *machine.sizes.curve, "--attention", "rpc", "--steps",
                  machine.sizes.curve_steps, "--eval-every", "0", "--seed", "0", "--quiet", "--out", out, *settings])
    return losses(out), out / "checkpoint.safetensors"


def losses(run):
    """The losses of some steps, of all of them on average, and of the test pictures."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found = [line[key] for line in lines for key in ("loss", "train_loss", "test_loss") if key in line]
    if len(found) < 3 or not all(map(math.isfinite, found)):
        raise Failed(f"{run.name}: got losses {found}, need at least 3 finite ones")
    return found


def apart(name, got, want, most):
    if len(got) != len(want):
        raise Failed(f"{name}: {len(got)} and {len(want)} losses")
    gaps = [abs(a - b) / abs(b) for a, b in zip(got, want)]
    if not all(gap <= most for gap in gaps):  # a NaN is not
        raise Failed(f"{name}: the losses are {max(gaps):.1e} apart, at most {most:.0e} is right: {got}, {want}")
    return f"{name} {max(gaps):.1e}"


def curves(machine, _):
    cpu, _file = curve(machine, "cpu", "--device", "cpu")
    f32, _file = curve(machine, "f32", "--device", "cuda")
    bf16, _file = curve(machine, "bf16", "--device", "cuda", "--dtype", "bf16")
    return ", ".join((apart("f32 against the CPU", f32, cpu, F32_APART), apart("bf16 against f32", bf16, f32, BF16_APART)))


def graph(machine, _):
    """A captured step is the same kernels in the same order: the same bits."""
    for dtype in ("f32", "bf16"):
        captured, weights = curve(machine, f"graph-{dtype}", "--device", "cuda", "--dtype", dtype)
        eager, eager_weights = curve(machine, f"eager-{dtype}", "--device", "cuda", "--dtype", dtype, "--no-graph")
        apart(f"{dtype}, graph against eager", captured, eager, 0)
        if weights.read_bytes() != eager_weights.read_bytes():
            raise Failed(f"{dtype}: checkpoints of captured and eager steps differ, their losses do not")
    return f"losses and weights after {machine.sizes.curve_steps} steps are the same bits, in f32 and bf16"


def complaint(output):
    """Why compute-sanitizer did not work, in its words."""
    said = re.search(r"^=+ +((?:Error|Internal).*)$", output, re.M)
    return said[1] if said else tail(output, 1).lstrip("= ")


def sanitizer(tool):
    """The part of one tool of compute-sanitizer over our kernels: an operator a process, every tensor an allocation."""
    def part(machine, section):
        program = find_tool("compute-sanitizer")
        env = machine.together_env | {"PURSUIT_ALLOC": "raw"}

        def watched(tool, *command):
            """(errors or hazards, exit status, output) of a command under a tool that watches our kernels alone."""
            status, output = machine.run([program, "--tool", tool, "--report-api-errors", "no", "--kernel-name",
                                          "kernel_substring=pursuit", *command], 150, env)
            found = [int(count) for count in SUMMARY.findall(output)]
            if not found:
                raise Cannot(f"compute-sanitizer gives no summary of {tool}: {complaint(output)}")
            return max(found), status, output

        def check(name):
            found, status, output = watched(tool, machine.program("ops"), "check", name, "--device", "cuda",
                                            "--contiguous")
            if found:
                lines = [line for line in output.splitlines() if line.startswith("=====")]
                raise Failed(f"{tool} found {found} error(s):\n" + "\n".join(lines[:20]))
            if status:
                raise Failed(f"{tool} found nothing, but ops ended with {status}:\n{tail(output)}")
            count_passed("ops", output)
            return {"what": "no errors"}

        # A tool that is refused the GPU counts that as an error, too, so the report must be of the canary's kernel.
        found, _status, output = watched("memcheck", machine.program("canary"))
        if not found or not re.search("^=+.*canary_kernel", output, re.M):
            raise Cannot("compute-sanitizer does not find what the program canary does, so it would find nothing else: "
                         + complaint(output))
        names = [n for n in operators(machine) if tool != "initcheck" or n not in LIBRARY_OPERATORS]
        return machine.each(section, names, check, machine.jobs)
    return part


def runs(machine, section):
    """Every app trains in one go and in two, with the same bits, and evaluates."""
    steps = machine.sizes.steps

    def check(app):
        settings, evaluation = machine.sizes.runs[app]
        whole, halves = machine.scratch / f"{app}-whole", machine.scratch / f"{app}-halves"
        train = [machine.program(app), "train", *settings, "--attention", "rpc", "--dtype", "bf16", "--device", "cuda",
                 "--schedule", "constant", "--seed", "0", "--quiet"]
        machine.good([*train, "--steps", steps, "--out", whole], 150)
        machine.good([*train, "--steps", steps // 2, "--out", halves], 150)
        machine.good([machine.program(app), "train", "--resume", halves, "--steps", steps, "--quiet"], 150)
        files = [(run / "checkpoint.safetensors").read_bytes() for run in (whole, halves)]
        if files[0] != files[1]:
            raise Failed(f"checkpoints of {steps} steps and of twice {steps // 2} differ")
        said = machine.good([machine.program(app), "eval", "--checkpoint", whole, "--device", "cuda", *evaluation], 150)
        if re.search(r"\bnan\b", said, re.I):
            raise Failed(f"the evaluation has a NaN:\n{tail(said)}")
        return {"what": f"{steps} steps, resumed and evaluated"}
    return machine.each(section, list(machine.sizes.runs), check)


def job(machine, mode, ranks, variables):
    """The ranks of tests/distributed/rank.cpp on GPUs, all of which must say how many checks passed."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    of_all = machine.env | variables | {"PURSUIT_RANKS": str(ranks), "PURSUIT_PORT": str(port), "TEST_DEVICE": "cuda",
                                        "TEST_ANSWER": "60000"}
    envs = [of_all | {"PURSUIT_RANK": str(rank)} for rank in range(ranks)]
    if "NCCL_HOSTID" in variables:
        for rank, env in enumerate(envs):
            env["NCCL_HOSTID"] += f"-{rank}"
    done = machine.ranks([machine.program("test_rank"), mode], envs, 120)
    output = "".join(output for _status, output in done)
    if any(status for status, _output in done) or len(re.findall(r"[1-9]\d* checks", output)) != ranks:
        raise Failed(f"test_rank {mode} with {ranks} ranks:\n{tail(output)}")


def nccl(machine, _):
    for mode in ("operations", "gradients"):
        job(machine, mode, 1, {"TEST_ALONE": "1"})
    gpus = count_gpus()
    # Two ranks on one GPU: NCCL 2.30 and later has a switch for it; with earlier versions, ranks that pretend to be on
    # two machines may connect over sockets.
    ways = [{}] if gpus > 1 else [{"NCCL_MULTI_RANK_GPU_ENABLE": "1"},
                                  {"NCCL_HOSTID": "rank", "NCCL_IB_DISABLE": "1", "NCCL_MAX_NCHANNELS": "1"}]
    refused = []
    for way in ways:
        try:
            for mode in ("operations", "gradients"):
                job(machine, mode, 2, way)
            return f"one rank, two ranks on {min(gpus, 2)} GPU(s) {' '.join(way)}".strip()
        except (Failed, TooSlow) as e:
            if gpus > 1:
                raise
            refused.append(str(e))
    return "one rank; two ranks on one GPU are not possible here: " + " ".join(refused[0].split())[:300]
