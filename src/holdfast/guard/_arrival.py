"""The rows of a later epoch: which of them are fresh, and what may be trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.dependence import Dependence
from holdfast.engines import open_rows, unsealed
from holdfast.errors import InvalidArgument
from holdfast.guard._epoch import After, link_in
from holdfast.guard._setup import Setup, model_of, random_few, set_up
from holdfast.ledger import Book

# So many rows of each earlier part are copied to train on; guesses from more would hardly be better.
_MOST_TRAINING = 5_000_000


def set_up_in(
    ledger: str | Path | Book | After | None,
    data: Any,
    train: Any,
    dependence: Dependence | None,
    *,
    failure: float,
    **options: Any,
) -> Setup:
    """Open the rows of the epoch that a book is about. In a later one those that earlier rows may still reach
    are dropped, and what is left of their influence is charged."""
    if not isinstance(ledger, After) and link_in(ledger) is None:
        return set_up(data, train, dependence, failure=failure, **options)
    rows = open_rows(data)
    model = model_of(rows, dependence)
    arrived = model.fresh(failure)
    if arrived.dropped:
        data = rows.split(~arrived.protected, arrived.protected)[1].native()
    model = arrived.protected_model
    setup = set_up(data, train, model, failure=failure - arrived.bias, **options)
    # That earlier rows are independent of these is what ``fresh`` states, and charges for.
    covered = set(model.protected_only().assumptions) - set(model.assumptions) if _trains(ledger) else set()
    stated = (*arrived.assumptions, *(said for said in setup.assumptions if said not in covered))
    return replace(
        setup,
        bias=setup.bias + arrived.bias,
        assumptions=tuple(dict.fromkeys(stated)),
        facts={**setup.facts, "dropped": arrived.dropped},
    )


def _trains(ledger: str | Path | Book | After | None) -> bool:
    """Whether the training part is known to be made of earlier rows."""
    return isinstance(ledger, After) and ledger.trains


def model_after(setup: Setup, dependence: Dependence | None, *, closed: bool) -> None:
    """Refuse rows whose model is not said, or that are tied to an account that may still be asked."""
    if dependence is None and setup.model is not None:
        raise InvalidArgument(
            "dependence",
            f"given, as a model of the new rows: the earlier ones were {setup.model.name}",
            None,
            of="Guard.next_epoch",
        )
    if dependence is not None and not closed and _reaches_back(dependence):
        raise InvalidArgument(
            "dependence",
            "independent from epoch to epoch while the earlier account is open: answers about these rows "
            "would tell something about the earlier ones. Close that account for good first "
            "(guard.close_account())",
            dependence,
            of="Guard.next_epoch",
            reference="docs/theory/epochs.md",
        )


def _reaches_back(model: Dependence) -> bool:
    """Whether what is told about new rows tells something about earlier ones too."""
    return model.follows_training or (model.n is not None and model.fresh().bias > 0)


def earlier_rows(setup: Setup, *, closed: bool) -> Any:
    """What the next epoch may train on: the training part, and the protected rows too once their account is
    closed for good; None where there is nothing."""
    import pandas

    parts = [setup.training] if setup.training is not None else []
    if closed:
        parts.append(setup.protected)
    with unsealed():  # of protected rows only those of a closed account: nobody can be asked about them
        frames = [random_few(part, _MOST_TRAINING, 0).rows.frame() for part in parts]
    return pandas.concat(frames, ignore_index=True) if frames else None
