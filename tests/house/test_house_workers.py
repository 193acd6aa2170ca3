"""All kinds of workers give the same results, bad workers are refused, and Ctrl-C stops everything."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.audit import coverage
from holdfast.errors import InvalidArgument
from holdfast.reductions import Algorithm, replicable_to_dp
from holdfast.replicable import Tape
from holdfast.stability import GoodCoins
from holdfast.workers import as_finished, checked, run_all
from waiting import wait_until


def audited(workers, seed: int):
    """One audit of closures, and one compiled algorithm: what both find."""
    share = 0.1
    found = coverage(
        lambda rng: rng.random(), lambda u: [((share, 1.0), u)], 100, seed=seed, workers=workers, name="x"
    )

    def steps(rows, tape: Tape) -> float:
        return round(float(np.mean(rows)) + float(tape.uniforms(1)[0]) * share, 1)

    algorithm = Algorithm(steps, rows_needed=5, guarantee=GoodCoins(0.2, 0.2))
    rows = np.random.default_rng(seed).random(5_000)
    compiled = replicable_to_dp(algorithm, epsilon=2.0, delta=0.01, simulation=True, workers=workers)
    return found, [compiled(rows, Tape(number)) for number in range(3)]


@pytest.fixture(scope="module")
def dask_client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def ray_module(tmp_path_factory):
    ray = pytest.importorskip("ray")
    ray.init(
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=100 * 2**20,
        _temp_dir=str(tmp_path_factory.mktemp("r")),
    )
    yield ray
    ray.shutdown()


@pytest.fixture(
    params=["processes", "threads", "dask", pytest.param("ray", marks=pytest.mark.slow)], scope="module"
)
def crew(request):
    """Workers of every kind."""
    if request.param == "processes":
        yield 2
    elif request.param == "threads":
        with ThreadPoolExecutor(3) as pool:
            yield pool
    else:
        yield request.getfixturevalue({"dask": "dask_client", "ray": "ray_module"}[request.param])


def test_every_kind_of_worker_finds_the_same(crew, seed):
    assert audited(crew, seed) == audited(1, seed)


def test_every_kind_of_worker_reports_its_errors_and_continues(crew):
    def invert(number: int) -> float:
        return 1 / (number - 7)

    with pytest.raises(ZeroDivisionError):
        run_all(invert, [(number,) for number in range(20)], workers=crew)
    assert run_all(invert, [(8,), (9,)], workers=crew) == [1.0, 0.5]


def test_every_kind_of_worker_reports_its_progress(crew, capfd):
    told = []
    jobs = [(number,) for number in range(100)]
    run_all(abs, jobs, workers=crew, progress=lambda done, total: told.append((done, total)))
    assert told[0] == (0, 100)
    assert told[-1] == (100, 100)
    assert told == sorted(told)
    assert capfd.readouterr().out == ""


def test_the_progress_of_slow_work_is_reported_step_by_step():
    told = []
    # Work that takes long is what is tried; it may take longer.
    run_all(time.sleep, [(0.12,)] * 16, progress=lambda done, total: told.append(done))
    assert told == list(range(17))


def test_a_bar_goes_to_stderr(capsys):
    run_all(abs, [(1,), (2,)], progress=True, label="steps")
    assert capsys.readouterr().out == ""


@given(st.lists(st.integers(0, 1000), max_size=300), st.integers(1, 5))
def test_results_come_in_the_order_of_the_jobs(values, hands):
    jobs = [(value, 2) for value in values]
    with ThreadPoolExecutor(hands) as pool:
        assert run_all(pow, jobs, workers=pool) == run_all(pow, jobs) == [v * v for v in values]


@pytest.mark.parametrize("jobs", [[], [(3,)]])
def test_little_work_starts_no_worker(jobs):
    assert run_all(lambda number: os.getpid(), jobs, workers=2) == [os.getpid()] * len(jobs)


def test_work_is_shared(tmp_path):
    def who(number: int) -> int:
        """Nobody goes on before both have come."""
        (tmp_path / str(os.getpid())).touch()
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        return os.getpid()

    found = set(run_all(who, [(number,) for number in range(40)], workers=2))
    assert len(found) == 2
    assert os.getpid() not in found


def test_what_cannot_be_sent_to_a_process_runs_in_threads():
    lock = threading.Lock()

    def who(number: int) -> tuple[int, int]:
        with lock:
            return number, os.getpid()

    assert run_all(who, [(number,) for number in range(20)], workers=2) == [
        (number, os.getpid()) for number in range(20)
    ]
    kept = run_all(lambda held: held is lock, [(lock,)] * 4, workers=2)
    assert kept == [True] * 4


def test_a_large_table_can_be_written_to_in_a_process():
    rows = np.zeros(300_000)

    def count(number: int) -> float:
        mine = rows[:]
        mine[number] += 1.0
        return float(mine[number])

    assert run_all(count, [(number,) for number in range(6)], workers=2) == [1.0] * 6
    assert not rows.any()


@pytest.mark.parametrize(
    "generator", [np.random.default_rng(0), np.random.RandomState(0), random.Random(0)], ids=type
)
def test_a_generator_of_the_functions_own_is_refused(generator):
    """In processes each bundle would begin with the same state: trials that repeat, taken for new ones."""
    jobs = [(number,) for number in range(20)]
    for workers in (2, ThreadPoolExecutor(1)):
        with pytest.raises(InvalidArgument, match="generator of its own"):
            run_all(lambda number: generator.random(), jobs, workers=workers)
    assert len(set(run_all(lambda number: generator.random(), jobs))) == 20
    own = [(np.random.default_rng(number),) for number in range(20)]
    alone = run_all(lambda rng: rng.random(), [(np.random.default_rng(number),) for number in range(20)])
    assert run_all(lambda rng: rng.random(), own, workers=2) == alone


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", None, float("nan"), os])
def test_bad_workers_are_refused(wrong):
    with pytest.raises(InvalidArgument, match="'workers' argument of x must be"):
        checked(wrong, of="x")


def test_ray_must_have_begun(monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(InvalidArgument, match=r"after ray\.init"):
        checked(ray, of="x")


def test_what_is_given_up_is_not_begun():
    begun, given_up = [], threading.Event()

    def slow(number: int) -> int:
        begun.append(number)
        assert number == 0 or given_up.wait(120)
        return number

    with ThreadPoolExecutor(1) as pool:
        finished = as_finished(slow, [(number,) for number in range(64)], workers=pool, at_once=1)
        next(finished)
        finished.close()
        given_up.set()
    assert begun in ([0], [0, 1])


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_stops_everything_and_what_was_finished_is_kept(workers, tmp_path):
    script = textwrap.dedent(f"""
        import os, time
        from holdfast.audit import coverage

        def slowly(rng):
            time.sleep(0.05)  # Work that takes long, so that there is something to stop.
            os.write(1, f"{{os.getpid()}}\\n".encode())  # at once, or two processes share a line
            return rng.random()

        coverage(slowly, lambda u: [((0, 1), u)], 2000, workers={workers}, name="slow", resume="trials")
    """)
    running = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        hands = {int(running.stdout.readline())}
        deadline = time.monotonic() + 60
        while not (tmp_path / "trials").read_text().count("\n") > 1 and time.monotonic() < deadline:
            hands.add(int(running.stdout.readline()))
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does: parent and workers
        _, said = running.communicate(timeout=30)
    finally:
        running.kill()
        running.communicate()
    assert running.returncode != 0
    assert "KeyboardInterrupt" in said
    kept = (tmp_path / "trials").read_text().splitlines()
    assert 1 < len(kept) < 2001
    for hand in hands - {running.pid}:
        with pytest.raises(ProcessLookupError):
            os.kill(hand, 0)
