# syntax=docker/dockerfile:1

FROM python:3.13-slim AS build
RUN apt-get update && apt-get install --no-install-recommends --yes gcc libc6-dev
WORKDIR /source
COPY pyproject.toml setup.py leveret_pytest.py README.md LICENSE ./
COPY broker ./broker
COPY requirements/run.txt ./requirements/run.txt
# LEVERET_PURE=0: an image that is not compiled is a failed build. The constraints are the versions that were tested.
ENV LEVERET_PURE=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
RUN pip wheel --no-cache-dir --constraint requirements/run.txt --wheel-dir /wheels .

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels leveret \
    && useradd --system --uid 5672 --no-create-home --shell /usr/sbin/nologin leveret \
    && install --directory --owner leveret --group leveret --mode 700 /var/lib/leveret
USER leveret
ENV PYTHONUNBUFFERED=1 LEVERET_DATA_DIR=/var/lib/leveret
VOLUME /var/lib/leveret
EXPOSE 5672 15672
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 CMD ["leveret", "ping"]
ENTRYPOINT ["leveret"]
# As everywhere, guest may log in from loopback only. For users of your own, mount a configuration:
#   docker run -v leveret:/var/lib/leveret -v ./leveret.yaml:/etc/leveret.yaml:ro -p 5672:5672 leveret serve /etc/leveret.yaml --host 0.0.0.0
CMD ["serve", "--host", "0.0.0.0"]
