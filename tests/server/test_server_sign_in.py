"""People sign in by an OpenID Connect provider that really runs, or by a proxy, and have the roles that a
file gives them."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import subprocess
import sys
import time
from threading import Event
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.registry import COOKIE, Refused, SignIn
from holdfast.server import Service, create_app
from waiting import wait_on_loop

URL = "http://127.0.0.1:8344"
PROXY_SECRET = "p" * 40
RULES = """
[[allow]]
claim = "groups"
value = "analysts"
role = "analyst"
reach = "people"
team = "town"

[[allow]]
claim = "groups"
value = "keepers"
role = "owner"
reach = "dataset:other"

[[allow]]
claim = "groups"
value = "lab"
role = "analyst"
reach = "dataset:other"
team = "lab"
"""


@pytest.fixture(scope="module")
def provider(tmp_path_factory):
    """The address of a provider in a process of its own."""
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import oidc_provider_mock as p\n"
        "with p.run_server_in_thread(require_nonce=True) as server:\n"
        "    print(server.server_port, flush=True)\n"
        "    input()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    address = f"http://localhost:{int(process.stdout.readline())}"
    yield address
    process.communicate("\n", timeout=30)


@pytest.fixture
def file(tmp_path, provider):
    """What the owner wrote down about signing in."""
    for name, secret in (("oidc", "not known to anybody"), ("proxy", PROXY_SECRET)):
        (tmp_path / name).write_text(secret)
    path = tmp_path / "sign-in.toml"
    path.write_text(
        f'[oidc]\nissuer = "{provider}"\nclient_id = "holdfast"\nurl = "{URL}"\n'
        f'client_secret_file = "{tmp_path / "oidc"}"\nscopes = "openid profile groups"\n'
        f'[proxy]\nsecret_file = "{tmp_path / "proxy"}"\n{RULES}'
    )
    return path


@pytest.fixture
def serving(set_up, tmp_path, file):
    """A client of a service that people can sign in to."""
    home = tmp_path / "home"
    shutil.copytree(set_up, home)
    service = Service(home, sign_in=file)
    transport = httpx.ASGITransport(create_app(service), raise_app_exceptions=False)
    yield service, transport
    service.close()


class Browser:
    """A browser as far as signing in goes: cookies, redirects, and the page's header."""

    def __init__(self, transport):
        self.service = httpx.AsyncClient(transport=transport, base_url=URL)

    async def begin(self):
        reply = await self.service.get("/v1/sign-in/start")
        assert reply.status_code == 303
        return reply.headers["location"]

    async def sign_in(self, provider, subject, *, location=None):
        """Go to the provider, say who one is, and come back."""
        location = location or await self.begin()
        async with httpx.AsyncClient() as outside:
            reply = await outside.post(location, data={"sub": subject})
        assert reply.status_code == 302, reply.text
        back = reply.headers["location"]
        assert back.startswith(f"{URL}/v1/sign-in/back")
        return await self.service.get(back)

    async def get(self, path):
        return await self.service.get(f"/v1{path}")

    async def post(self, path, body=None, *, header=True):
        headers = {"X-Holdfast": "page"} if header else {}
        return await self.service.post(f"/v1{path}", json=body, headers=headers)


def known(provider, subject, **claims):
    """Somebody whom the provider knows."""
    httpx.put(f"{provider}/users/{subject}", json=claims).raise_for_status()


@pytest.mark.anyio
class TestByProvider:
    async def test_each_has_the_roles_of_the_rules_that_fit(self, serving, provider):
        known(provider, "ann", groups=["analysts", "keepers", "cooks"])
        _, transport = serving
        browser = Browser(transport)
        assert (await browser.get("/me")).status_code == 401
        reply = await browser.sign_in(provider, "ann")
        assert (reply.status_code, reply.headers["location"]) == (303, "/")
        me = (await browser.get("/me")).json()
        assert (me["name"], me["team"], me["role"], me["dataset"]) == (
            "ann",
            "town",
            "analyst",
            "dataset:people",
        )
        assert me["also"] == [{"role": "owner", "dataset": "dataset:other"}]
        names = [dataset["name"] for dataset in (await browser.get("/datasets")).json()]
        assert names == ["other", "people"]
        question = {"query": "share(age > 40)"}
        assert (await browser.post("/datasets/people/questions", question)).status_code == 200
        # An owner of one thing is none of another, and registers nothing.
        assert (await browser.post("/datasets/people/close")).status_code in (403, 404)
        assert (await browser.post("/datasets", {"name": "x", "source": "x.csv"})).status_code == 403
        assert (await browser.post("/datasets/other/close")).status_code == 200

    async def test_whoever_no_rule_is_about_stays_outside(self, serving, provider):
        known(provider, "eve", groups=["cooks"], role="analyst")
        browser = Browser(serving[1])
        reply = await browser.sign_in(provider, "eve")
        assert reply.status_code == 401
        assert COOKIE not in browser.service.cookies
        assert (await browser.get("/me")).status_code == 401

    async def test_a_sign_in_counts_in_the_browser_that_began_it_only(self, serving, provider):
        """Otherwise somebody could sign a victim in as themselves, or use a code that they saw."""
        known(provider, "ann", groups=["analysts"])
        mine, other = Browser(serving[1]), Browser(serving[1])
        location = await mine.begin()
        assert (await other.sign_in(provider, "ann", location=location)).status_code == 401
        state = parse_qs(urlsplit(location).query)
        assert state["code_challenge_method"] == ["S256"]
        # The same code twice.
        async with httpx.AsyncClient() as outside:
            back = (await outside.post(location, data={"sub": "ann"})).headers["location"]
        assert (await mine.service.get(back)).status_code == 303
        assert (await mine.service.get(back)).status_code == 401
        changed = re.sub("state=[^&]+", "state=other", back)
        assert (await mine.service.get(changed)).status_code == 401

    async def test_what_a_session_changes_needs_the_page(self, serving, provider):
        known(provider, "ann", groups=["analysts"])
        browser = Browser(serving[1])
        await browser.sign_in(provider, "ann")
        question = {"query": "share(age > 41)"}
        refused = await browser.post("/datasets/people/questions", question, header=False)
        assert refused.status_code == 403
        assert (await browser.get("/datasets/people/history")).json()["answers"] == []
        cookie = next(one for one in browser.service.cookies.jar if one.name == COOKIE)
        assert cookie.has_nonstandard_attr("HttpOnly")
        assert cookie.get_nonstandard_attr("SameSite").lower() == "strict"

    @pytest.mark.parametrize("other", ['prefs={"a":1}', "x,y=1", "flag", "a b=1"])
    async def test_cookies_of_other_programs_do_no_harm(self, serving, provider, other):
        """Another program at the same name can set cookies that Python's own parser stops at."""
        known(provider, "ann", groups=["analysts"])
        browser = Browser(serving[1])
        headers = {"Cookie": f"{other}; {COOKIE}=unknown"}
        assert (await browser.service.get("/v1/me", headers=headers)).status_code == 401
        await browser.sign_in(provider, "ann")
        headers = {"Cookie": f"{other}; {COOKIE}={browser.service.cookies[COOKIE]}"}
        browser.service.cookies.clear()
        assert (await browser.service.get("/v1/me", headers=headers)).json()["name"] == "ann"

    async def test_signing_out_and_being_put_out(self, serving, provider):
        known(provider, "ann", groups=["analysts"])
        service, transport = serving
        first, second = Browser(transport), Browser(transport)
        await first.sign_in(provider, "ann")
        await second.sign_in(provider, "ann")
        identity = (await first.get("/me")).json()["identity"]
        kept = dict(first.service.cookies)
        assert (await first.post("/sign-out")).status_code == 204
        first.service.cookies.update(kept)
        assert (await first.get("/me")).status_code == 401  # The session is over, not only the cookie.
        assert (await second.get("/me")).status_code == 200
        owner = service.tokens.issue("olga", role="owner")[0]
        ended = await first.service.delete(
            f"/v1/sessions/{identity}", headers={"Authorization": f"Bearer {owner}"}
        )
        assert ended.status_code == 204
        assert (await second.get("/me")).status_code == 401

    async def test_sessions_end_and_rules_change(self, serving, provider, file, monkeypatch):
        known(provider, "ann", groups=["analysts"])
        service, transport = serving
        browser = Browser(transport)
        await browser.sign_in(provider, "ann")
        secret = browser.service.cookies[COOKIE]
        now = time.time()
        with monkeypatch.context() as later:
            later.setattr(time, "time", lambda: now + 9 * 3600)
            with pytest.raises(Refused):
                service.sign_in.holder(secret)
        file.write_text(file.read_text().replace('"analysts"', '"nobody"'))
        changed = SignIn(service.places.store("sessions"), file, service._derived("sign-in"))
        with pytest.raises(Refused, match="no rule"):
            changed.holder(secret)
        changed.close()

    async def test_nothing_secret_is_stored(self, serving, provider):
        known(provider, "ann", groups=["analysts"])
        service, transport = serving
        browser = Browser(transport)
        await browser.sign_in(provider, "ann")
        secret = browser.service.cookies[COOKIE].encode()
        assert len(secret) >= 43
        for path in service.home.rglob("*"):
            if path.is_file():
                assert secret not in path.read_bytes()


class Forged:
    """A provider's answer that somebody else made."""

    def __init__(self, provider, **changes):
        self.key = RSAKey.generate_key(2048)
        claims = {
            "iss": provider.issuer,
            "aud": "holdfast",
            "sub": "ann",
            "nonce": "n",
            "groups": ["analysts"],
        }
        claims |= {"exp": int(time.time()) + 600, "iat": int(time.time())} | changes
        self.token = jwt.encode({"alg": "RS256"}, claims, self.key)


@pytest.mark.parametrize(
    ("changes", "signed"),
    [
        ({}, False),
        ({"nonce": "another"}, True),
        ({"aud": "another"}, True),
        ({"iss": "https://another.example"}, True),
        ({"exp": 1}, True),
    ],
    ids=["signature", "nonce", "audience", "issuer", "expired"],
)
def test_an_answer_that_is_not_the_providers_is_refused(serving, monkeypatch, changes, signed):
    provider = serving[0].sign_in.provider
    forged, honest = Forged(provider, **changes), Forged(provider)
    known_keys = {"keys": [(forged if signed else honest).key.as_dict(private=False)]}
    get = provider._get
    monkeypatch.setattr(provider, "_get", lambda url: known_keys if "jwks" in url else get(url))
    with pytest.raises(Refused):
        provider._checked(forged.token, "n")
    assert provider._addresses_and_keys()[1] is not None
    if signed:
        good = jwt.encode({"alg": "RS256"}, {**_claims(honest.token, honest.key)}, forged.key)
        assert provider._checked(good, "n")["sub"] == "ann"


@pytest.mark.parametrize("written", ["https://id.example/town", "https://id.example/town/"])
@pytest.mark.parametrize("called", ["https://id.example/town", "https://id.example/town/"])
def test_an_issuer_may_end_with_a_slash(serving, file, provider, monkeypatch, written, called):
    """Auth0 and Authentik call themselves so; the file may say it either way."""
    file.write_text(file.read_text().replace(provider, written))
    provider = SignIn(serving[0].places.store("sessions"), file, b"a key").provider
    honest = Forged(provider, iss=called)
    other = Forged(provider, iss="https://id.example/other/")
    keys = {"keys": [honest.key.as_dict(private=False)]}
    facts = {"issuer": called, "jwks_uri": "https://id.example/jwks"}
    monkeypatch.setattr(provider, "_get", lambda url: keys if "jwks" in url else facts)
    assert provider._checked(honest.token, "n")["sub"] == "ann"
    with pytest.raises(Refused):
        provider._checked(jwt.encode({"alg": "RS256"}, _claims(other.token, other.key), honest.key), "n")


def _claims(token, key):
    return jwt.decode(token, key).claims


def test_no_answer_is_signed_with_nothing_or_with_a_shared_secret(serving):
    provider = serving[0].sign_in.provider
    header = {"alg": "none"}

    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {"iss": provider.issuer, "aud": "holdfast", "sub": "ann", "nonce": "n", "exp": 2**40}
    with pytest.raises(Refused):
        provider._checked(f"{part(header)}.{part(claims)}.", "n")


@pytest.mark.anyio
async def test_a_proxy_is_believed_by_its_secret_only(serving):
    _, transport = serving
    async with httpx.AsyncClient(transport=transport, base_url=URL) as client:
        said = {"X-Forwarded-User": "bob", "X-Forwarded-Groups": "cooks, analysts"}
        assert (await client.get("/v1/me", headers=said)).status_code == 401
        wrong = {**said, "X-Holdfast-Proxy": "q" * 40}
        assert (await client.get("/v1/me", headers=wrong)).status_code == 401
        right = {**said, "X-Holdfast-Proxy": PROXY_SECRET}
        me = (await client.get("/v1/me", headers=right)).json()
        assert (me["name"], me["role"]) == ("bob", "analyst")
        nobody = {**right, "X-Forwarded-Groups": ""}
        assert (await client.get("/v1/me", headers=nobody)).status_code == 401


@pytest.mark.anyio
async def test_what_a_browser_behind_a_proxy_changes_needs_the_page(serving):
    """Another site can make a browser send a form, and the proxy adds who its person is."""
    service, transport = serving
    headers = {
        "X-Forwarded-User": "kim",
        "X-Forwarded-Groups": "keepers",
        "X-Holdfast-Proxy": PROXY_SECRET,
    }
    async with httpx.AsyncClient(transport=transport, base_url=URL, headers=headers) as client:
        path = "/v1/datasets/other/archive"
        for browser in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "none"}):
            refused = await client.post(path, data={"a": "b"}, headers=browser)
            assert refused.status_code == 403, browser
        assert service.datasets.states.of("other") is None
        assert (await client.get("/v1/me", headers={"Origin": "https://evil.example"})).status_code == 200
        page = {"Origin": URL, "X-Holdfast": "page"}
        assert (await client.post(path, headers=page)).status_code == 200
        # A program says so itself, or is refused too.
        assert (await client.post("/v1/datasets/other/unarchive")).status_code == 403


@pytest.mark.anyio
@pytest.mark.parametrize("header", ["X-Forwarded-User", "X-Forwarded-Groups"])
async def test_a_header_that_came_twice_is_not_believed(serving, header):
    """A proxy that appends its header to one of the client's would let the client say who it is."""
    _, transport = serving
    headers = [
        (header, "keepers"),
        ("X-Forwarded-User", "bob"),
        ("X-Forwarded-Groups", "analysts"),
        ("X-Holdfast-Proxy", PROXY_SECRET),
    ]
    async with httpx.AsyncClient(transport=transport, base_url=URL) as client:
        reply = await client.get("/v1/me", headers=headers)
    assert reply.status_code == 401
    assert "twice" in reply.json()["detail"]


@pytest.mark.anyio
async def test_a_provider_that_hangs_keeps_nobody_waiting_but_those_who_sign_in(serving, monkeypatch):
    """Each of them had a thread of the service, without a token, until there were none left."""
    service, transport = serving
    token, _ = service.tokens.issue("ann", role="analyst")
    over, asked = Event(), []

    def hanging(address):
        asked.append(address)
        over.wait(30)
        raise httpx.ConnectTimeout("away")

    monkeypatch.setattr(service.sign_in.provider, "_get", hanging)
    async with httpx.AsyncClient(transport=transport, base_url=URL) as client:
        waiting = [asyncio.create_task(client.get("/v1/sign-in/start")) for _ in range(150)]
        await wait_on_loop(lambda: asked)
        headers = {"Authorization": f"Bearer {token}"}
        try:
            async with asyncio.timeout(10):
                reply = await client.get("/v1/datasets/people", headers=headers)
        finally:
            over.set()
        replies = await asyncio.gather(*waiting)
    assert reply.status_code == 200
    assert {reply.status_code for reply in replies} == {503}
    assert len(asked) == 1  # The others do not wait for the same provider again.


@pytest.mark.anyio
async def test_the_share_of_each_rule_is_that_of_its_own_team(serving):
    """Otherwise a person in two groups would not be bound by the share of the second one's team."""
    service, transport = serving
    owner = service.tokens.issue("olga", role="owner")[1]
    service.administration.change_terms(owner, "other", shares={"lab": 0.001})
    headers = {
        "X-Forwarded-User": "bob",
        "X-Forwarded-Groups": "analysts, lab",
        "X-Holdfast-Proxy": PROXY_SECRET,
        "X-Holdfast": "page",
    }
    async with httpx.AsyncClient(transport=transport, base_url=URL, headers=headers) as client:
        refused = await client.post("/v1/datasets/other/questions", json={"query": "share(x > 0.5)"})
        answered = await client.post("/v1/datasets/people/questions", json={"query": "share(age > 40)"})
    assert refused.json()["type"] == "urn:holdfast:budget-spent", refused.text
    assert answered.status_code == 200
    assert list(service.datasets.get("people").guard.balance.people) == ["town/bob"]


@pytest.mark.parametrize(("one", "other"), [("a/b", "ab"), ("a" * 150 + "1", "a" * 150 + "2"), ("a\t", "a")])
def test_two_people_have_two_names(tmp_path, file, one, other):
    service = Service(tmp_path / "home", sign_in=file)
    sent = {"x-holdfast-proxy": PROXY_SECRET, "x-forwarded-groups": "analysts"}
    people = [service.sign_in.forwarded({**sent, "x-forwarded-user": name}) for name in (one, other)]
    assert people[0].account != people[1].account
    assert all(len(person.name) <= 100 and "/" not in person.name for person in people)
    service.close()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("http://localhost", "http://id.example"), "https"),
        (lambda text: text.replace("http://localhost", "http://localhost.id.example"), "https"),
        (lambda text: text.replace(URL, "http://holdfast.example"), "https"),
        (lambda text: text.replace('role = "analyst"', 'role = "king"'), "role"),
        (lambda text: text.split("[[allow]]")[0], "allow"),
        (lambda text: text + "\n[extra]\n", "extra"),
        (lambda text: text + "not toml", "cannot be read"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_at_the_start(tmp_path, file, change, words):
    file.write_text(change(file.read_text()))
    with pytest.raises((InvalidArgument, HoldfastError), match=words):
        Service(tmp_path / "home", sign_in=file)


@pytest.fixture
def anyio_backend():
    return "asyncio"
