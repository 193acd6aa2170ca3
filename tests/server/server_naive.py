"""A service as it is often built: exact sums, fresh noise, or a fresh grid for every request; no account."""

from __future__ import annotations

import io
import math
import re

import duckdb
import numpy as np
import pandas as pd
from fastapi import FastAPI, HTTPException, Request

from holdfast import intervals

_SHARE = re.compile(r"share\((.*?)(?:, nulls = false)?(?:, guess = ([0-9.e+-]+))?\)\Z")


class Naive:
    """Answers shares of a table, and scores submissions against labels, at the addresses of the real service.

    Intervals are right for a question fixed in advance: Clopper–Pearson at 95 %. Each answer gets
    new ``noise``; ``cell`` rounds to a grid around the guess of the request.
    """

    def __init__(self, table: pd.DataFrame, *, noise: float = 0.0, cell: float = 0.0, seed: int = 0) -> None:
        self._rows, self._noise, self._cell = table, noise, cell
        self._rng = np.random.default_rng(seed)
        self._database = duckdb.connect(config={"threads": 1})
        self._database.register("given", table)
        self._database.execute("create table rows as select * from given")

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/v1/datasets/{name}/questions")
        async def ask(name: str, request: Request) -> dict[str, float]:
            condition, guess = _SHARE.match((await request.json())["query"]).groups()
            try:
                (share,) = self._database.execute(f"select avg(({condition})::double) from rows").fetchone()
            except duckdb.Error as error:
                raise HTTPException(400, str(error)) from None
            return self._answer(share, float(guess or 0.5))

        @app.post("/v1/boards/{name}/submissions")
        async def submit(name: str, request: Request) -> dict[str, float]:
            sent = pd.read_csv(io.BytesIO(await request.body()))
            return self._answer(float(np.mean(sent["prediction"] == self._rows["y"])), 0.5)

        return app

    def _answer(self, share: float, guess: float) -> dict[str, float]:
        if self._cell:
            share = guess + self._cell * round((share - guess) / self._cell)
        rows = len(self._rows)
        inside = intervals.clopper_pearson(min(max(round(share * rows), 0), rows), rows, math.log(20))
        return {
            "value": share + self._noise * self._rng.standard_normal(),
            "low": inside.low,
            "high": inside.high,
        }
