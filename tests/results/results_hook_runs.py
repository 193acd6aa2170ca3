"""Real evaluations of Inspect with hooks of ``holdfast.inspect``: ``python results_hook_runs.py FOLDER``.

A program of its own, because Inspect changes logging and zipfile for the whole process. It writes to
``FOLDER/runs.json`` what the gates were given.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import inspect_ai
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, match, mean, scorer
from inspect_ai.solver import solver

from holdfast import Gate
from holdfast.errors import ResultsRejected
from holdfast.inspect import submit_to
from holdfast.results import read_results


class Recorder:
    """A gate that remembers what it was given."""

    def __init__(self, error: Exception | None = None) -> None:
        self.given: list[dict[str, object]] = []
        self.error = error

    def submit(self, scores, name=None, *, outputs=None, sealed=False):
        given = {"scores": dict(scores), "name": name, "outputs": outputs, "sealed": sealed}
        self.given.append(given)
        if self.error is not None:
            raise self.error
        return "not shown to be better"


def reply(messages, tools, tool_choice, config):
    """Right for numbers below 4."""
    number = int(messages[-1].text.split()[0])
    output = ModelOutput.from_content("mockllm/model", str(number + 1 if number < 4 else 0))
    output.usage = ModelUsage()  # Otherwise Inspect asks the network for a tokenizer.
    return output


@scorer(metrics=[mean()])
def polite():
    async def score(state, target):
        return Score(value=0.731)

    return score


@solver
def careful(fails):
    async def solve(state, generate):
        if fails and state.sample_id == "plus/2":
            raise RuntimeError("no sandbox")
        return await generate(state)

    return solve


def main(folder: Path) -> None:
    runs = {}

    def run(label, *, gate=None, stop=False, several=False, fails=False, eval_set=False, hook=(), **options):
        gate = gate or Recorder()
        submissions = [submit_to(gate, **{"name": "v2", **choice}) for choice in hook or ({},)]
        if stop:
            for submission in submissions * 2:
                submission.stop()
        task = inspect_ai.Task(
            name="plus",
            dataset=MemoryDataset(
                [Sample(id=f"plus/{i}", input=f"{i} plus 1", target=str(i + 1)) for i in range(6)]
            ),
            solver=careful(fails),
            scorer=[match(), polite()] if several else match(),
        )
        model = get_model("mockllm/model", custom_outputs=reply)
        common = {"model": model, "display": "none", "log_dir": str(folder / label), **options}
        print(f"run {label}", file=sys.stderr)
        logs = inspect_ai.eval_set([task], **common)[1] if eval_set else inspect_ai.eval(task, **common)
        log = logs[0]
        for submission in submissions:
            submission.stop()
        read = None
        if log.status == "success" and not (several or fails):
            read = read_results(log.location)
        runs[label] = {
            "status": log.status,
            "given": gate.given if isinstance(gate, Recorder) else None,
            "read": read and {"scores": read.scores, "outputs": read.outputs},
            "verdicts": [[str(verdict) for verdict in submission.verdicts] for submission in submissions],
            "refusals": [submission.refusals for submission in submissions],
        }

    run("epochs", epochs=2)
    run("limit", limit=3)
    run("eval set", eval_set=True, hook=({"name": "new prompt"},))
    run("scorers", several=True, hook=({}, {"metric": "match"}))
    run("missing", fails=True, fail_on_error=False)
    run("failed", fails=True, fail_on_error=True)
    run("rejected", gate=Recorder(ResultsRejected("These are other tasks.")))
    run("broken gate", gate=Recorder(KeyError("score 0.731")))
    run("stopped", stop=True)
    place = folder / "plus.gate"
    Gate(None, incumbent={f"plus/{i}": 0 for i in range(6)}, name="v1", confidence=0.5, ledger=place).close()
    run("gate", gate=place)
    (folder / "runs.json").write_text(json.dumps(runs), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
