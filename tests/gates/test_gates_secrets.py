"""Nothing about scores leaves a gate but verdicts that are paid for."""

from __future__ import annotations

import pytest

from holdfast import Gate
from holdfast.errors import QueryRejected
from holdfast.ledger import Book, BookError

INCUMBENT = {task: int(task < 140) for task in range(200)}
BETTER = {task: int(task < 180) for task in range(200)}


class FullDisk(Book):
    """A book that can keep no more bytes once it is full."""

    full = False

    def keep(self, name: str, content: bytes) -> None:
        if self.full:
            raise BookError("The disk is full.")
        super().keep(name, content)


def test_a_promotion_that_cannot_be_kept_is_a_failure_that_is_paid_for():
    """Only a promotion keeps bytes. If the disk is full, that must not tell of one free of charge."""
    book = FullDisk()
    gate = Gate(None, incumbent=INCUMBENT, ledger=book)
    book.full = True
    with pytest.raises(QueryRejected, match="could not be compared"):
        gate.submit(BETTER, name="v2")
    charged = gate.spent
    assert charged > 3  # a failure costs ln(1/p) + ln 64
    assert gate.incumbent.name == "first incumbent"
    book.full = False
    assert gate.submit(BETTER, name="v2").promoted
    assert gate.spent > charged


def test_sealed_scores_need_a_name():
    """Without a name the same scores repeat a verdict. Who does not see the scores would learn that they are
    equal, and could read them task by task."""
    gate = Gate(None, incumbent=INCUMBENT)
    with pytest.raises(QueryRejected, match="need a name"):
        gate.submit(BETTER, sealed=True)
    assert gate.spent == 0
    assert gate.submit(BETTER, name="v2", sealed=True).promoted
    assert gate.submit(INCUMBENT).repeated is False  # Who holds the scores may leave the name out.


def test_a_name_cannot_write_markdown_or_html():
    name = "a`|<img src=x>[b](http://c)`"
    gate = Gate(None, incumbent=INCUMBENT, name=name)
    verdict = gate.submit(BETTER, name=name + "2")
    for text in (verdict.to_markdown(), gate.report().to_markdown()):
        table = [line for line in text.splitlines() if line.startswith("| ") and "img" in line]
        assert table
        for line in table:
            assert line.count("`") == 2
            assert "\\|" in line
    prose = next(line for line in verdict.to_markdown().splitlines() if line.startswith("Promoted: "))
    assert "\\<img" in prose
    assert "\\[b\\]" in prose
    for page in (verdict._repr_html_(), gate.report()._repr_html_()):
        assert "<img" not in page


def test_sealed_outputs_on_hidden_inputs_reveal_nothing():
    """A refusal free of charge would reveal how many tasks have some property, to a candidate whose outputs
    differ on inputs with that property. A person who knows the outputs may see it."""
    outputs = dict.fromkeys(INCUMBENT, "same")
    near = {**outputs, 7: "other", 8: "other"}
    hidden = Gate(None, incumbent=INCUMBENT, outputs=outputs)
    verdict = hidden.submit(INCUMBENT, name="a", outputs=near, sealed=True)
    assert not verdict.refused
    assert verdict.cost > 0
    assert "2 of 200" not in verdict.text
    assert hidden.submit(INCUMBENT, name="b", outputs=near).refused
    public = Gate(None, incumbent=INCUMBENT, outputs=outputs, inputs="public")
    assert public.submit(INCUMBENT, name="a", outputs=near, sealed=True).refused
