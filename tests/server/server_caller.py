"""One person who calls the service."""

from __future__ import annotations

import pandas as pd
from starlette.testclient import TestClient


class Caller:
    """Calls the service as one person."""

    def __init__(self, client: TestClient, token: str | None) -> None:
        self.client, self.token = client, token
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def __call__(self, method: str, path: str, body=None, **headers):
        return self.client.request(method, f"/v1{path}", json=body, headers={**self.headers, **headers})

    def ask(self, question: str, dataset: str = "people", **headers):
        return self("POST", f"/datasets/{dataset}/questions", {"query": question}, **headers)


def varied(service, source: str, tag: str) -> str:
    """A source with the same rows and a column more: another table, as far as the service can tell. One table
    is registered once."""
    folder, name = service.sources, f"{tag}-{source}"
    if source.endswith(".parquet"):
        pd.read_parquet(folder / source).assign(variant=tag).to_parquet(folder / name)
    else:
        pd.read_csv(folder / source).assign(variant=tag).to_csv(folder / name, index=False)
    return name
