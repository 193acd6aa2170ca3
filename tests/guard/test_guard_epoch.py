"""Tables that grow: a new epoch has an account of its own, opens once, and never refills the old one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from holdfast import Guard
from holdfast.asking import Session
from holdfast.dependence import Clusters, MarkovChain, MDependent
from holdfast.engines import Rows, unsealed
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.ledger import Book, BookError, EpochLink, SigningKey, export, verify_epochs


@pytest.fixture
def week(rng):
    return lambda rows: {"x": rng.random(rows), "flag": rng.random(rows) < 0.3}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "account.holdfast"


def joined(*tables):
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def test_new_rows_have_an_account_of_their_own_and_the_old_one_stays_as_it_is(week, path):
    first = Guard(week(2000), ledger=path)
    old = first.share("flag", guess=0.9)
    second = first.next_epoch(week(1000))
    assert (second.spent, second.rows, second.epoch.number) == (0, 1000, 2)
    assert len(second.train) == 667  # The old training part; the old protected rows may still be asked.
    new = second.share("flag", guess=0.9)
    assert new.cost > 2
    assert first.spent == old.cost
    assert second.spent == new.cost
    assert first.share("x > 0.5").cost > 0
    assert first.share("flag") == old != new


def test_a_closed_account_gives_its_rows_to_the_next_one(week):
    table = week(2000)
    first = Guard(table)
    first.share("flag")
    first.close_account()
    second = first.next_epoch(week(1500))
    assert second.rows == 1500
    assert sorted(second.train.x) == sorted(table["x"])
    assert second.share("flag").guess == pytest.approx(table["flag"].mean())
    assert "supplied by the caller" not in str(second.certificate)
    assert "independent of all rows of earlier epochs" in str(second.certificate)
    third = second.next_epoch(week(10))
    assert len(third.train) == 2000


def test_more_training_rows_and_more_protected_rows_make_answers_narrower(week):
    closed, still_open = Guard(week(4000)), Guard(week(4000))
    closed.close_account()
    new = week(4000)
    guards = closed.next_epoch(new), still_open.next_epoch(new), Guard(new)
    widths = [guard.left.share_half_width for guard in guards]
    assert widths == sorted(widths)
    assert widths[0] < 0.85 * widths[2]


def test_a_grown_table_is_refused_in_words_that_name_the_way(week, path):
    old, new = week(2000), week(500)
    guard = Guard(old, ledger=path)
    with pytest.raises(BookError, match=r"never refilled.*guard\.next_epoch\(new_rows\)\.") as refused:
        Guard(joined(old, new), ledger=path)
    assert "data" in str(refused.value)
    guard.next_epoch(new)
    with pytest.raises(BookError, match="epoch 2, 500 rows"):
        Guard(new, ledger=path)


@pytest.mark.parametrize("kind", ["the same", "grown", "a file"])
def test_the_old_rows_again_are_refused_before_anything_is_written(week, path, tmp_path, kind):
    old = week(2000)
    guard = Guard(old, ledger=path)
    again = joined(old, week(300)) if kind == "grown" else old
    if kind == "a file":
        again = tmp_path / "again.parquet"
        pd.DataFrame(old).to_parquet(again)
    with pytest.raises(InvalidArgument, match="has rows of epoch 1 again"):
        guard.next_epoch(again)
    book = Book(path)
    assert [event.kind for event in book.events()] == ["open"]
    book.close()
    assert sorted(file.name for file in tmp_path.iterdir() if "epoch" in file.name) == []


def test_new_rows_with_common_values_are_not_mistaken_for_old_ones():
    assert Guard({"x": np.ones(200)}).next_epoch({"x": np.ones(100)}).rows == 100
    assert Guard({"x": np.arange(30) % 2}).next_epoch({"x": np.arange(8) % 2}, train={"x": [0, 1]}).rows == 8


def test_an_epoch_opens_once_and_continues(week, path):
    old, new = week(2000), week(900)
    first = Guard(old, ledger=path)
    second = first.next_epoch(new, confidence=0.9)
    answer = second.share("flag")
    again = Guard(old, ledger=path).next_epoch(new, confidence=0.9)
    assert again.spent == second.spent
    assert again.share("flag").to_dict() == answer.to_dict()
    with pytest.raises(BookError, match="confidence"):
        first.next_epoch(new, confidence=0.99)
    with pytest.raises(BookError, match="followed by another epoch"):
        first.next_epoch(week(901))
    alone = Guard(new, train=first.train, ledger=path.with_name("account.epoch-2.holdfast"), confidence=0.9)
    assert alone.epoch == second.epoch
    assert alone.spent == second.spent


def test_an_epoch_whose_book_is_lost_is_not_opened_a_second_time(week, path):
    first, new = Guard(week(2000), ledger=path), week(900)
    second = first.next_epoch(new)
    second.share("flag", guess=0.9)
    second.close()
    path.with_name("account.epoch-2.holdfast").unlink()
    with pytest.raises(BookError, match="Restore that book"):
        first.next_epoch(new)
    in_memory = Guard(week(2000))
    in_memory.next_epoch(new)
    with pytest.raises(BookError, match="never refilled"):
        in_memory.next_epoch(new)


def test_a_crash_between_the_announcement_and_the_opening_is_recovered(week, path, monkeypatch):
    first, new = Guard(week(2000), ledger=path), week(900)

    def die(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "__init__", die)
    with pytest.raises(KeyboardInterrupt):
        first.next_epoch(new)
    monkeypatch.undo()
    # Closed only now, after the announcement: the epoch stays the one that was announced.
    first.close_account()
    second = first.next_epoch(new)
    assert len(second.train) == 667
    assert not EpochLink.of(second._book).closed


def test_an_account_that_is_closed_while_the_next_epoch_opens_gives_its_rows_at_the_next_try(
    week, path, monkeypatch
):
    table, new = week(2000), week(900)
    first = Guard(table, ledger=path)
    seal = Rows.seal

    def closed_meanwhile(rows):
        """The new rows are set aside only after it was looked up whether the account is closed."""
        monkeypatch.setattr(Rows, "seal", seal)
        Guard(table, ledger=path).close_account()
        seal(rows)

    monkeypatch.setattr(Rows, "seal", closed_meanwhile)
    with pytest.raises(BookError, match="Try again"):
        first.next_epoch(new)
    monkeypatch.undo()
    second = first.next_epoch(new)
    assert len(second.train) == 2000
    assert EpochLink.of(second._book).closed
    again = Guard(table, ledger=path).next_epoch(new)  # What was trained on is what the link says.
    assert len(again.train) == 2000


def test_all_epochs_together_hold_by_the_union_bound(week):
    guard = Guard(week(400), confidence=0.98)
    assert guard.epoch.together == 0.98
    second = guard.next_epoch(week(100), confidence=0.97)
    third = second.next_epoch(week(100))
    assert [second.epoch.together, third.epoch.together] == pytest.approx([0.95, 0.92])
    assert third.epoch.together <= 0.92
    assert third.certificate.numbers["all epochs hold together with"] == third.epoch.together
    assert "epoch" not in guard.certificate.numbers


def test_a_schedule_keeps_any_number_of_epochs_within_one_promise(week):
    guard, failures = Guard(week(400), confidence=0.975), [0.025]
    for _ in range(6):
        guard = guard.next_epoch(week(50), together=0.95)
        failures.append(1 - guard.confidence)
    np.testing.assert_allclose(failures, [0.05 / (i * (i + 1)) for i in range(1, 8)], rtol=1e-9)
    assert sum(failures) < 0.05
    assert guard.epoch.together >= 0.95
    with pytest.raises(InvalidArgument, match="together"):
        guard.next_epoch(week(50), together=0.99)
    with pytest.raises(InvalidArgument, match="confidence is given"):
        guard.next_epoch(week(50), together=0.9, confidence=0.99)
    with pytest.raises(InvalidArgument, match="together"):
        guard.next_epoch(week(50), together=float("nan"))


def chain(rows):
    return MarkovChain([[0.9, 0.1], [0.1, 0.9]], rows)


def test_a_chain_loses_a_gap_pays_for_it_and_needs_the_old_account_closed(rng):
    states = {"state": np.cumsum(rng.random(6000) < 0.1) % 2, "place": np.arange(6000)}
    old = {name: values[:3000] for name, values in states.items()}
    new = {name: values[3000:] for name, values in states.items()}
    guard = Guard(old, dependence=chain(3000))
    with pytest.raises(InvalidArgument, match="give a model of the new rows"):
        guard.next_epoch(new)
    with pytest.raises(InvalidArgument, match=r"close_account\(\)"):
        guard.next_epoch(new, dependence=chain(3000))
    guard.close_account()
    with pytest.raises(InvalidArgument, match="3,000 rows"):
        guard.next_epoch(new, dependence=chain(2999))
    later = guard.next_epoch(new, dependence=chain(3000))
    dropped = 3000 - later.rows
    assert dropped == chain(3000).fresh(0.05).dropped > 10
    with unsealed():
        assert later._setup.protected.rows.frame()["place"].min() == 3000 + dropped
    fresh = chain(3000).fresh(0.05)
    blocks = fresh.protected_model.layouts(0.05 - fresh.bias)
    numbers = later.certificate.numbers
    assert numbers["charged for the split"] == pytest.approx(fresh.bias)
    assert numbers["charged for blocks"] == pytest.approx(sum(layout.price for layout in blocks))
    assert 0 < fresh.bias <= 0.05 / 20
    assert 0 < numbers["charged for blocks"] <= 0.05 / 20
    answer = later.share("state = 1")
    assert answer.low < 0.5 < answer.high
    assert any("come after all rows of earlier epochs" in said for said in answer.certificate.assumed)


def test_m_dependent_rows_and_families_say_what_is_assumed_of_earlier_ones(week):
    first = Guard(week(400), dependence=MDependent(400, 3))
    second = first.next_epoch(week(100), dependence=MDependent(100, 3))
    assert second.rows == 97
    families = Guard(week(400), dependence=Clusters([4] * 100))
    later = families.next_epoch(week(80), dependence=Clusters([4] * 20))
    assert later.rows == 80
    assert "No cluster has rows in two epochs" in str(later.certificate)
    with pytest.raises(NotEnoughRows):
        first.next_epoch(week(3), dependence=MDependent(3, 3), ledger=Book())


def test_the_old_account_is_closed_on_the_way_unless_the_rows_are_known_not_to_be_new(week):
    guard = Guard(week(300))
    for table in (guard.train, joined(guard._setup.training.rows.frame(), week(50))):
        with pytest.raises(InvalidArgument, match="has rows of epoch 1 again"):
            guard.next_epoch(table, close=True)
    with pytest.raises(InvalidArgument, match="confidence"):
        guard.next_epoch(week(100), close=True, confidence=2.0)
    assert not guard.closed
    assert len(guard.next_epoch(week(100), close=True).train) == 300
    assert guard.closed


@pytest.mark.parametrize("strategy", ["typical-gaussian", "transfer-gaussian", "split"])
def test_strategies_with_a_fixed_number_of_questions_have_it_again_in_a_new_epoch(week, strategy):
    first = Guard(week(2000), strategy=strategy, queries=2)
    first.share("flag")
    first.share("x > 0.5")
    second = first.next_epoch(week(1000))
    assert second.left == 2
    assert second.train is None
    assert second.share("flag").cost == 1


def test_without_training_rows_a_later_epoch_has_none_by_default(week):
    first = Guard(week(200), training_share=0)
    second = first.next_epoch(week(100))
    assert (second.rows, second.train) == (100, None)
    assert second.next_epoch(week(100), training_share=0.5).rows == 50


def test_exports_of_all_epochs_verify_as_one_story(week, path, tmp_path):
    key = SigningKey.generate()
    guards = [Guard(week(800), ledger=Book(path, key=key))]
    receipts = [guards[0].share("flag").receipt]
    guards[0].close_account()
    for rows in (300, 200):
        guards.append(guards[-1].next_epoch(week(rows)))
        receipts.append(guards[-1].share("flag").receipt)
    exports = [tmp_path / f"epoch{guard.epoch.number}" for guard in guards]
    for guard, place in zip(guards, exports, strict=True):
        export(guard._book, place)
    found = verify_epochs(exports, key.public, receipts=receipts)
    assert all(one.whole for one in found), found
    assert [one.epoch for one in found] == [1, 2, 3]
    assert [one.receipts for one in found] == [1, 1, 1]
    assert [EpochLink.of(guard._book).closed for guard in guards[1:]] == [True, False]
    for wrong in ([exports[0], exports[2]], [exports[1], exports[0]], [exports[0], exports[0]]):
        assert [problem.kind for problem in verify_epochs(wrong, key.public)[1].problems] == ["epoch"]
    strange = [receipt for receipt in receipts if receipt.book != guards[0]._book.identity]
    assert not verify_epochs(exports[:1], key.public, receipts=strange)[0].whole


def test_epochs_that_together_promise_nothing_any_more_still_verify(week, tmp_path):
    guard, exports = Guard(week(400), confidence=0.6), []
    for number in range(1, 5):
        exports.append(tmp_path / str(number))
        later = guard.next_epoch(week(100))
        export(guard._book, exports[-1])
        guard = later
    assert guard.epoch.together == 0
    found = verify_epochs(exports)
    assert all(one.whole for one in found), found


def test_a_second_book_for_an_epoch_does_not_verify(week, path, tmp_path):
    """A refill behind the software's back: the same announcement, another book."""
    first, new = Guard(week(800), ledger=path), week(300)
    second = first.next_epoch(new)
    opened = Book(tmp_path / "account.epoch-2.holdfast").opening.body
    forged = Book(tmp_path / "forged")
    forged.append("open", {**opened, "nonce": "0" * 32}, after=0)
    export(first._book, tmp_path / "one")
    export(second._book, tmp_path / "two")
    export(forged, tmp_path / "other")
    assert verify_epochs([tmp_path / "one", tmp_path / "two"])[1].whole
    (problem,) = verify_epochs([tmp_path / "one", tmp_path / "other"])[1].problems
    assert "opened another book" in problem.words


def test_a_link_that_counts_too_little_is_named(week, path, tmp_path):
    first = Guard(week(800), ledger=path, confidence=0.9)
    second = first.next_epoch(week(300))
    opened = second._book.opening.body
    for change, says in (
        ({"failure_before": 0.01}, "is less than theirs"),
        ({"closed": True}, "closed for good"),
        ({"number": 3}, "not the next"),
        ({"line": 1}, "did not announce"),
    ):
        forged = Book()
        forged.append("open", {**opened, "epoch": {**opened["epoch"], **change}}, after=0)
        export(first._book, tmp_path / "one")
        export(forged, tmp_path / "other")
        words = [
            problem.words for problem in verify_epochs([tmp_path / "one", tmp_path / "other"])[1].problems
        ]
        assert any(says in word for word in words), words


def test_a_book_in_postgresql_has_its_epochs_beside_it(week, place):
    first = Guard(week(500), ledger=place)
    second = first.next_epoch(week(200))
    second.share("flag")
    third = second.next_epoch(week(200))
    assert third.epoch.number == 3
    assert "epoch-3" in third._book.name
    assert "epoch-2" not in third._book.name
    for guard in (first, second, third):
        guard.close()


def test_bad_data_leaves_no_book_behind(week, path, tmp_path):
    guard = Guard(week(500), ledger=path)
    with pytest.raises(InvalidArgument):
        guard.next_epoch(week(100), confidence=2.0)
    with pytest.raises(NotEnoughRows):
        Guard({"x": [1.0]}, ledger=tmp_path / "never")
    assert {file.name.split("-")[0] for file in tmp_path.iterdir()} == {"account.holdfast"}


def test_a_shuffled_copy_of_few_values_is_not_recognised_and_breaks_the_promise(rng):
    """What the software cannot see: rows that are few values and no more, in another order. Behind a fresh
    account they fall to what was learned about them."""
    rows, columns = 600, 301
    coins, truth = rng.integers(0, 2, (rows, columns)), rng.integers(0, 2, rows)
    signs = np.sign((coins == truth[:, None]).mean(0) - 0.5)

    def asked(coins, truth, order):
        first = Guard({"truth": truth})
        first.close_account()
        later = first.next_epoch({"truth": truth[order]})
        vote = ((2 * coins - 1) @ signs > 0).astype(int)[order]
        return later.score(vote, target="truth", guess=0.7)

    again = asked(coins, truth, rng.permutation(rows))
    assert again.low > 0.5  # The truth is one half.
    fresh = asked(rng.integers(0, 2, (rows, columns)), rng.integers(0, 2, rows), rng.permutation(rows))
    assert fresh.low <= 0.5 <= fresh.high
