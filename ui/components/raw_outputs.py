"""Files of raw outputs: every number down to what the model wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from ui.client import Client
from ui.components.markup import escape
from ui.components.tables import row, table

MAX_ROWS = 200
_OUTPUTS = ("Item", "Expected", "Found", "Right", "Written")
_FILES = ("Task", "Protocol", "Accuracy", "Unparsed", "Wrong")
_DOCUMENTS = ("Document", "Bits", "Bytes", "Text")


def show(client: Client, case_id: str, names: Mapping[str, str]) -> None:
    """`names`: files by the number that rests on them; indexes of tasks, or documents of bits per byte."""
    number = st.selectbox("Number", list(names), key=f"raw:{case_id}:number")
    if number is None:
        return
    rows = client.potential_outputs(case_id, names[number]).rows
    by_task = {str(each["task"]): each for each in rows if "file" in each}
    if not by_task:
        st.html(table(_DOCUMENTS, [_document(each) for each in rows[1 : MAX_ROWS + 1]]))
        return
    st.html(table(_FILES, [_file(each) for each in by_task.values()]))
    task = st.selectbox("Task", list(by_task), key=f"raw:{case_id}:task")
    outputs = client.potential_outputs(case_id, str(by_task[task]["file"]))
    st.html(table(_OUTPUTS, [_output(each) for each in outputs.rows[1 : MAX_ROWS + 1]]))


def _file(each: dict[str, Any]) -> str:
    numbers = (f"{100 * float(each[name]):.1f} %" for name in ("accuracy", "unparsed", "wrong"))
    return row([escape(each["task"]), escape(each["protocol"]), *numbers])


def _output(each: dict[str, Any]) -> str:
    found = "unparsed" if each["found"] is None else escape(each["found"])
    cells = [escape(each["item"]), escape(each["expected"]), found, "yes" if each["right"] else "no"]
    return row([*cells, f"<code>{escape(each['text'])[:400]}</code>"])


def _document(each: dict[str, Any]) -> str:
    cells = [str(each["document"]), f"{float(each['bits']):.1f}", str(each["bytes"])]
    return row([*cells, f"<code>{escape(each['text'])[:400]}</code>"])
