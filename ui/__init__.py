"""Lathe's web pages: Streamlit over the HTTP API, and nothing else (no other package of ours is imported).

app         entry script: page config, sign-in, navigation
client      the one seam to the API: requests, typed answers, readable errors
records     what the API answers
session     who is signed in, in this browser session
links       deep links to every object
palette     colours that survive colour blindness, light and dark
components  small shared pieces: plots, diff, chips, messages
case        the sections of an investigation
views       one file per page
"""
