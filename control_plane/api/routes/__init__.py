"""One file per resource; each holds a `router`. A new one also gets a place in `app._ROUTES`."""
