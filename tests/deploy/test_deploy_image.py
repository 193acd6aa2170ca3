"""The image of deploy/Dockerfile, built and run as deploy/compose.yaml runs it.

This needs Docker or Podman, the base image, and the package index. HOLDFAST_BASE_IMAGE names another base
image than that of the Dockerfile, such as one that was made on the machine itself.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"

ASK = """
import json, os, stat, sys
from pathlib import Path
from urllib.request import Request, urlopen

home = Path("/var/lib/holdfast")
token = (home / "owner-token").read_text().strip()

def post(path, body):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = Request(f"http://127.0.0.1:8344/v1/{path}", json.dumps(body).encode(), headers)
    with urlopen(request, timeout=60) as reply:
        return json.load(reply)

post("datasets", {"name": "t", "source": "t.parquet", "policy": {}})
answer = post("datasets/t/questions", {"query": "share(x > 0.5, guess = 0.5)"})
modes = {}
for path in [home, *home.rglob("*")]:
    modes.setdefault("folder" if path.is_dir() else "file", set()).add(stat.S_IMODE(path.stat().st_mode))
writable = [place for place in ("/", "/data", "/opt/holdfast", "/usr") if os.access(place, os.W_OK)]
json.dump(
    {
        "answer": answer,
        "modes": {kind: sorted(values) for kind, values in modes.items()},
        "user": [os.getuid(), os.getgid()],
        "writable": writable,
    },
    sys.stdout,
)
"""


@pytest.fixture(scope="module")
def base():
    default = re.search(r"^ARG BASE=(\S+)$", DOCKERFILE.read_text(), flags=re.M)[1]
    return os.environ.get("HOLDFAST_BASE_IMAGE", default)


@pytest.fixture(scope="module")
def engine(base):
    """A function that runs a container engine which has the base image."""
    for program in filter(None, map(shutil.which, ("docker", "podman"))):
        if subprocess.run([program, "image", "inspect", base], capture_output=True).returncode == 0:
            break
    else:
        pytest.skip(f"no container engine runs here, or it does not have the image {base}")

    def run(*arguments, **options):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run.program = program
    return run


@pytest.fixture(scope="module")
def image(engine, base):
    name = f"holdfast-test-{secrets.token_hex(4)}"
    # Podman keeps the health check in this format only.
    podman = ["--format", "docker"] if Path(engine.program).name == "podman" else []
    options = ["--file", str(DOCKERFILE), "--build-arg", f"BASE={base}", "--tag", name]
    engine("build", *podman, *options, str(ROOT))
    yield name
    engine("image", "rm", "--force", name)


@pytest.fixture
def container(engine, image, tmp_path):
    """A running service without a network, and with nothing that it does not need."""
    name = f"{image}-service"
    tmp_path.chmod(0o755)
    table = pd.DataFrame({"x": np.random.default_rng(0).random(4_000)})
    table.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.parquet").chmod(0o644)
    engine(
        *("run", "--detach", "--name", name, "--network", "none", "--read-only", "--tmpfs", "/tmp"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--volume", f"{name}:/var/lib/holdfast", "--volume", f"{tmp_path}:/data:ro", image),
    )
    yield name
    engine("rm", "--force", name)
    engine("volume", "rm", name)


def test_the_image_serves_without_rights_and_stops_when_asked(engine, container):
    health = json.loads(re.search(r"^HEALTHCHECK .*?CMD (\[.*?\])$", DOCKERFILE.read_text(), re.M | re.S)[1])
    is_ready = [engine.program, "exec", container, *health]
    wait_until(lambda: subprocess.run(is_ready, capture_output=True).returncode == 0)
    report = json.loads(engine("exec", "--interactive", container, "python", "-", input=ASK))
    assert report["answer"]["low"] <= 0.5 <= report["answer"]["high"]
    assert report["modes"] == {"folder": [0o700], "file": [0o600]}
    assert report["user"] == [10001, 10001]
    assert report["writable"] == []
    engine("stop", "--time", "90", container)
    # 137 would mean that it had to be killed.
    assert engine("inspect", "--format", "{{.State.ExitCode}}", container).strip() == "0"
