"""The machine that the parts run on: its programs, libraries, GPU, time and log."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LIMIT = 8 * 60  # seconds a part
TOOLKIT = Path("/usr/local/cuda")


class Failed(Exception):
    """A program ended as it must not, or gave a wrong number."""


class Cannot(Exception):
    """This machine lacks what the part needs."""


class OutOfTime(Exception):
    """The time of the part, or of the call, is over."""


class Machine:
    """Runs programs for one part after another, each within the time that the part has left.

    programs  folder of our programs; sizes  those of tools/gpu/sizes.py; results  tools/gpu/results.py
    python    a Python that may have PyTorch, CuPy and JAX; jobs  processes that share the GPU
    """

    def __init__(self, root, programs, goldens, python, jobs, sizes, results):
        self.root, self.programs, self.goldens, self.python, self.jobs = root, programs, goldens, python, jobs
        self.sizes, self.results = sizes, results
        self.until = 0.0
        self.lock = threading.Lock()
        self.scratch = Path(tempfile.mkdtemp(prefix="gpu-check-"))
        # Our libraries are for our programs alone: PyTorch brings others of the same names.
        self.env = dict(os.environ, LD_LIBRARY_PATH=":".join(library_folders(root, python)))

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def program(self, name):
        path = self.programs / name
        if not path.exists():
            raise Failed(f"no program {path}; build it, or name the folder that has it by --bin")
        return path

    def missing_libraries(self):
        """Lines of the loader that say 'not found', of all programs."""
        lines = set()
        for program in sorted(self.programs.iterdir()):
            shown = subprocess.run([program], env=self.env | {"LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True,
                                   text=True, check=False)
            lines |= {line.strip() for line in (shown.stdout + shown.stderr).splitlines() if "not found" in line}
        return sorted(lines)

    def run(self, command, limit=LIMIT, env=None):
        """(exit status, output) of a command; the output so far is logged also when its time ends.

        Failed after `limit` seconds, OutOfTime when the part's time ends before.
        """
        left = self.until - time.monotonic()
        if left <= 0:
            raise OutOfTime
        words = [str(word) for word in command]
        with tempfile.TemporaryFile("w+", errors="replace", dir=self.scratch) as file:
            try:
                process = subprocess.Popen(words, env=self.env if env is None else env, cwd=self.scratch, stdout=file,
                                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
            except OSError as e:
                raise Failed(f"{words[0]} cannot be started: {e.strerror}") from e
            try:
                status = process.wait(min(left, limit))
            except subprocess.TimeoutExpired:
                status = None
            finally:
                end_group(process)
            file.seek(0)
            output = file.read()
        with self.lock:
            self.results.log(f"$ {' '.join(words)}\n{output}[{'stopped' if status is None else status}]\n")
        if status is None and limit < left:
            raise Failed(f"{Path(words[0]).name} was not done within {limit} s:\n{tail(output)}")
        if status is None:
            raise OutOfTime
        return status, output

    def good(self, command, limit=LIMIT, env=None):
        """The output of a command, which must end with 0."""
        status, output = self.run(command, limit, env)
        if status:
            raise Failed(f"{Path(str(command[0])).name} ended with {status}:\n{tail(output)}")
        return output

    def counted(self, command, limit=LIMIT, env=None):
        """How many checks passed by the line 'N passed, 0 failed', without which the command has failed."""
        output = self.good(command, limit, env)
        last = re.findall(r"^(\d+) passed, (\d+) failed$", output, re.M)
        if not last or last[-1][1] != "0" or last[-1][0] == "0":
            raise Failed(f"{Path(str(command[0])).name}: no line 'N passed, 0 failed':\n{tail(output)}")
        return int(last[-1][0])

    def each(self, section, items, check, jobs=1):
        """check(item) for all items that the section has no verdict of, `jobs` at a time; the results are saved after each.

        What check returns is kept: {"what": text, ...}. Raises what the verdicts amount to.
        """
        verdicts = section.setdefault("items", {})
        over = threading.Event()

        def one(item):
            if over.is_set():
                return
            try:
                verdict = {"state": "passed"} | check(item)
            except Failed as e:
                verdict = {"state": "failed", "what": str(e)}
            except Cannot as e:
                verdict = {"state": "cannot", "what": str(e)}
            except OutOfTime:
                over.set()
                return
            with self.lock:
                verdicts[item] = verdict
                self.results.save()
            if verdict["state"] != "passed":
                print(f"  {item}: {verdict['state']}: {first_line(verdict['what'])}", flush=True)

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(one, [item for item in items if item not in verdicts]))
        by_state = {state: [i for i in items if verdicts.get(i, {}).get("state") == state]
                    for state in ("passed", "failed", "cannot")}
        count = f"{len(by_state['passed'])} of {len(items)} passed"
        if any(i not in verdicts for i in items):
            raise OutOfTime
        if by_state["failed"]:
            raise Failed(f"{count}; failed: {', '.join(by_state['failed'])}\n"
                         + "\n".join(f"{i}: {verdicts[i]['what']}" for i in by_state["failed"]))
        if by_state["cannot"]:
            first = by_state["cannot"][0]
            raise Cannot(f"{count}, {len(by_state['cannot'])} cannot run; {first}: {verdicts[first]['what']}")
        return count


def end_group(process):
    """Ends what a command has left running, and waits for the command."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def tail(output, lines=15):
    return "\n".join(output.splitlines()[-lines:])


def first_line(text):
    return (text.splitlines() or [""])[0]


def find_tool(name, *folders):
    """A tool on PATH, in CUDA's toolkit, or in one of the folders (patterns); Cannot where there is none."""
    found = shutil.which(name) or next((str(path) for folder in (f"{TOOLKIT}/bin", *folders)
                                        for path in Path("/").glob(f"{folder.lstrip('/')}/{name}")), None)
    if not found:
        raise Cannot(f"{name} is not installed")
    return found


def library_folders(root, python):
    """Where the programs' libraries may be: the bundle's, then CUDA's, of its toolkit or of Python packages."""
    asked = subprocess.run([python, "-c", "import sys; print('\\n'.join(sys.path))"], capture_output=True, text=True,
                           check=False).stdout.splitlines()
    packages = [str(folder) for path in dict.fromkeys([*asked, *sys.path]) if path
                for folder in sorted(Path(path).glob("nvidia/*/lib"))]
    given = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [str(f) for f in (root / "lib", *given, TOOLKIT / "lib64", *packages) if str(f) and Path(f).is_dir()]


def find_gpu():
    """{"name", "driver", "capability"} of the first GPU, by nvidia-smi."""
    if not shutil.which("nvidia-smi"):
        raise Cannot("no NVIDIA driver is installed (there is no nvidia-smi)")
    done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"],
                          capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        raise Cannot("nvidia-smi finds no GPU")
    name, driver, capability = (x.strip() for x in done.stdout.splitlines()[0].split(","))
    return {"name": name, "driver": driver, "capability": capability}


def count_gpus():
    return len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout.splitlines())
