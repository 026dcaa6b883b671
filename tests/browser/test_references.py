"""Documents of an assistant and the form of its answers, as the page tells of them."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenChat
from tests.clients import Person
from tests.databases import run_with_models

ADD_LIBRARIAN = """
from chat import documents
from chat.models import Assistant, ModelEndpoint
endpoint = ModelEndpoint.objects.get(name="demo")
made = Assistant(slug="librarian", name="Librarian", endpoint=endpoint)
made.output_schema = {"type": "object", "required": ["count"]}
made.full_clean()
made.save()
documents.add(made, "handbook.md", "# Refunds\\n\\nRefunds take two weeks.".encode())
"""


@pytest.fixture(scope="module")
def librarian(site_database: str) -> str:
    run_with_models(site_database, ADD_LIBRARIAN)
    return "librarian"


def test_passages_and_a_missed_schema_are_shown(
    librarian: str, open_chat: OpenChat, new_person: Person
) -> None:
    chat = open_chat(new_person, new_person.new_session(assistant=librarian))
    chat.ask("How long do refunds take?")
    note = chat.answers.first
    expect(note).to_contain_text("The answer does not follow the output schema: it is not JSON")
    panel = chat.show_details("What was sent")
    expect(panel.get_by_role("heading", name="Passages from documents")).to_be_visible()
    expect(panel.get_by_role("listitem").filter(has_text="handbook.md › Refunds")).to_be_visible()
    expect(panel).to_contain_text("The answer has a prescribed form: sent beside the messages")
    chat.ask('demo: json {"count": 14}')
    expect(chat.answers.last).not_to_contain_text("does not follow")
    expect(panel).to_contain_text("Nothing in the assistant's documents matched your message")
