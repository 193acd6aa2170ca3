"""The first five minutes of a new user: how long, how many bytes and how many commands to the first answer.

Run it with any Python that has pip; it needs no package. It copies the files that git knows into a temporary
folder, so the environment is new. Packages come from wherever pip is set up to find them. Run it twice to see
the times with a warm package cache. ``python benchmarks/first_minutes.py --keep`` keeps the result.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULT = Path(__file__).parent / "results" / "first_minutes.json"

FIRST_ANSWER = """
import time
started = time.perf_counter()
from holdfast import Guard
imported = time.perf_counter()
guard = Guard("holdfast-demo/stones.csv", expect=10)
opened = time.perf_counter()
answer = guard.share("price > 10000")
print(imported - started, opened - imported, time.perf_counter() - opened, answer.low, answer.high)
"""
LARGE_TABLE = """
import time
import numpy as np, pandas as pd
rng = np.random.default_rng(7)
rows = 337_000
columns = {f"x{i}": rng.normal(size=rows) for i in range(12)}
columns |= {f"t{i}": rng.choice(["north", "south", "east", "west"], rows) for i in range(6)}
table = pd.DataFrame(columns)
from holdfast import Guard
Guard(table.head(1000))
for kind in ("str", "object"):
    given = table.astype({f"t{i}": kind for i in range(6)})
    started = time.perf_counter(), time.process_time()
    Guard(given)
    print(time.perf_counter() - started[0], time.process_time() - started[1])
"""


def clean_copy(folder: Path) -> Path:
    """The files that git knows, as a new user would have them."""
    clone = folder / "holdfast"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        target = clone / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return clone


def megabytes(folder: Path) -> float:
    return round(sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6, 1)


def largest(environment: Path, least: float = 5.0) -> dict[str, float]:
    """The packages of an environment that take at least ``least`` megabytes, largest first. Libraries that a
    wheel keeps in a folder of its own count for its package."""
    sizes: dict[str, float] = {}
    (packages,) = environment.glob("lib/python*/site-packages")
    for path in packages.iterdir():
        name = path.name.split(".")[0].lstrip("_")
        size = megabytes(path) if path.is_dir() else path.lstat().st_size / 1e6
        sizes[name] = round(sizes.get(name, 0.0) + size, 1)
    return {name: size for name, size in sorted(sizes.items(), key=lambda item: -item[1]) if size >= least}


def seconds(command: list[str], where: Path) -> tuple[float, float]:
    """How long a command takes by the clock, and how much processor time it uses. On a busy machine only the
    second says what the command itself needs."""
    before, started = os.times(), time.perf_counter()
    subprocess.run(command, cwd=where, check=True, stdout=subprocess.DEVNULL)
    elapsed, after = time.perf_counter() - started, os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return round(elapsed, 2), round(processor, 2)


def numbers(script: str, where: Path) -> list[float]:
    """What a script prints, run in the environment of the demo."""
    environment = {**os.environ, "PYTHONPATH": str(where / "src"), "PYTHONDONTWRITEBYTECODE": ""}
    command = [str(where / ".venv-demo" / "bin" / "python"), "-c", script]
    best: list[float] = []
    for _ in range(3):
        finished = subprocess.run(
            command, cwd=where, env=environment, check=True, capture_output=True, text=True
        )
        measured = [float(word) for word in finished.stdout.split()]
        best = measured if not best or measured[0] < best[0] else best
    return best


def processor_seconds(statement: str, where: Path, times: int = 10) -> float:
    """The processor time of a Python that runs a statement, the best of several: other people's work does not
    count in it."""
    environment = {**os.environ, "PYTHONPATH": str(where / "src"), "PYTHONDONTWRITEBYTECODE": ""}
    best = float("inf")
    for _ in range(times):
        before = os.times()
        command = [str(where / ".venv-demo" / "bin" / "python"), "-c", statement]
        subprocess.run(command, cwd=where, env=environment, check=True)
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        best = min(best, used)
    return round(best, 3)


def measure() -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        clone = clean_copy(Path(folder))
        set_up, set_up_processor = seconds(["make", "--silent", ".venv-demo/.ready"], clone)
        story, story_processor = seconds(["make", "--silent", "demo"], clone)
        installed = megabytes(clone / ".venv-demo")
        packages = largest(clone / ".venv-demo")
        imported, opened, answered, low, high = numbers(FIRST_ANSWER, clone)
        large, large_processor, objects, objects_processor = numbers(LARGE_TABLE, clone)
        numpy_alone = processor_seconds("import numpy", clone)
        guard_too = processor_seconds("from holdfast import Guard", clone)
    return {
        "commands": ["make demo"],
        "installer": "uv" if shutil.which("uv") else "pip",
        "set_up_seconds": set_up,
        "set_up_processor_seconds": set_up_processor,
        "installed_megabytes": installed,
        "largest_packages_megabytes": packages,
        "demo_seconds": story,
        "demo_processor_seconds": story_processor,
        "total_seconds": round(set_up + story, 2),
        "import_guard_seconds": round(imported, 3),
        "open_8000_rows_seconds": round(opened, 3),
        "first_answer_seconds": round(answered, 3),
        "first_answer": [low, high],
        "import_numpy_processor_seconds": numpy_alone,
        "import_guard_processor_seconds": guard_too,
        "open_337000_rows_by_18_columns_seconds": round(large, 3),
        "open_337000_rows_by_18_columns_processor_seconds": round(large_processor, 3),
        "open_337000_rows_with_text_as_objects_seconds": round(objects, 3),
        "open_337000_rows_with_text_as_objects_processor_seconds": round(objects_processor, 3),
    }


def describe() -> dict[str, object]:
    """The machine. How busy it was matters for every time that is measured here."""
    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="Write the result into benchmarks/results.")
    arguments = parser.parse_args()
    text = json.dumps({"machine": describe(), **measure()}, indent=1)
    if arguments.keep:
        RESULT.write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
