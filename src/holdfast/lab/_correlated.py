"""The experiment of BDP with tuples that are truly correlated: a chain of rows, and families of relatives.

A row is where each of 500 attributes agrees with the label, and a state that its neighbours share. In the
chain the state is a mood that changes from one row to the next with probability 0.01; in the pedigrees, of
three generations and ten people each, it is whether a person carries an allele that is inherited as Mendel
says. Each attribute agrees with the label in 60 % of the rows in one state and in 40 % in the other; which
way round is a coin's choice. So every attribute, and every vote of attributes, agrees half of the time, and
the rows of one mood or one family err together. Given the states everything is independent, so the model of
the states is the model of the rows (``docs/theory/networks.md``, rows that carry more than their state).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.dependence import BayesianNetwork, Dependence, MarkovChain
from holdfast.guard import CodeHoldout, ReusableHoldout
from holdfast.lab._analyst import COLUMNS, Bands, Holdout, PlainHoldout, Sample, Vote, analyse, draw_bands
from holdfast.lab._figures import FigureTable, Palette, Progress, blank, save
from holdfast.stability import DP
from holdfast.workers import Workers, run_all

ATTRIBUTES = 500
SIZES = (1, 5, 11, 21, 31, 51, 75, 101)
CHANGE = 0.01
LEAN = 0.1
CARRIERS = 0.5
FAMILY: tuple[tuple[int, ...], ...] = ((), (), (0, 1), (0, 1), (), (), (2, 4), (2, 4), (3, 5), (3, 5))
"""The parents of each member: two founders, two children of theirs with partners, two grandchildren each."""
FAMILIES = 500
ROWS = {"chain": 40_000, "pedigree": FAMILIES * len(FAMILY)}
REUSABLE = {"threshold": 0.06, "noise": 0.002, "budget": 40}
CORRELATIONS = ("chain", "pedigree")
METHODS = (
    "naive reuse",
    "code guard, rows taken for independent",
    "reusable holdout, correlations known",
    "code guard, correlations known",
)

States = NDArray[np.bool_]


def chain_states(rng: np.random.Generator) -> States:
    """Moods of one row after the other."""
    changes = rng.random(ROWS["chain"]) < CHANGE
    changes[0] = rng.random() < 0.5
    moods: States = np.cumsum(changes) % 2 == 1
    return moods


def _allele() -> float:
    """How frequent the allele is where half of all people carry it."""
    return float(1.0 - np.sqrt(1.0 - CARRIERS))


def pedigree_states(rng: np.random.Generator) -> States:
    """Who carries the allele, family after family: of each parent a child inherits one of two."""
    alleles = np.empty((FAMILIES, len(FAMILY), 2), dtype=bool)
    for member, parents in enumerate(FAMILY):
        for side in range(2):
            if parents:
                inherited = rng.integers(0, 2, FAMILIES)
                alleles[:, member, side] = alleles[np.arange(FAMILIES), parents[side], inherited]
            else:
                alleles[:, member, side] = rng.random(FAMILIES) < _allele()
    carriers: States = alleles.any(axis=2).ravel()
    return carriers


@cache
def model_of(correlation: str) -> Dependence:
    """The model of the states, which is that of the rows."""
    if correlation == "chain":
        return MarkovChain(np.array([[1 - CHANGE, CHANGE], [CHANGE, 1 - CHANGE]]), n=ROWS[correlation])
    frequency = _allele()
    founder = np.array([(1 - frequency) ** 2, 2 * frequency * (1 - frequency), frequency**2])
    pass_chance = np.array([0.0, 0.5, 1.0])
    both_passed = np.outer(pass_chance, pass_chance)
    none_passed = np.outer(1 - pass_chance, 1 - pass_chance)
    child = np.stack([none_passed, 1 - none_passed - both_passed, both_passed], axis=-1)
    network = BayesianNetwork(
        {
            first + member: ([first + parent for parent in parents], child if parents else founder)
            for first in range(0, ROWS[correlation], len(FAMILY))
            for member, parents in enumerate(FAMILY)
        }
    )
    network.mean_tail(0.0, 1.0)  # once, and kept for every run
    network.bayesian_dp(DP(1.0))
    return network


def draw_rows(rng: np.random.Generator, correlation: str, directions: NDArray[np.float64]) -> Sample:
    """Agreements of attributes that lean with the state, each its way: +1 or −1."""
    states = chain_states(rng) if correlation == "chain" else pedigree_states(rng)
    chances = 0.5 + LEAN * np.outer(directions, np.where(states, 1.0, -1.0))
    return Sample.of(rng.random(chances.shape) < chances)


def _holdout_of(
    method: str, train: Sample, holdout: Sample, correlation: str, rng: np.random.Generator
) -> Holdout:
    if method == METHODS[0]:
        return PlainHoldout(holdout)
    if method == METHODS[1]:
        return CodeHoldout(train, holdout)
    if method == METHODS[3]:
        return CodeHoldout(train, holdout, dependence=model_of(correlation))
    settings: dict[str, Any] = {**REUSABLE, "simulation": True, "seed": rng}
    return ReusableHoldout(train, holdout, dependence=model_of(correlation), **settings)


def run_once(
    rng: np.random.Generator, correlation: str, attributes: int = ATTRIBUTES
) -> dict[str, list[Vote]]:
    """One analyst for each method, all on the same rows; every truth is one half."""
    directions = rng.choice([-1.0, 1.0], attributes)
    train, holdout = (draw_rows(rng, correlation, directions) for _ in range(2))
    return {
        method: analyse(
            _holdout_of(method, train, holdout, correlation, rng),
            train,
            SIZES,
            lambda chosen, signs: 0.5,
            truth=0.5,
        )
        for method in METHODS
    }


def _run(place: int, run: int) -> dict[str, list[Vote]]:
    return run_once(np.random.default_rng([2017, place, run]), CORRELATIONS[place])


def correlated(folder: Path, *, runs: int, progress: Progress, workers: Workers = 1) -> FigureTable:
    """The same analyst on a chain of rows and on families, with methods that know it and without."""
    votes_by: dict[tuple[str, str], list[list[Vote]]] = {}
    jobs = [(place, run) for place in range(len(CORRELATIONS)) for run in range(runs)]
    for (place, _), votes_of in zip(
        jobs, run_all(_run, jobs, workers=workers, progress=progress), strict=True
    ):
        for method, votes in votes_of.items():
            votes_by.setdefault((CORRELATIONS[place], method), []).append(votes)
    bands = {key: Bands.of(votes) for key, votes in votes_by.items()}
    files = save("correlated", folder, lambda colours: _picture(bands, colours))
    table = FigureTable(
        name="correlated",
        title="A vote of attributes built through a holdout whose rows are correlated",
        runs=runs,
        columns=("rows", "method", *COLUMNS),
        groups=2,
        rows=tuple((*key, *line) for key, band in bands.items() for line in band.rows(0.5)),
        notes=(
            f"{ATTRIBUTES:,} attributes. Chain: {ROWS['chain']:,} rows each for training and holdout, the "
            f"mood changes with probability {CHANGE}. Pedigree: {FAMILIES:,} families each, of {len(FAMILY)} "
            "people in three generations.",
            "reusable holdout: " + ", ".join(f"{name} {value}" for name, value in REUSABLE.items()) + ".",
            "fresh is the true agreement, ½; holds: how often the reported interval (95 %) contains "
            "it; all hold: how often every interval so far did.",
        ),
        files=(*files, "correlated.csv", "correlated.json"),
    )
    table.write(folder)
    return table


def _picture(bands: dict[tuple[str, str], Bands], colours: Palette) -> Any:
    figure = blank(10.5, 6.4, colours)
    grid = figure.subplots(len(CORRELATIONS), len(METHODS), sharex=True, sharey=True)
    for line, correlation in zip(grid, CORRELATIONS, strict=True):
        for axes, method in zip(line, METHODS, strict=True):
            draw_bands(axes, bands[correlation, method], colours)
            axes.set_ylim(0.1, 0.9)
            _say_how_often(axes, bands[correlation, method], colours)
            if correlation == CORRELATIONS[0]:
                axes.set_title(
                    method.replace(", ", "\n"), color=colours.ink, fontweight="bold", loc="left", fontsize=10
                )
            else:
                axes.set_xlabel("attributes in the vote", color=colours.ink)
        words = "rows of a chain" if correlation == CORRELATIONS[0] else "families"
        line[0].set_ylabel(f"agreement with the label\n{words}", color=colours.ink)
    handles, names = grid[0][0].get_legend_handles_labels()
    names = ["truth" if name == "fresh rows" else name for name in names]
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, labelcolor=colours.ink)
    return figure


def _say_how_often(axes: Any, bands: Bands, colours: Palette) -> None:
    """In how many runs every interval contained its true value."""
    axes.text(
        0.97,
        0.03,
        f"all intervals hold\nin {float(bands.held[:, -1].mean()):.0%} of the runs",
        color=colours.ink,
        ha="right",
        va="bottom",
        fontsize=8.5,
        transform=axes.transAxes,
    )
