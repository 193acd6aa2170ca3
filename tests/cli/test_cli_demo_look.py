"""How the demo's page looks, light, dark and on a phone, in a real Chromium; pictures are kept as
``pictures_folder`` says."""

from __future__ import annotations

import shutil

from browser import PHONE, browsing, pictures_folder, serious_faults, sticks_out

# Words of a picture that is shown which do not lie inside it, with a pixel to spare.
OUTSIDE = """
() => [...document.querySelectorAll("svg.picture")].filter((svg) => svg.checkVisibility()).flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter((text) => {
    const box = text.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
  }).map((text) => text.textContent);
})
"""


def outside(page):
    return page.evaluate(OUTSIDE)


def test_the_demo_can_be_read_by_everyone(holdfast, tmp_path):
    folder, made = pictures_folder(tmp_path), tmp_path / "made"
    status, _, _ = holdfast("demo", "--rows", "2000", "--columns", "80", "--seed", "0", "--out", str(made))
    assert status == 0
    text = (made / "index.html").read_text(encoding="utf-8")
    (folder / "demo.html").write_text(text, encoding="utf-8")
    picture = folder / "demo.svg"
    shutil.copy(made / "demo.svg", picture)
    assert "One holdout, used once" in text
    with browsing() as browser:
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1000, "height": 800}, color_scheme=scheme)
            page.goto(picture.as_uri())
            page.screenshot(path=folder / f"demo-picture-{scheme}.png")
            assert outside(page) == []
            page.goto((folder / "demo.html").as_uri())
            assert outside(page) == []
            page.screenshot(path=folder / f"demo-wide-{scheme}.png", full_page=True)
            assert serious_faults(page) == []
            page.set_viewport_size(PHONE)
            page.screenshot(path=folder / f"demo-phone-{scheme}.png", full_page=True)
            assert serious_faults(page) == []
            assert sticks_out(page) == 0
            assert outside(page) == []
            assert page.locator("svg.picture:visible").count() == 1
            page.close()
