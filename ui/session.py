"""Who is signed in. The token comes from `?token=` once, then from a cookie of this browser session.

The token is taken out of the address at once, so that it is not bookmarked or pasted. The cookie is named after
the port, is sent to this host only (SameSite=Strict), ends with the browser session, and is set after the API
accepted the token.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from urllib.parse import quote, unquote, urlsplit

import streamlit as st
from streamlit.navigation.page import Page

from ui.client import Client
from ui.records import Health, Principal

_TOKEN = "token"  # noqa: S105 (a key, not a secret)
_CLIENT = "client"
_HEALTH = "health"
_COOKIE_SET = "cookie_set"
_PAGES = "pages"
_FIRST = "today"


def find_token(configured: str) -> str:
    """The token of this session, "" when nobody signed in."""
    if given := st.query_params.get("token"):
        del st.query_params["token"]
        st.session_state[_TOKEN] = given
        st.session_state.pop(_COOKIE_SET, None)
    if _TOKEN not in st.session_state:
        st.session_state[_TOKEN] = unquote(st.context.cookies.get(_cookie_name(), "")) or configured
    return str(st.session_state[_TOKEN])


def sign_in(token: str) -> None:
    st.session_state[_TOKEN] = token.strip()
    st.session_state.pop(_COOKIE_SET, None)


def sign_out() -> None:
    """Forget the token here and in the browser."""
    sign_in("")


def begin(client: Client, health: Health) -> None:
    """Make the client of an accepted token available to the pages, and remember the token in the browser."""
    st.session_state[_CLIENT] = client
    st.session_state[_HEALTH] = health
    remember(client.token)


def remember(token: str) -> None:
    """Set the browser's cookie once per token; an empty token removes it."""
    place = st.empty()  # always there: what lies below keeps its place, and chosen tabs stay chosen
    if st.session_state.get(_COOKIE_SET) == token:
        return
    st.session_state[_COOKIE_SET] = token
    value = f"{_cookie_name()}={quote(token, safe='')}; SameSite=Strict; path=/"
    age = "" if token else "; max-age=0"
    # json.dumps and percent-encoding: a token from an address can hold anything, and must stay data.
    place.html(f"<script>document.cookie = {json.dumps(value + age)}</script>", unsafe_allow_javascript=True)


def keep_pages(pages: Iterable[Page]) -> None:
    """Of this rerun, for `page`."""
    st.session_state[_PAGES] = {page.url_path or _FIRST: page for page in pages}


def page(path: str) -> Page:
    """The page at this path of an address."""
    found: Page = st.session_state[_PAGES][path]
    return found


def client() -> Client:
    found: Client = st.session_state[_CLIENT]
    return found


def health() -> Health:
    """As of this rerun."""
    found: Health = st.session_state[_HEALTH]
    return found


def principal() -> Principal:
    return health().principal


def _cookie_name() -> str:
    return f"lathe_token_{urlsplit(st.context.url or '').port or 80}"
