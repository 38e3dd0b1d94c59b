"""The sections of an investigation, in the order a reader needs them; each module draws one (`show`)."""
