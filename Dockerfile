# docker build -t trisched .
# docker run --init --stop-timeout 40 --network host -v trisched:/data trisched
#
# --init reaps what shell jobs leave behind; --stop-timeout is longer than the 30 s in which a node drains.
# The node listens on loopback, as everywhere: other addresses need TLS or a proxy, see README.md.
# Your own jobs: start FROM this image, COPY your module to /app, and CMD ["run", "module:app"].

FROM python:3.13-slim AS build
WORKDIR /source
RUN python -m venv /opt/trisched
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY trisched ./trisched
RUN /opt/trisched/bin/python -m pip --disable-pip-version-check install --no-cache-dir \
    --constraint constraints.txt ".[postgres,redis]"

FROM python:3.13-slim
RUN groupadd --gid 10001 trisched \
    && useradd --uid 10001 --gid trisched --no-create-home --home-dir /data --shell /usr/sbin/nologin trisched \
    && install -d -o trisched -g trisched -m 0700 /data \
    && install -d /app
COPY --from=build /opt/trisched /opt/trisched
ENV PATH=/opt/trisched/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TRISCHED_DATA_DIR=/data
USER trisched
WORKDIR /app
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ.get('TRISCHED_PORT', '8000') + '/healthz', timeout=4)"]
ENTRYPOINT ["trisched"]
CMD ["run"]
