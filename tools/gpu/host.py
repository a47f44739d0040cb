"""What is on the machine: driver, GPU, CUDA's libraries and tools; and whether our programs can run there at all."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from gpu.machine import Cannot, tail

PROGRAMS = ["goldens", "ops", "unit_tests", "bench", "classify", "lm", "segment", "test_rank", "laboratory",
            "canary"]
# Libraries of CUDA and the Python packages that have them.
PACKAGES = {"libcublas": "nvidia-cublas", "libcublasLt": "nvidia-cublas", "libcudart": "nvidia-cuda-runtime",
            "libcusolver": "nvidia-cusolver", "libcusparse": "nvidia-cusparse", "libnccl": "nvidia-nccl-cu13",
            "libnvJitLink": "nvidia-nvjitlink"}
# Two programs, since a mistake in one kernel must not end what could find it.
TRIALS = [("bench", "adamw", "--batch", "1024", "--steps", "1", "--seconds", "0"), ("ops", "check", "reshape")]


def ask(command, limit=60, env=None):
    """(exit status, output) of a command that takes seconds; Cannot where it takes longer."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=limit, check=False)
    except OSError as e:
        raise Cannot(f"{words[0]} cannot be started: {e.strerror}") from e
    except subprocess.TimeoutExpired as e:
        raise Cannot(f"{' '.join(words)} was not done within {limit} s") from e
    return done.returncode, done.stdout


def find_gpu():
    """{"name", "driver", "capability"} of the first GPU, by nvidia-smi."""
    if not shutil.which("nvidia-smi"):
        raise Cannot("no NVIDIA driver is installed (there is no nvidia-smi)")
    status, output = ask(["nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"])
    found = re.search(r"^(.+), ([^,\n]+), ([^,\n]+)$", output, re.M)
    if status or not found:
        raise Cannot(f"nvidia-smi finds no GPU: {tail(output, 1)}")
    return {"name": found[1], "driver": found[2], "capability": found[3]}


def count_gpus():
    return len(ask(["nvidia-smi", "-L"])[1].splitlines())


def toolkits():
    """Where CUDA's toolkits are; one that a variable names comes first."""
    named = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    others = ["/usr/local/cuda", *sorted(Path("/usr/local").glob("cuda-*"), reverse=True)]
    return list(dict.fromkeys(map(Path, [*named, *others])))


def find_tool(name, *folders):
    """A tool on PATH, in a toolkit of CUDA, or in one of the folders (patterns); Cannot where there is none."""
    places = [str(toolkit / folder) for toolkit in toolkits() for folder in ("bin", name)]
    found = shutil.which(name) or next((str(path) for place in (*places, *folders)
                                        for path in Path("/").glob(f"{place.lstrip('/')}/{name}")), None)
    if not found:
        raise Cannot(f"{name} is not installed")
    return found


def library_folders(root, python):
    """Where the programs' libraries may be: the bundle's, then CUDA's, of its toolkits or of Python packages."""
    asked = ask([python, "-c", "import sys; print('\\n'.join(sys.path))"])[1].splitlines()
    packages = [folder for path in dict.fromkeys([*asked, *sys.path]) if path
                for folder in sorted(Path(path).glob("nvidia/*/lib"))]
    given = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    of_toolkits = [toolkit / folder for toolkit in toolkits() for folder in ("lib64", "lib")]
    return [str(folder) for folder in (root / "lib", *given, *of_toolkits, *packages) if Path(folder).is_dir()]


def environment(root, python):
    """The environment of our programs alone: PyTorch brings other libraries of the same names."""
    return dict(os.environ, LD_LIBRARY_PATH=":".join(library_folders(root, python)))


def our_programs(folder):
    return [folder / name for name in PROGRAMS if (folder / name).exists()]


def runs_on(architecture, capability):
    """Whether code for an architecture as CMake has it (80-real, 90a, 100f-virtual) runs on a capability (9.0)."""
    code = re.fullmatch(r"(\d+)(\d)([af]?)(-real|-virtual)?", architecture)
    gpu = re.fullmatch(r"(\d+)\.(\d+)", capability)
    if not code or not gpu:
        return True
    code_is, gpu_is = (int(code[1]), int(code[2])), (int(gpu[1]), int(gpu[2]))
    if code[3] == "a":
        return gpu_is == code_is
    return gpu_is >= code_is and (gpu_is[0] == code_is[0] or not (code[3] or code[4] == "-real"))


def require_code(architectures, gpu):
    """Cannot, where the programs have code for other GPUs alone; no architectures: it is not known."""
    if architectures and not any(runs_on(architecture, gpu["capability"]) for architecture in architectures):
        mine = gpu["capability"].replace(".", "") + "-real"
        raise Cannot(f"got a GPU of compute capability {gpu['capability']} ({gpu['name']}), but the programs have code "
                     f"for {', '.join(architectures)} alone; pack others with tools/gpu-bundle --architectures {mine}")


def require_libraries(programs, env):
    """Cannot, where the programs do not find their libraries."""
    shown = [ask([program], env=env | {"LD_TRACE_LOADED_OBJECTS": "1"})[1] for program in programs]
    lines = {line.strip() for output in shown for line in output.splitlines() if "not found" in line}
    missing = {line.split()[0] for line in lines if line.endswith("=> not found")}
    of_cuda = [f"{name} (Python's package {PACKAGES[name.split('.')[0]]})"
               for name in sorted(missing) if name.split(".")[0] in PACKAGES]
    others = sorted(missing - {name.split()[0] for name in of_cuda})
    if of_cuda:
        raise Cannot(f"got no {', '.join(of_cuda)}, which a bundle does not hold since CUDA's libraries are too large; "
                     "name a folder that has them by LD_LIBRARY_PATH or CUDA_HOME, or a Python with the packages by "
                     "--python; without a network bring the packages' wheels, unpack them in one folder (python3 -m "
                     "zipfile -e) and name it by PYTHONPATH")
    if others:
        raise Cannot(f"got no {', '.join(others)}; install it, or take a bundle (tools/gpu-bundle), which holds it")
    if lines:
        raise Cannot(f"{sorted(lines)[0]}; this system is too old for the programs: build them on an older one")


def require_gpu(folder, env):
    """Cannot, where no program runs on the GPU: the driver is too old, say, or the GPU is another process's alone."""
    for program, *words in TRIALS:
        try:
            status, output = ask([folder / program, *words, "--device", "cuda"], 120, env)
        except Cannot as e:
            why = str(e)
            continue
        if status == 0:
            return
        why = f"{program}: {tail(output.strip(), 1) or f'ended with {status}'}"
    raise Cannot(f"no program runs on the GPU; {why}")
