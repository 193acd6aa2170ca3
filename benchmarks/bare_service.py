"""What anybody would write in a minute: one FastAPI endpoint that asks DuckDB, without an account, a book, a
token or a promise. It is what a service is compared with.

    python benchmarks/bare_service.py TABLE.parquet
"""

from __future__ import annotations

import socket
import sys

import duckdb
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Question(BaseModel):
    query: str


def app_for(table: str) -> FastAPI:
    """The endpoint ``POST /questions``: a condition in, the share of rows out."""
    database = duckdb.connect()
    database.execute("CREATE TABLE people AS SELECT * FROM read_parquet(?)", [table])
    app = FastAPI()

    @app.post("/questions")
    def ask(body: Question) -> dict[str, float]:
        statement = f"SELECT count(*) FILTER (WHERE {body.query}) / count(*) FROM people"
        (share,) = database.cursor().execute(statement).fetchone()  # type: ignore[misc]
        return {"value": share}

    return app


def main() -> None:
    place = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{place.getsockname()[1]}", flush=True)
    config = uvicorn.Config(app_for(sys.argv[1]), log_level="error", access_log=False)
    uvicorn.Server(config).run(sockets=[place])


if __name__ == "__main__":
    main()
