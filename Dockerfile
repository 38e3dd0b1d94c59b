# Lathe in a container. Not built by the project's own tests, which only read this file: see docs/more-than-one-machine.md.
#   docker build -t lathe .
FROM python:3.12-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends git ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 lathe \
    && mkdir -p /var/lib/lathe /projects \
    && chown lathe:lathe /var/lib/lathe /projects

# Outside /usr, which every sandbox shows: data sets with labels come with the packages.
RUN python -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH
WORKDIR /opt/lathe
COPY pyproject.toml requirements.lock README.md LICENSE ./
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir --extra-index-url "${TORCH_INDEX}" --constraint requirements.lock torch
COPY contracts contracts
COPY context_store context_store
COPY kernels kernels
COPY trainer trainer
COPY agents agents
COPY loops loops
COPY control_plane control_plane
COPY ui ui
RUN pip install --no-cache-dir --extra-index-url "${TORCH_INDEX}" --constraint requirements.lock --editable .

USER lathe
ENV LATHE_HOME=/var/lib/lathe PYTHONUNBUFFERED=1
VOLUME /var/lib/lathe
CMD ["python", "-m", "control_plane.services.worker"]
