"""Makes the files in ``files/`` again, with the real tools; ``files/README.md`` says which versions.

Each tool needs a Python that has it:

    python make_files.py --inspect PYTHON --old-inspect PYTHON --lm-eval PYTHON --pytest PYTHON

The tools run in an empty folder, so that no path of this machine is in what they write. What a tool writes
about the machine all the same is replaced by neutral words; see ``_neutral``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

FILES = Path(__file__).with_name("files")

INSPECT = '''
from inspect_ai import Task, eval, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import list_eval_logs, read_eval_log, write_eval_log
from inspect_ai.log._recorders.chunked import convert_eval_logs_to_chunked
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, accuracy, mean, match, scorer
from inspect_ai.solver import generate, solver

SUMS = [(a, b) for a in (1, 2, 3) for b in (10, 20, 30, 40)]
LONG = "Let me think about it. " * 30


def samples():
    sums = [Sample(id=f"sum/{a}+{b}", input=f"What is {a} + {b}?", target=str(a + b)) for a, b in SUMS]
    return MemoryDataset(sums, name="sums")


def answers(epochs):
    """Wrong for every third sum in the first epoch, and for every fourth in the second."""
    for epoch in range(epochs):
        for place, (a, b) in enumerate(SUMS):
            wrong = place % (3 + epoch) == 0
            text = f"{LONG}It is {a + b + wrong}" if place == 5 else f"It is {a + b + wrong}"
            yield text


def model(epochs=2):
    by_input = {}
    texts = list(answers(epochs))
    for epoch in range(epochs):
        for place, (a, b) in enumerate(SUMS):
            by_input.setdefault(f"What is {a} + {b}?", []).append(texts[epoch * len(SUMS) + place])

    def reply(input, tools, tool_choice, config):
        output = ModelOutput.from_content("mockllm/model", by_input[input[-1].text].pop(0))
        output.usage = ModelUsage(input_tokens=10, output_tokens=10, total_tokens=20)  # needs no network
        return output

    return get_model("mockllm/model", custom_outputs=reply)


@scorer(metrics={"length": [mean()], "polite": [mean()]})
def style():
    async def score(state, target):
        text = state.output.completion
        return Score(value={"length": min(1.0, len(text) / 100), "polite": "please" in text})

    return score


@scorer(metrics=[mean()])
def brevity():
    async def score(state, target):
        return Score(value=1 / (1 + len(state.output.completion.split())), answer=state.output.completion)

    return score


@solver
def fail_on(bad):
    async def solve(state, generate):
        if state.sample_id == bad:
            raise RuntimeError("the sandbox did not start")
        return await generate(state)

    return solve


@task
def sums():
    return Task(dataset=samples(), solver=generate(), scorer=match(location="end", numeric=True))


@task
def sums_two_scorers():
    scorers = [match(location="end", numeric=True), brevity(), style()]
    return Task(dataset=samples(), solver=generate(), scorer=scorers)


@task
def sums_with_error():
    return Task(dataset=samples(), solver=fail_on("sum/2+20"), scorer=match(location="end", numeric=True))


common = dict(display="none", max_samples=1, log_model_api=False)
eval(sums(), model=model(), epochs=2, log_dir="one", **common)
eval(sums(), model=model(), epochs=2, log_dir="one", log_format="json", **common)
eval(sums_two_scorers(), model=model(1), log_dir="two", **common)
eval(sums_with_error(), model=model(1), log_dir="error", fail_on_error=False, **common)
eval(sums_with_error(), model=model(1), log_dir="failed", fail_on_error=True, **common)


def without_traceback(error):
    return error and error.model_copy(update={"traceback": "left out", "traceback_ansi": "left out"})


# A traceback has paths of the machine. Inspect itself writes the log again, without them.
for place in ("error", "failed"):
    (info,) = list_eval_logs(place)
    log = read_eval_log(info)
    log.error = without_traceback(log.error)
    for sample in log.samples:
        sample.error = without_traceback(sample.error)
        sample.events = [event for event in sample.events if event.event != "error"]
    write_eval_log(log, info.name)

(info,) = list_eval_logs("two")
convert_eval_logs_to_chunked(info.name, "chunked")
'''

OLD_INSPECT = '''
from inspect_ai import Task, eval, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match

SUMS = [(a, b) for a in (1, 2, 3) for b in (10, 20)]


def answers():
    """Wrong for 2 + 10 and 2 + 20."""
    for a, b in SUMS * 2:
        output = ModelOutput.from_content("mockllm/model", f"It is {a + b + (a == 2)}")
        output.usage = ModelUsage()
        yield output


@task
def sums():
    samples = [Sample(id=f"sum/{a}+{b}", input=f"What is {a} + {b}?", target=str(a + b)) for a, b in SUMS]
    return Task(dataset=MemoryDataset(samples), scorer=match(location="end", numeric=True))


model = get_model("mockllm/model", custom_outputs=answers())
eval(sums(), model=model, epochs=2, log_dir="logs", display="none", max_samples=1)
'''

LM_CHOICE = """
task: capitals
dataset_path: json
dataset_kwargs:
  data_files:
    test: capitals.json
test_split: test
output_type: multiple_choice
doc_to_text: "The capital of {{country}} is"
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
  - metric: acc_norm
    aggregation: mean
    higher_is_better: true
  - metric: brier_score
    aggregation: brier_score
    higher_is_better: false
metadata:
  version: 1.0
"""

LM_WORDS = """
task: laugh
dataset_path: json
dataset_kwargs:
  data_files:
    test: laugh.json
test_split: test
output_type: generate_until
doc_to_text: "{{prompt}}"
doc_to_target: "{{reply}}"
repeats: 2
generation_kwargs:
  until: ["\\n"]
  do_sample: true
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
filter_list:
  - name: whole
    filter:
      - function: take_first
  - name: first-letter
    filter:
      - function: regex
        regex_pattern: "^(.)"
      - function: take_first
metadata:
  version: 2.0
"""

COUNTRIES = ["France", "Italy", "Spain", "Norway", "Peru", "Chile", "Japan", "Kenya", "Ghana", "Cuba"]
CITIES = ["Paris", "Rome", "Madrid", "Oslo", "Lima", "Santiago", "Tokyo", "Nairobi", "Accra", "Havana"]

PYTEST = """
import pytest


@pytest.mark.parametrize("number", range(6))
def test_small(number):
    assert number != 4


class TestWords:
    def test_upper(self):
        assert "a".upper() == "A"

    def test_lower(self):
        assert "A".lower() == "A", "<&> are escaped"


@pytest.fixture
def broken():
    raise RuntimeError("no such service")


def test_setup_error(broken):
    pass


@pytest.fixture
def breaks_afterwards():
    yield
    raise RuntimeError("cannot clean up")


def test_failure_and_teardown_error(breaks_afterwards):
    raise AssertionError


def test_teardown_error(breaks_afterwards):
    pass
"""

SKIPPED = """
import pytest


def test_runs():
    pass


@pytest.mark.skip(reason="not on this system")
def test_skipped():
    pass


@pytest.mark.xfail
def test_expected_to_fail():
    raise AssertionError
"""


def _run(python: str, *arguments: str, folder: Path, may_fail: bool = False) -> None:
    environment = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "cache"),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    done = subprocess.run([python, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode and not may_fail:
        raise SystemExit(f"{arguments} failed:\n{done.stdout}\n{done.stderr}")


def _neutral(text: str, folder: Path) -> str:
    """Replace this folder, PyTorch's report of the machine, the host and the place of Python."""
    text = text.replace(str(folder), "/run")
    text = re.sub(r'hostname="[^"]*"', 'hostname="host"', text)
    text = re.sub(r"/[\w./-]*/lib/python3\.\d+/", "/python/", text)
    return re.sub(r'"pretty_env_info": "(?:[^"\\]|\\.)*"', '"pretty_env_info": "left out"', text)


def _inspect(python: str, folder: Path) -> None:
    (folder / "sums.py").write_text(INSPECT, encoding="utf-8")
    _run(python, "sums.py", folder=folder)
    for source, target in (
        ("one/*.eval", "inspect_epochs.eval"),
        ("one/*.json", "inspect_epochs.json"),
        ("two/*.eval", "inspect_scorers.eval"),
        ("chunked/*.eval", "inspect_chunked.eval"),
        ("error/*.eval", "inspect_sample_error.eval"),
        ("failed/*.eval", "inspect_failed.eval"),
    ):
        (path,) = folder.glob(source)
        shutil.copyfile(path, FILES / target)


def _old_inspect(python: str, folder: Path) -> None:
    (folder / "sums.py").write_text(OLD_INSPECT, encoding="utf-8")
    _run(python, "sums.py", folder=folder)
    (path,) = folder.glob("logs/*.eval")
    shutil.copyfile(path, FILES / "inspect_old.eval")


def _lm_eval(python: str, folder: Path) -> None:
    (folder / "capitals.yaml").write_text(LM_CHOICE, encoding="utf-8")
    (folder / "laugh.yaml").write_text(LM_WORDS, encoding="utf-8")
    capitals = [
        {"country": country, "choices": [CITIES[i], CITIES[(i + 1) % 10], CITIES[(i + 2) % 10]], "answer": 0}
        for i, country in enumerate(COUNTRIES)
    ]
    replies = ["lol", "haha", "l", "lol", "no", "l", "lol", "ha"]
    laughs = [{"prompt": f"Joke {i}:", "reply": reply} for i, reply in enumerate(replies)]
    (folder / "capitals.json").write_text(json.dumps(capitals), encoding="utf-8")
    (folder / "laugh.json").write_text(json.dumps(laughs), encoding="utf-8")
    command = "-m lm_eval --model dummy --model_args pretrained=example/words --include_path . --log_samples"
    _run(python, *command.split(), "--tasks", "capitals,laugh", "--output_path", "out", folder=folder)
    target = FILES / "lm_eval"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for path in (folder / "out").rglob("*.json*"):
        text = _neutral(path.read_text(encoding="utf-8"), folder)
        (target / path.name).write_text(text, encoding="utf-8")


def _pytest(python: str, folder: Path) -> None:
    for name, source in (
        ("test_words", PYTEST),
        ("test_skipped", SKIPPED),
        ("test_broken", "import nothing_here"),
    ):
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
        _run(
            python, "-m", "pytest", "-q", f"--junitxml={name}.xml", f"{name}.py", folder=folder, may_fail=True
        )
        text = _neutral((folder / f"{name}.xml").read_text(encoding="utf-8"), folder)
        (FILES / f"junit_{name.removeprefix('test_')}.xml").write_text(text, encoding="utf-8")


TOOLS = {"inspect": _inspect, "old-inspect": _old_inspect, "lm-eval": _lm_eval, "pytest": _pytest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for tool in TOOLS:
        parser.add_argument(f"--{tool}", metavar="PYTHON", help=f"a Python that has {tool}")
    given = vars(parser.parse_args())
    FILES.mkdir(exist_ok=True)
    for tool, make in TOOLS.items():
        if python := given[tool.replace("-", "_")]:
            with tempfile.TemporaryDirectory(prefix="run-") as folder:
                make(python, Path(folder))


if __name__ == "__main__":
    main()
