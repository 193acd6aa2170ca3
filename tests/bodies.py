"""How large the body of a request may be, as the service itself says it."""

from __future__ import annotations

import re

from starlette.testclient import TestClient


def largest_body(client: TestClient, token: str, path: str) -> int:
    """How many bytes a POST may have here: so many are let in, and one more is refused by its length."""

    def posted(size):
        headers = {"Authorization": f"Bearer {token}", "Content-Length": str(size)}
        return client.post(f"/v1/{path}", headers=headers)

    refused = posted(2**40)
    assert refused.status_code == 413
    most = int(re.search(r"at most ([\d,]+) bytes", refused.text)[1].replace(",", ""))
    assert posted(most + 1).status_code == 413
    assert posted(most).status_code != 413
    return most
