"""How the demo's page looks, light, dark and on a phone, in a real Chromium; pictures are kept as
``pictures_folder`` says."""

from __future__ import annotations

from browser import PHONE, browsing, pictures_folder, serious_faults, sticks_out
from holdfast.cli._demo_page import Pictures
from holdfast.cli._demo_page import page as demo_page
from holdfast.lab import Stones, tell


def test_the_demo_can_be_read_by_everyone(tmp_path):
    folder = pictures_folder(tmp_path)
    story = tell(Stones.draw(2_000, 80, 0))
    pictures = Pictures.of(story)
    for name, drawn in vars(pictures).items():
        (folder / f"demo-picture-{name}.png").write_bytes(drawn)
    text = demo_page(story, pictures)
    assert "One holdout, used once" in text
    with browsing() as browser:
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1000, "height": 800}, color_scheme=scheme)
            page.set_content(text)
            page.screenshot(path=folder / f"demo-wide-{scheme}.png", full_page=True)
            assert serious_faults(page) == []
            page.set_viewport_size(PHONE)
            page.screenshot(path=folder / f"demo-phone-{scheme}.png", full_page=True)
            assert serious_faults(page) == []
            assert sticks_out(page) == 0
            page.close()
