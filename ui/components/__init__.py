"""Small shared pieces. Functions that return a string or a figure are pure; those named `show_*` draw."""
