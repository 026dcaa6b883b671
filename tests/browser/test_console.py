"""The watch over the console sees what it is there for."""

from __future__ import annotations

from playwright.sync_api import Browser, Page

from tests.browser.console import ConsoleWatch

ADDRESS = "http://page.test/"
STRICT = {"Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'"}


def opened(browser: Browser, watch: ConsoleWatch, body: str) -> Page:
    """A page with that body, under a strict policy, with an app.js that throws."""
    context = browser.new_context()
    watch.watch(context)
    page = context.new_page()
    page.route("**/*", lambda route: route.fulfill(status=404, body=""))
    page.route(
        ADDRESS, lambda route: route.fulfill(body=body, content_type="text/html", headers=STRICT)
    )
    page.route("**/app.js", lambda route: route.fulfill(body="throw new Error('broken')"))
    page.goto(ADDRESS)
    page.wait_for_timeout(100)
    return page


def test_a_quiet_page_has_no_problems(browser: Browser, console: ConsoleWatch) -> None:
    opened(browser, console, "<p>Good day</p>")
    assert console.problems() == []


def test_an_inline_script_that_the_policy_stops_is_a_problem(
    browser: Browser, console: ConsoleWatch
) -> None:
    opened(browser, console, "<script>document.title = 'no'</script>")
    assert len(console.problems()) == 1
    assert "Content Security Policy" in console.problems()[0]


def test_an_inline_style_that_the_policy_stops_is_a_problem(
    browser: Browser, console: ConsoleWatch
) -> None:
    opened(browser, console, '<p style="color: red">red</p>')
    assert "Content Security Policy" in console.problems()[0]


def test_an_uncaught_error_is_a_problem(browser: Browser, console: ConsoleWatch) -> None:
    opened(browser, console, "<script src=/app.js></script>")
    assert console.problems() == ["uncaught: broken"]


def test_a_failed_load_is_a_problem_unless_it_is_expected(
    browser: Browser, console: ConsoleWatch
) -> None:
    opened(browser, console, "<script src=/missing.js></script>")
    assert len(console.problems()) == 1
    console.allow("404")
    assert console.problems() == []
