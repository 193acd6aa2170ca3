"""The demo's page: one HTML file that needs nothing beside it."""

from __future__ import annotations

import base64
import html

from holdfast.cli._demo_picture import Pictures
from holdfast.cli._page import filled
from holdfast.demo import TRUTH, Claim, Story, Told
from holdfast.distribution import pip_install
from holdfast.records import interval_words


def page(story: Story, pictures: Pictures | None) -> str:
    """The story as a page, with its pictures for light, dark and narrow screens; None where they were not
    drawn."""
    asking = sum(told.answer.cost for told in story.told)
    searching = story.guard.nats or 0.0
    return filled(
        "demo_page.html",
        rows=f"{story.rows:,}",
        half=f"{story.certificate.numbers['protected rows']:,}",
        population=f"{story.population:,}",
        columns=f"{story.columns:,}",
        seed=story.seed,
        lead=_lead(story),
        discoveries=story.naive.missed,
        picture=_picture(story, pictures),
        claims="\n".join(_claim(claim) for claim in story.claims),
        told="\n".join(_told(told) for told in story.told),
        count=len(story.told),
        once=html.escape(story.once),
        asking=f"{asking:.2g}",
        searching=f"{searching:.2g}",
        asking_share=f"{100 * asking / (asking + searching):.1f}",
        attacked_nats=f"{story.attacked.nats:.0f}",
        left=html.escape(story.left),
        statement=html.escape(story.certificate.statement),
        theorem=html.escape(story.certificate.theorem),
        checked=_list(story.certificate.checked),
        assumed=_list(story.certificate.assumed),
    )


def _lead(story: Story) -> str:
    averages = f'<span class="naive">Plain averages report {story.naive.value:.1%}</span>'
    odds = f", which luck would reach with odds of {_powers(story.luck)}."
    holdfast = '<span class="guard">Holdfast’s intervals contain the truth</span>'
    return (
        averages
        + (", and this time their interval contains the truth. " if story.naive.holds else f"{odds} ")
        + (f"{holdfast}, even when it is attacked on purpose." if story.held else html.escape(story.moral[1]))
    )


def _picture(story: Story, pictures: Pictures | None) -> str:
    if pictures is None:
        install = f"<code>{html.escape(pip_install('plots'))}</code>"
        return f'<p class="note">There is a picture too: {install}, and run the demo again.</p>'
    said = (
        f"{claim.who}: {claim.low:.1%} to {claim.high:.1%}, {'holds' if claim.holds else 'misses'}"
        for claim in story.claims
    )
    words = f"Intervals around the truth, 50%. {'; '.join(said)}."
    dark, narrow = "(prefers-color-scheme: dark)", "(max-width: 40rem)"
    sources = (
        (f"{dark} and {narrow}", pictures.dark_narrow),
        (narrow, pictures.light_narrow),
        (dark, pictures.dark),
    )
    chosen = "".join(
        f'<source media="{condition}" srcset="{_embedded(drawn)}">' for condition, drawn in sources
    )
    return f'<picture>{chosen}<img src="{_embedded(pictures.light)}" alt="{html.escape(words)}"></picture>'


def _embedded(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _claim(claim: Claim) -> str:
    about = {
        "Plain averages": "of every row, with an exact 95% interval that takes no notice of the search",
        "One holdout, used once": "a third of the rows turns the coins; the others say once how often the "
        "vote is right",
        "Holdfast": "the same questions, guesses from its training third",
        "Holdfast, attacked": "guesses on the edges of its cells, so that every answer gives away one bit",
    }[claim.who]
    kind = "holds" if claim.holds else "misses"
    missed = f"{claim.missed:,} of the single coins miss" if claim.missed else "all single coins hold too"
    if claim.missed is None:
        missed = "says nothing about single coins"
    return (
        f'<tr class="{kind}"><th scope="row">{html.escape(claim.who)}<small>{about}</small></th>'
        f'<td data-label="says">{claim.value:.1%}</td>'
        f'<td data-label="95% interval">{claim.low:.1%} to {claim.high:.1%}'
        f"{_bar(claim.low, claim.high, claim.value, (0.3, 0.85), TRUTH)}</td>"
        f'<td data-label="truth 50%"><b>{kind}</b><small>{missed}</small></td></tr>'
    )


def _told(told: Told) -> str:
    answer = told.answer
    value, interval = interval_words(answer.value, answer.low, answer.high)
    room = 0.25 * (answer.high - answer.low)
    places = (answer.low, answer.high, told.truth, answer.guess)
    span = (min(places) - room, max(places) + room)
    found = "near its guess" if answer.confirmed else f"surprise (guess {answer.guess:g})"
    truth = f"{told.truth:,.0f}" if told.truth > 10 else f"{told.truth:.3f}"
    return (
        f'<tr><th scope="row">{html.escape(told.words)}<code>{html.escape(str(answer.query))}</code></th>'
        f'<td data-label="answer">{value}</td><td data-label="interval">{interval}'
        f"{_bar(answer.low, answer.high, answer.value, span, told.truth)}</td>"
        f'<td data-label="truth">{truth}</td><td data-label="cost">{answer.cost:.2g} nats'
        f"<small>{found}</small></td></tr>"
    )


def _bar(low: float, high: float, value: float, span: tuple[float, float], truth: float) -> str:
    """An interval as a small drawing that takes its colours from the page; the tick is the truth."""
    start, end, dot, tick = (
        200 * (min(max(place, span[0]), span[1]) - span[0]) / (span[1] - span[0])
        for place in (low, high, value, truth)
    )
    return (
        '<svg class="bar" viewBox="0 0 200 14" preserveAspectRatio="xMinYMid" aria-hidden="true">'
        '<line class="axis" x1="0" x2="200" y1="7" y2="7"/>'
        f'<rect x="{start:.1f}" y="4.5" width="{end - start:.1f}" height="5" rx="2.5"/>'
        f'<line class="truth" x1="{tick:.1f}" x2="{tick:.1f}" y1="0" y2="14"/>'
        f'<circle cx="{dot:.1f}" cy="7" r="2.6"/></svg>'
    )


def _list(sentences: tuple[str, ...]) -> str:
    return "\n".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)


def _powers(text: str) -> str:
    """10^18 with its exponent raised."""
    base, caret, exponent = html.escape(text).partition("^")
    return f"{base}<sup>{exponent}</sup>" if caret else base
