"""One file per page, each with a function `page`; `app.py` registers it in one line.

The folder is not called `pages`: Streamlit would run files of that name as scripts of their own, without sign-in.
"""
