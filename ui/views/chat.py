"""Chat: ask what changed, why, what was tried. Every statement names what it rests on; works without a model."""

from __future__ import annotations

from collections.abc import Iterator

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ui import links, session
from ui.client import Client, Piece
from ui.components import answer as answers
from ui.components import ask_box
from ui.components.live import attended
from ui.components.markup import escape, when
from ui.components.messages import errors_shown, show_empty, show_error
from ui.conversation import Answer, Thread, WholeThread
from ui.transport import ApiError

MAX_THREADS = 20
_EXAMPLES = (
    "What is the status?",
    "What changed before it began?",
    "Why did it happen?",
    "What was tried before?",
)


def page() -> None:
    client = session.client()
    st.html("<h1 class='lt-page'>Chat</h1>")
    threads = client.threads()
    side, main = st.columns([1, 3], gap="medium")
    with side:
        _show_threads(threads)
    with main:
        wanted = st.query_params.get("thread")
        if wanted:
            _show_thread(client, client.thread(wanted))
        else:
            _show_new(client)


def _show_threads(threads: tuple[Thread, ...]) -> None:
    here = st.query_params.get("thread")
    rows = "".join(_thread_row(thread, is_chosen=thread.id == here) for thread in threads[:MAX_THREADS])
    st.html(
        '<nav class="lt-side lt-threads" aria-label="Threads"><h4>Threads</h4><ul>'
        f'<li><a href="/chat" target="_self">+ New question</a></li>{rows}</ul>'
        '<p class="lt-muted"><a href="/system" target="_self">What leaves this machine</a>, under Providers</p></nav>'
    )


def _thread_row(thread: Thread, *, is_chosen: bool) -> str:
    about = thread.investigation_id or thread.run_id or "everything"
    look = ' class="lt-chosen" aria-current="true"' if is_chosen else ""
    return (
        f'<li{look}><div><a href="{escape(links.thread(thread.id))}" target="_self">{escape(thread.title)}</a>'
        f"<small>{escape(about)} · {escape(when(thread.created_at))}</small></div></li>"
    )


def _show_new(client: Client) -> None:
    """The first question of a thread, about the run or case of the address or about anything."""
    run_id, case_id = st.query_params.get("run", ""), st.query_params.get("investigation", "")
    about = case_id or run_id
    show_empty(
        f"Ask about {about}" if about else "Ask about your runs, cases and what was tried",
        "Answers cite what they rest on; one click opens it. What is not on record, the answer says so.",
    )
    if not _may_ask():
        return
    question = st.chat_input("What changed before step 180?", max_chars=4000) or _example()
    if question:
        ask_box.begin(client, question, run_id=run_id, investigation_id=case_id)


def _example() -> str | None:
    with st.container(horizontal=True):
        pressed = [example for example in _EXAMPLES if st.button(example)]
    return next(iter(pressed), None)


def _may_ask() -> bool:
    principal = session.principal()
    if principal.role == "viewer":
        show_empty("You can read, but not ask", "Asking needs a token with the role researcher; an admin makes one.")
    return principal.role != "viewer"


def _show_thread(client: Client, whole: WholeThread) -> None:
    thread = whole.thread
    may_act = session.principal().role != "viewer"
    st.html(_about(thread))
    for number, exchange in enumerate(whole.exchanges):
        with st.chat_message("user"):
            st.html(f"{escape(exchange.question)} <span class='lt-muted'>{escape(exchange.actor)}</span>")
        with st.chat_message("assistant"):
            st.html(answers.render(exchange.answer))
            answers.show_cards(client, exchange.answer, key=f"{thread.id}:{number}", may_act=may_act)
    if not _may_ask():
        return
    place = st.container()
    typed = st.chat_input("Ask further", max_chars=4000)
    question = st.session_state.pop(ask_box.ASKED, None) or typed
    if question:
        with place:
            _answer(client, thread, question)
    elif thread.created_by == session.principal().name and whole.exchanges:
        st.button("Delete this thread", on_click=_delete, args=(client, thread), icon=":material/delete:")


def _about(thread: Thread) -> str:
    if thread.investigation_id:
        address, words = links.investigation(thread.investigation_id), f"About {thread.investigation_id}"
    elif thread.run_id:
        address, words = links.run(thread.run_id), f"About {thread.run_id}"
    else:
        return "<p class='lt-muted'>About everything on record</p>"
    return f'<p><a href="{escape(address)}" target="_self">{escape(words)}</a></p>'


def _answer(client: Client, thread: Thread, question: str) -> None:
    """Stream the answer. Any click ends the reading, and with it the answer."""
    with st.chat_message("user"):
        st.html(escape(question))
    with st.chat_message("assistant"):
        st.button("Stop", icon=":material/stop_circle:")  # a click suffices: see `attended`
        if _stream(client, thread, question):
            st.rerun()


def _stream(client: Client, thread: Thread, question: str) -> bool:
    """True when the whole answer is kept in the thread."""
    place, beat = st.empty(), st.empty()
    pieces = attended(client.ask(thread.id, question), lambda: _stop(client, thread.id))
    last: list[str | Answer] = []
    try:
        while not last:
            with place.container(), st.spinner("Looking it up"):
                st.write_stream(_words(pieces, last, beat))
    except ApiError as error:
        show_error(error)
        return False
    return isinstance(last[0], Answer)


def _words(pieces: Iterator[Piece | None], last: list[str | Answer], beat: DeltaGenerator) -> Iterator[str]:
    """The words of one draft; ends where it is void, and with the last piece, which goes into `last`."""
    for piece in pieces:
        if piece is None:
            beat.empty()  # any call lets Streamlit notice a click
        elif piece[0] == "draft":
            yield answers.draft(str(piece[1]))
        elif piece[0] == "restart":
            return
        else:
            last.append(piece[1])
    if not last:
        last.append("")


def _stop(client: Client, thread_id: str) -> None:
    with errors_shown():
        client.stop(thread_id)


def _delete(client: Client, thread: Thread) -> None:
    with errors_shown():
        client.delete_thread(thread.id)
        st.query_params.clear()
