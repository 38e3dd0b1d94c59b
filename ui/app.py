"""Entry script: `python -m streamlit run ui/app.py`. Sign-in and navigation; one file per page in `views/`."""

from __future__ import annotations

from pathlib import Path

import httpx
import streamlit as st
from streamlit.navigation.page import Page

from ui import session
from ui.client import Client
from ui.components.messages import errors_shown, show_error
from ui.transport import UNAUTHORIZED, ApiError, UiSettings, connect
from ui.views import (
    approvals,
    chat,
    classifiers,
    compare,
    data,
    evolution,
    found,
    loops,
    memory,
    potential,
    run,
    runs,
    system,
    timeline,
    today,
)

FOLDER = Path(__file__).parent


@st.cache_resource
def _pool(api_url: str) -> httpx.Client:
    """One connection pool for all browser sessions."""
    return connect(api_url)


def main() -> None:
    st.set_page_config(page_title="Lathe", page_icon=str(FOLDER / "icon.svg"), layout="wide")
    st.html(FOLDER / "style.css")
    st.logo(str(FOLDER / "logo.svg"), size="large")
    # Before sign-in too: without it a deep link to another page would lose its path.
    pages = _pages()
    session.keep_pages(page for group in pages.values() for page in group)
    page = st.navigation(pages, position="top")
    with errors_shown():
        if _signed_in(UiSettings()):
            page.run()


def _pages() -> dict[str, list[Page]]:
    """Five entries in the menu; what has no entry is reached by links."""
    return {
        "": [
            st.Page(today.page, title="Today", icon=":material/wb_twilight:", url_path="today", default=True),
            st.Page(approvals.page, title="Approvals", icon=":material/rule:", url_path="approvals"),
            st.Page(chat.page, title="Chat", icon=":material/forum:", url_path="chat"),
        ],
        "Runs & data": [
            st.Page(runs.page, title="All runs", icon=":material/show_chart:", url_path="runs"),
            st.Page(compare.page, title="Compare", icon=":material/compare_arrows:", url_path="compare"),
            st.Page(potential.page, title="Potential", icon=":material/trending_up:", url_path="potential"),
            st.Page(timeline.page, title="Timeline", icon=":material/timeline:", url_path="timeline"),
            st.Page(data.page, title="Data", icon=":material/database:", url_path="data"),
            st.Page(classifiers.page, title="Classifiers", icon=":material/label:", url_path="classifiers"),
            st.Page(run.page, title="Run", url_path="run", visibility="hidden"),
        ],
        "Memory & system": [
            st.Page(memory.page, title="Memory", icon=":material/history_edu:", url_path="memory"),
            st.Page(loops.page, title="Loops", icon=":material/autorenew:", url_path="loops"),
            st.Page(evolution.page, title="Evolution", icon=":material/account_tree:", url_path="evolution"),
            st.Page(system.page, title="System", icon=":material/tune:", url_path="system"),
            st.Page(found.page, title="Open", url_path="open", visibility="hidden"),
        ],
    }


def _signed_in(settings: UiSettings) -> bool:
    """True when the API accepts this session's token; otherwise the sign-in form stands where the page would be."""
    token = session.find_token(settings.token)
    client = Client(http=_pool(settings.api_url), token=token)
    if not token:
        session.remember("")
        _show_sign_in()
        return False
    try:
        session.begin(client, client.health())
    except ApiError as error:
        if error.status != UNAUTHORIZED:
            raise
        _show_sign_in(error)
        return False
    return True


def _show_sign_in(refusal: ApiError | None = None) -> None:
    _, middle, _ = st.columns([1, 1.4, 1])
    with middle:
        st.html("<h2>Sign in</h2><p>Open the address that <code>lathe up</code> printed, or paste its token here.</p>")
        if refusal:
            show_error(refusal)
        with st.form("sign-in", border=True):
            token = st.text_input("Access token", type="password", autocomplete="off")
            if st.form_submit_button("Sign in", type="primary") and token:
                session.sign_in(token)
                st.rerun()


if __name__ == "__main__":
    main()
