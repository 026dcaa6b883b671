"""Markdown to safe HTML."""

import html
import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat.rendering import MAX_MARKDOWN_CHARS, Block, BlockStream, render, render_plain

TEXTS = (
    "",
    "第一轮：请记住 青云-4173",
    "مرحبا بالعالم",
    "😀👩‍👩‍👧‍👦",
    "a\x00b",
    "a\ud800b",
    "\r\n\r\n",
    "a" * 1_000_000,
)


class _Tags(HTMLParser):
    """Collects every tag and attribute, and the text between them."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _value in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def _text_of(source: str) -> str:
    return _Tags(source).text


def _feed_by(text: str, size: int) -> tuple[list[Block], BlockStream]:
    stream = BlockStream()
    blocks: list[Block] = []
    for end in range(0, len(text) + size, size):
        blocks += stream.feed(text[:end])
    return blocks, stream


# What is rendered


def test_paragraphs_headings_and_emphasis() -> None:
    assert render("# Hi *you*\n\nText **here** ~~gone~~\n") == (
        '<h3 dir="auto">Hi <em>you</em></h3>\n'
        '<p dir="auto">Text <strong>here</strong> <s>gone</s></p>\n'
    )


def test_a_table_scrolls_by_itself_and_keeps_its_alignment() -> None:
    result = render("| a | b |\n|:-:|--:|\n| 1 | 2 |\n")
    assert result.startswith('<div class="table-scroll"><table dir="auto">')
    assert '<th class="align-center" dir="auto">a</th>' in result
    assert '<td class="align-right" dir="auto">2</td>' in result
    assert "style" not in result


def test_code_names_its_language_and_is_highlighted_left_to_right() -> None:
    assert render('```python title="x"\nx = 1\n```\n') == (
        '<div class="code" dir="ltr"><div class="code-head">'
        '<span class="code-lang">Python</span></div>'
        '<pre tabindex="0"><code><span class="n">x</span> '
        '<span class="o">=</span> <span class="mi">1</span>\n'
        "</code></pre></div>\n"
    )


@pytest.mark.parametrize(
    ("info", "name"),
    [("", "text"), ("py", "Python"), ("C++", "C++"), ("nosuch", "nosuch"), ("<b>", "&lt;b&gt;")],
)
def test_the_language_shown_is_the_known_name_or_the_word_given(info: str, name: str) -> None:
    assert f'<span class="code-lang">{name}</span>' in render(f"```{info}\nx\n```")


def test_a_long_language_word_is_cut() -> None:
    assert f'<span class="code-lang">{"q" * 30}</span>' in render(f"```{'q' * 999}\nx\n```")


@pytest.mark.parametrize("language", ["", "python", "html", "mermaid", "json", "nosuch"])
def test_the_text_of_a_code_block_is_its_source(language: str) -> None:
    source = '\n\n  <b a="1">&amp; \t x</b>  \n中文 😀\n\n'
    result = render(f"```{language}\n{source}```")
    assert _text_of(result.partition("<pre")[2].partition(">")[2]).rstrip("\n") == source.rstrip(
        "\n"
    )


@pytest.mark.parametrize(
    "text", ["$5 and $6", "to $6; R$ 12,29", "$1,000 or US$ 20", "$5, $6 or (A$7)", "5$ or 6$", "$"]
)
def test_prices_are_no_math(text: str) -> None:
    assert render(text) == f'<p dir="auto">{text}</p>\n'


@pytest.mark.parametrize("text", ["$2x + 1$", "$5$", "$3.14$", "$n$ 10 times", r"$10 \times 2$"])
def test_numbers_that_calculate_are_math(text: str) -> None:
    assert "<math" in render(text)


def test_math_becomes_mathml() -> None:
    assert render("$x^2<y$") == (
        '<p dir="auto"><span class="math-inline"><math display="inline"><mrow><msup><mi>x</mi>'
        "<mn>2</mn></msup><mo>&lt;</mo><mi>y</mi></mrow></math></span></p>\n"
    )
    block = render("$$\n\\frac{a}{b}\n$$\n")
    assert block.startswith('<div class="math-block" dir="ltr"><math display="block">')
    assert "<mfrac>" in block
    assert '<math display="block">' in render("so $$x$$ holds")


@pytest.mark.parametrize("latex", [r"\frac{", r"\newcommand{\x}{yy}\x", "{" * 2_000, "x" * 5_000])
def test_math_that_cannot_be_drawn_is_shown_as_its_source(latex: str) -> None:
    result = render(f"${latex}$")
    assert '<code class="math-source">' in result
    assert _text_of(result).strip() == f"${latex}$"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- שלום\n- b", '<ul dir="rtl">\n<li>שלום</li>\n<li>b</li>\n</ul>\n'),
        (
            "- a\n- שלום",
            '<ul dir="auto">\n<li>a</li>\n<li>שלום</li>\n</ul>\n',
        ),
        ("> 12 مرحبا", '<blockquote dir="rtl">\n<p dir="auto">12 مرحبا</p>\n</blockquote>\n'),
        ("> 12", '<blockquote dir="auto">\n<p dir="auto">12</p>\n</blockquote>\n'),
        (
            "1. שלום\n\n   b",
            '<ol dir="rtl">\n<li>\n<p dir="auto">שלום</p>\n<p dir="auto">b</p>\n</li>\n</ol>\n',
        ),
    ],
)
def test_each_block_has_its_direction_and_containers_that_of_their_first_text(
    text: str, expected: str
) -> None:
    assert render(text) == expected


# What is not


def test_raw_html_is_shown_and_never_run() -> None:
    source = "<script>alert(1)</script> <img src=x onerror=alert(1)> <summary>x</summary>"
    result = render(source)
    assert _Tags(result).tags == {"p"}
    assert _text_of(result).strip() == source


@pytest.mark.parametrize("language", ["html", "svg", "mermaid", "xml"])
def test_fenced_html_svg_and_mermaid_are_only_code(language: str) -> None:
    source = 'a["<img src=x onerror=alert(1)>"] <svg onload=alert(1)><foreignObject>'
    result = render(f"```{language}\n{source}\n```")
    assert _Tags(result).tags <= {"div", "span", "pre", "code"}
    assert _text_of(result.partition("<pre")[2].partition(">")[2]).strip() == source


@pytest.mark.parametrize(
    "address",
    ["javascript:alert(1)", "data:text/html,x", "vbscript:x", "/accounts/logout/", "//evil", "#x"],
)
def test_links_lead_to_the_web_or_to_mail_and_nowhere_else(address: str) -> None:
    result = render(f"[x]({address}) ![y]({address}) <{address}>")
    assert "a" not in _Tags(result).tags


def test_links_open_apart_and_tell_nothing_about_this_page() -> None:
    assert render("[x](https://e.com/ 'T')") == (
        '<p dir="auto"><a href="https://e.com/" title="T" target="_blank"'
        ' rel="noopener noreferrer nofollow">x</a></p>\n'
    )


def test_an_image_is_a_link_and_loads_nothing() -> None:
    assert render("![a *pic*](https://e.com/i.png)") == (
        '<p dir="auto"><a href="https://e.com/i.png" class="image-link" target="_blank"'
        ' rel="noopener noreferrer nofollow">a pic</a></p>\n'
    )
    assert ">https://e.com/i.png</a>" in render("![](https://e.com/i.png)")
    assert render("[![in](https://e.com/i.png)](https://e.com/)").count("<a ") == 1


@pytest.mark.parametrize(
    "latex",
    [
        r"\text{<img src=x onerror=alert(1)>}",
        r"\href{javascript:alert(1)}{x}",
        r"\style{position:fixed}{x}",
        r"\class{overlay}{x}",
        r"\text{</math><script>alert(1)</script>}",
        r"\text{&lt;script&gt;alert(1)&lt;/script&gt;}",
    ],
)
def test_math_brings_no_html_links_styles_or_classes(latex: str) -> None:
    tags = _Tags(render(f"$${latex}$$"))
    assert not tags.tags & {"img", "script", "a"}
    assert not tags.attributes & {"href", "style", "onerror", "src"}
    assert "overlay" not in re.findall('class="([^"]*)"', render(f"$${latex}$$"))


@given(st.text(alphabet="ab<>&\"'`*_[]()!$#|-\\~:/ \n=\x00é中ש", max_size=200))
@settings(max_examples=300, deadline=None)
def test_no_text_yields_a_tag_or_attribute_off_the_list(text: str) -> None:
    found = _Tags(render(text))
    assert not found.tags & {"script", "style", "img", "iframe", "svg", "form", "input", "html"}
    assert found.attributes <= {
        "class", "dir", "href", "title", "rel", "target", "start", "tabindex", "display",
        "stretchy", "fence", "form", "separator", "lspace", "rspace", "mathvariant", "width",
        "movablelimits", "displaystyle", "linethickness", "scriptlevel", "columnalign",
    }  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_is_rendered(text: str) -> None:
    for result in (render(text), render_plain(text)):
        result.encode()
        assert "\x00" not in result


def test_plain_text_keeps_every_blank_line_break_and_tag() -> None:
    source = "/// <summary>\n    indented &amp; \t\n\n\nend\r\nnext"
    assert render_plain(source) == (
        '<div class="plain" dir="auto">/// &lt;summary&gt;\n    indented &amp;amp; \t\n\n\n'
        "end\nnext</div>"
    )
    assert render_plain("a\x00b\ud800c") == '<div class="plain" dir="auto">a\ufffdb\ufffdc</div>'


# Sizes


def test_a_text_over_the_size_is_shown_as_it_is() -> None:
    assert render("*a*" + " " * (MAX_MARKDOWN_CHARS - 3)).startswith('<p dir="auto"><em>a</em>')
    assert render("*a*" + " " * (MAX_MARKDOWN_CHARS - 2)).startswith('<div class="plain"')


@pytest.mark.parametrize(
    "piece",
    [
        "[", "![", "[a](", "*a **b ", "`a``b", "<a ", "$a ", "$$a ", "# h\n$$a\n", "> ", ">>", "- ",
        "> a\nb\n", "- a\n\n", "* a\n  * b\n    * c\n", "a|b\n-|-\n|\n", "[a\n", "[x]: <b\n", "&",
        "```java\n" + "a b " * 5 + "\n```\n", "```\na\n```\n", "\n", "x ", "line\n", "\\[",
        "![[]()", "~~a ", "(", "$\\frac{a}{b}$ ", "😀", "    ", "\t- a\n",
        "```python\n" + " " * 40 + "\n",
    ],
)  # fmt: skip
def test_the_cost_of_any_pattern_stays_bounded(piece: str) -> None:
    text = piece * (30_000 // len(piece))
    began = time.process_time()
    render(text)
    blocks, _stream = _feed_by(text, 3_000)
    assert time.process_time() - began < 5
    assert all(block.from_ < block.through for block in blocks)


@pytest.mark.parametrize("language", ["java", "csharp", "c", "python", "rst", "make", "terraform"])
@pytest.mark.parametrize("line", ["a b " * 4 + "\n", " " * 10 + "\n", "<<A\n", "a" * 19_999])
def test_the_cost_of_highlighting_stays_bounded(language: str, line: str) -> None:
    source = line * (20_000 // len(line))
    began = time.process_time()
    result = render(f"```{language}\n{source}\n```")
    assert time.process_time() - began < 3
    assert html.unescape(re.sub("<[^>]*>", "", result.partition("<pre")[2])).count("\n") >= 1


def test_highlighting_stops_after_so_much_code_in_one_message() -> None:
    block = "```python\n" + "x = 1\n" * 3_000 + "```\n"
    parts = render(block * 4).split("</pre>")
    assert ['class="n"' in part for part in parts[:4]] == [True, True, True, False]


# Finished blocks of a growing text


def test_a_block_is_finished_when_another_one_follows() -> None:
    stream = BlockStream()
    assert stream.feed("# One\n") == []
    assert stream.feed("# One\n\nTwo") == []
    assert stream.feed("# One\n\nTwo\n") == [Block(0, 6, '<h3 dir="auto">One</h3>\n')]
    assert stream.feed("# One\n\nTwo\nstill two\n") == []
    assert stream.feed("# One\n\nTwo\nstill two\n\n- a\n") == [
        Block(6, 21, '<p dir="auto">Two\nstill two</p>\n')
    ]


def test_offsets_are_code_points_whatever_the_newlines() -> None:
    text = "😀שלום\r\n\r\nb\x00\r\rc\ud800\n\nd\n\n"
    blocks, _stream = _feed_by(text, 1)
    assert [text[block.from_ : block.through] for block in blocks] == [
        "😀שלום\r\n",
        "\r\nb\x00\r",
        "\rc\ud800\n",
    ]


def test_nothing_after_an_open_math_block_is_finished_until_it_closes() -> None:
    stream = BlockStream()
    assert stream.feed("a\n\n$$\nx\n# y\n") == [Block(0, 2, '<p dir="auto">a</p>\n')]
    (block,) = stream.feed("a\n\n$$\nx\n# y\n$$\nend\n")
    assert (block.from_, block.through) == (2, 15)
    assert block.html.startswith('<div class="math-block"')


def test_a_definition_of_an_earlier_block_serves_a_later_one() -> None:
    text = "[e]: https://e.com\n\none\n\n[e] and [f]\n\n[f]: https://f.com\n\nend\n"
    blocks, _stream = _feed_by(text, 1)
    assert [block.html.count("<a ") for block in blocks] == [0, 1]


def test_a_text_that_shrinks_is_refused() -> None:
    stream = BlockStream()
    stream.feed("abc")
    with pytest.raises(ValueError, match="shrank from 3 to 2"):
        stream.feed("ab")


def test_a_text_over_the_size_finishes_no_more_blocks() -> None:
    stream = BlockStream()
    assert stream.feed("a\n\n" * MAX_MARKDOWN_CHARS) == []


_LINES = st.sampled_from(
    [
        "", "", "text", "# head", "- item", "  - sub", "    code", "1. one", "> quote", ">",
        "```", "```python", "~~~", "$$", "$$x$$", "$$ a", "x $$", "a|b", "-|-", "---", "===",
        "- $$", "> $$", "- ```", "**b** `c` $m$", "<div>", "\tTab", "| c |", "-", "* * *", "  $$",
        "[x](https://e.com)", "שלום", "\\", "  ", "```\r", "a\rb", "$$ b $$ c", "-    $$y",
    ]
)  # fmt: skip


@given(st.lists(_LINES, max_size=14), st.integers(1, 9))
@settings(max_examples=600, deadline=None)
def test_finished_blocks_and_the_rest_render_like_the_whole(lines: list[str], size: int) -> None:
    text = "\n".join(lines)
    blocks, _stream = _feed_by(text, size)
    assert [block.from_ for block in blocks] == [0, *(block.through for block in blocks)][:-1]
    done = blocks[-1].through if blocks else 0
    assert "".join(block.html for block in blocks) + render(text[done:]) == render(text)
