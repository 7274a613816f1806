"""The chat page of a server, in Chromium: answers come as they are written, in the dark and on narrow screens, too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "serve"))
pytest.importorskip("webgpu_torch_serve")

from servers import Server, serving, write_language_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = write_language_model(tmp_path_factory.mktemp("folders") / "letters")
    with serving(folder, "--api-key", "opensesame") as found:
        yield found


def opened(chromium: Any, server: Server, **options: Any) -> Any:
    page = chromium.new_page(**options)
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    # The page may ask nobody but the server that it came from.
    page.route(lambda url: not url.startswith(server.address), lambda route: page.problems.append(route.request.url))
    page.goto(server.address)
    return page


def test_a_conversation(chromium: Any, server: Server) -> None:
    page = opened(chromium, server, viewport={"width": 390, "height": 844}, color_scheme="dark")
    page.get_by_role("alert").or_(page.locator(".error")).first.wait_for()
    assert "API key is missing or wrong" in page.locator(".error").inner_text()
    page.get_by_text("Settings").click()
    page.get_by_label("API key").fill("opensesame")
    page.get_by_label("Most tokens").fill("400")
    page.get_by_label("Message").fill("hello there")
    page.keyboard.press("Enter")
    answer = page.locator(".message:not(.user):not(.error)").first
    # It grows while it is written.
    page.wait_for_function("document.querySelectorAll('.message:not(.user):not(.error)')[0]?.textContent.length > 2")
    early = len(answer.text_content())
    page.wait_for_function(
        "before => document.querySelectorAll('.message:not(.user):not(.error)')[0].textContent.length > before",
        arg=early,
    )
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Send").wait_for()
    assert page.locator("h1").inner_text() == "letters" == page.title()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the screen"
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    page.get_by_label("Most tokens").fill("5")
    page.get_by_label("Message").fill("and again")
    page.get_by_role("button", name="Send").click()
    page.wait_for_function("document.querySelectorAll('.message:not(.error)').length == 4")
    page.get_by_role("button", name="Send").wait_for()
    page.get_by_role("button", name="New chat").click()
    assert page.locator(".message").count() == 0
    assert page.problems == []
    page.close()
