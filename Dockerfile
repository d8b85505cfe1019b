# Loopwright with git, a sandbox and, as asked for, agent programs.
#
#   docker build --build-arg AGENTS='@anthropic-ai/claude-code @openai/codex' --tag loopwright .
#   docker run --rm --volume "$PWD:/repo" --env ANTHROPIC_API_KEY loopwright run "Work" --agent claude
#
# docs/how-to/install.md says more: whose files these are, and what the sandbox needs of the engine.
ARG BASE=python:3.13-slim-trixie
ARG NODE=node:22-trixie-slim

FROM ${BASE} AS wheel
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM ${NODE} AS agents
# Agent programs, as npm packages; without them the image holds nothing of Node.
ARG AGENTS=
SHELL ["/bin/bash", "-euxo", "pipefail", "-c"]
RUN mkdir /agents; \
    if [ -n "${AGENTS}" ]; then \
      xargs npm install --global --prefix /agents --no-fund --no-audit <<<"${AGENTS}"; \
      cp /usr/local/bin/node /agents/bin/; \
    fi

FROM ${BASE}
# Parts of the package that `run`, `up` and `serve` do not need.
ARG EXTRAS=github-app,mcp,notify,otel,temporal
# What your gates need, as Debian packages.
ARG PACKAGES=
SHELL ["/bin/bash", "-euxo", "pipefail", "-c"]
RUN apt-get update; \
    apt-get install --yes --no-install-recommends \
      bubblewrap ca-certificates git openssh-client procps tini ${PACKAGES}; \
    rm -rf /var/lib/apt/lists/*
COPY --from=agents /agents /usr/local
COPY --from=wheel /wheels /wheels
# hadolint ignore=DL3013  # the wheel of the stage above is one version
RUN for wheel in /wheels/*.whl; do pip install --no-cache-dir "${wheel}[${EXTRAS}]"; done; \
    rm -r /wheels; \
    loopwright --version

# Records and workspaces of agents belong to this user; both folders are there for volumes.
RUN useradd --create-home --uid 1000 loopwright; \
    install --directory --owner loopwright --group loopwright \
      /repo /home/loopwright/.local /home/loopwright/.local/state
USER 1000:1000
WORKDIR /repo
# As the first process of a container: ends what agents leave behind, and passes signals on.
ENTRYPOINT ["tini", "--", "loopwright"]
CMD ["--help"]
