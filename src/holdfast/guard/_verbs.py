"""The verbs that ask a table, the same for a guard and for a client of a service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from holdfast import queries

if TYPE_CHECKING:
    from holdfast.answers import Answer, Curve, Table
    from holdfast.queries import Query
    from holdfast.typing import BoundsLike, ExpressionLike, NullValue


class Verbs(ABC):
    """What can be asked. Every verb takes ``where``, ``guess``, ``nulls``, and ``precise`` or ``nats``.

    Only the rows of ``where`` enter. ``guess`` is what you expect. ``nulls`` is what a row without a value
    counts as, or "skip". ``precise`` or ``nats`` buy a finer answer, as in :meth:`ask`.

    Each is also a question text of the same name, as in
    ``guard.ask("difference(spend, arm = 'b', arm = 'a', 0, 500)")``.
    Where values need ``bounds``, they are a pair (lo, hi), a dict with a pair for each expression, or
    "train": a range with room around the training part's values. Values outside are clipped.

    ``query`` is a question as a record or as text, and ``questions`` are several. ``expression``, ``x`` and
    ``y`` are expressions over the columns of one row, as SQL text or as ibis. ``by`` names a column, or two,
    whose values make groups. ``claim`` is a text such as "mean(x, 0, 1) > 0.5".

    Verbs that score take ``predictions`` and the column ``target`` that they are compared with. ``metric``
    names the score, and ``positive`` the label that counts as positive. ``cv`` is the number of folds that
    give the guess. ``name`` (or ``names``) is a label for readers. ``asker`` is the person who asks, if
    several share an account.

    Guarantee: the interval holds together with all others of the account (see :class:`holdfast.Guard`). The
    proofs are in ``docs/theory/statistics.md``.
    """

    @abstractmethod
    def ask(self, query: Query | str, *, precise: bool = False, nats: float | None = None) -> Answer:
        """Answer a question given as a record or as text."""

    @abstractmethod
    def table(self, query: Query | str, *, precise: bool = False, nats: float | None = None) -> Table:
        """Answer a question about each group of rows."""

    @abstractmethod
    def curve(self, query: Query | str, *, precise: bool = False, nats: float | None = None) -> Curve:
        """Answer a question about a whole distribution, ``"cdf(income)"``."""

    @property
    @abstractmethod
    def _columns(self) -> Any:
        """The columns that deferred ibis expressions refer to; None if they are not known."""

    def _asked(self, query: Query, precise: bool, nats: float | None) -> Any:
        answer = self.table if query.by else self.ask
        return answer(query, precise=precise, nats=nats)

    @overload
    def mean(
        self,
        expression: ExpressionLike,
        *,
        bounds: BoundsLike,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        weights: ExpressionLike | None = None,
        by: None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer: ...
    @overload
    def mean(
        self,
        expression: ExpressionLike,
        *,
        bounds: BoundsLike,
        by: str | Sequence[str],
        weights: ExpressionLike | None = None,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Table: ...
    def mean(
        self,
        expression: ExpressionLike,
        *,
        bounds: BoundsLike,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        weights: ExpressionLike | None = None,
        by: str | Sequence[str] | None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Any:
        """The mean of an expression, its values clipped to ``bounds``. With ``weights``, which are not
        negative, the weighted mean; with ``by``, a column or two, a table with a mean for each of its
        values."""
        query = queries.mean(
            expression,
            bounds=bounds,
            where=where,
            guess=guess,
            nulls=nulls,
            weights=weights,
            by=by,
            schema=self._columns,
        )
        return self._asked(query, precise, nats)

    @overload
    def share(
        self,
        condition: ExpressionLike,
        *,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        by: None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer: ...
    @overload
    def share(
        self,
        condition: ExpressionLike,
        *,
        by: str | Sequence[str],
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Table: ...
    def share(
        self,
        condition: ExpressionLike,
        *,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        by: str | Sequence[str] | None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Any:
        """The share of rows for which ``condition`` is true; with ``by``, a column or two, a table with a
        share for each of its values. A count is a share times the number of rows."""
        query = queries.share(condition, where=where, guess=guess, nulls=nulls, by=by, schema=self._columns)
        return self._asked(query, precise, nats)

    @overload
    def quantile(
        self,
        expression: ExpressionLike,
        q: float,
        *,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        by: None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer: ...
    @overload
    def quantile(
        self,
        expression: ExpressionLike,
        q: float,
        *,
        by: str | Sequence[str],
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Table: ...
    def quantile(
        self,
        expression: ExpressionLike,
        q: float,
        *,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        by: str | Sequence[str] | None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Any:
        """The ``q``-quantile of an expression: the interval contains every q-quantile of the distribution."""
        query = queries.quantile(
            expression, q, where=where, guess=guess, nulls=nulls, by=by, schema=self._columns
        )
        return self._asked(query, precise, nats)

    @overload
    def median(
        self,
        expression: ExpressionLike,
        *,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        by: None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer: ...
    @overload
    def median(
        self,
        expression: ExpressionLike,
        *,
        by: str | Sequence[str],
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Table: ...
    def median(
        self,
        expression: ExpressionLike,
        *,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        by: str | Sequence[str] | None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Any:
        """The median of an expression; with ``by``, a column or two, a table with a median for each of its
        values."""
        query = queries.median(expression, where=where, guess=guess, nulls=nulls, by=by, schema=self._columns)
        return self._asked(query, precise, nats)

    def ratio(
        self,
        u: ExpressionLike,
        v: ExpressionLike,
        *,
        bounds: BoundsLike,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer:
        """The mean of ``u`` divided by the mean of ``v``, which is not negative: revenue a visit."""
        query = queries.ratio(
            u, v, bounds=bounds, where=where, guess=guess, nulls=nulls, schema=self._columns
        )
        return self.ask(query, precise=precise, nats=nats)

    @overload
    def difference(
        self,
        x: ExpressionLike,
        *,
        between: ExpressionLike | Sequence[ExpressionLike],
        bounds: BoundsLike = None,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        by: None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer: ...
    @overload
    def difference(
        self,
        x: ExpressionLike,
        *,
        between: ExpressionLike | Sequence[ExpressionLike],
        by: str | Sequence[str],
        bounds: BoundsLike = None,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Table: ...
    def difference(
        self,
        x: ExpressionLike,
        *,
        between: ExpressionLike | Sequence[ExpressionLike],
        bounds: BoundsLike = None,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        by: str | Sequence[str] | None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Any:
        """The mean of ``x`` in a first group of rows less its mean in a second one: an A/B test in one
        question.

        ``between`` is two conditions, as a pair or as one text with a comma, or a column with two values.
        With a column, the later value is the first group. A condition as ``x`` counts 0 or 1 and needs no
        bounds.
        """
        query = queries.difference(
            x,
            between=between,
            bounds=bounds,
            where=where,
            guess=guess,
            nulls=nulls,
            by=by,
            schema=self._columns,
        )
        return self._asked(query, precise, nats)

    def lift(
        self,
        x: ExpressionLike,
        *,
        between: ExpressionLike | Sequence[ExpressionLike],
        bounds: BoundsLike = None,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer:
        """How much larger the mean of ``x`` is in a first group of rows than in a second one, relative to the
        second: 0.1 is a tenth more. ``x`` is not negative; ``between`` is as in :meth:`difference`."""
        query = queries.lift(
            x, between=between, bounds=bounds, where=where, guess=guess, nulls=nulls, schema=self._columns
        )
        return self.ask(query, precise=precise, nats=nats)

    def variance(
        self,
        x: ExpressionLike,
        *,
        bounds: BoundsLike,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer:
        """The variance of an expression."""
        query = queries.variance(
            x, bounds=bounds, where=where, guess=guess, nulls=nulls, schema=self._columns
        )
        return self.ask(query, precise=precise, nats=nats)

    def std(
        self,
        x: ExpressionLike,
        *,
        bounds: BoundsLike,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer:
        """The standard deviation of an expression."""
        query = queries.std(x, bounds=bounds, where=where, guess=guess, nulls=nulls, schema=self._columns)
        return self.ask(query, precise=precise, nats=nats)

    def covariance(
        self,
        x: ExpressionLike,
        y: ExpressionLike,
        *,
        bounds: BoundsLike,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer:
        """The covariance of two expressions."""
        query = queries.covariance(
            x, y, bounds=bounds, where=where, guess=guess, nulls=nulls, schema=self._columns
        )
        return self.ask(query, precise=precise, nats=nats)

    def correlation(
        self,
        x: ExpressionLike,
        y: ExpressionLike,
        *,
        bounds: BoundsLike,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer:
        """The correlation of two expressions."""
        query = queries.correlation(
            x, y, bounds=bounds, where=where, guess=guess, nulls=nulls, schema=self._columns
        )
        return self.ask(query, precise=precise, nats=nats)

    def slope(
        self,
        y: ExpressionLike,
        x: ExpressionLike,
        *,
        bounds: BoundsLike,
        where: ExpressionLike | None = None,
        guess: float | None = None,
        nulls: NullValue = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer:
        """The slope of ``y`` on ``x`` by least squares: how much ``y`` grows with one unit of ``x``."""
        query = queries.slope(
            y, x, bounds=bounds, where=where, guess=guess, nulls=nulls, schema=self._columns
        )
        return self.ask(query, precise=precise, nats=nats)

    def cdf(
        self,
        x: ExpressionLike,
        *,
        where: ExpressionLike | None = None,
        nulls: NullValue = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Curve:
        """The whole distribution of an expression at once: which share of it is at most t, at 64 quantiles
        of the training part, in one band around the training part's own distribution.

        Guarantee: all points hold together, with all other answers of the account.
        """
        query = queries.cdf(x, where=where, nulls=nulls, schema=self._columns)
        return self.curve(query, precise=precise, nats=nats)

    def histogram(
        self,
        x: ExpressionLike,
        bins: int | Sequence[float] = 10,
        *,
        where: ExpressionLike | None = None,
        nulls: NullValue = None,
    ) -> Table:
        """The share of rows in each bin, read off :meth:`cdf`, which is asked first if necessary. ``bins`` is
        their number, over what the training part shows, or their edges."""
        return self.table(queries.histogram(x, bins, where=where, nulls=nulls, schema=self._columns))
