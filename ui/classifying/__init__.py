"""The sections of the page Classifiers, each a module with `show`."""
