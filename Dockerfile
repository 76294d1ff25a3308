# One image for all: every service, the command line, and nats-server. The command chooses.
#
# Builds with BuildKit and with the classic builder. With binaries that were made elsewhere, for a machine like the
# run-time base: put aip, nats-server and ca-certificates.crt into target/prebuilt/ and say
#   --build-arg BINARIES=prebuilt --build-arg BUILD_BASE=debian:bookworm-slim
ARG BUILD_BASE=rust:1.95-bookworm
ARG RUN_BASE=debian:bookworm-slim

FROM ${BUILD_BASE} AS binaries
ARG BINARIES=built
WORKDIR /src
COPY . .
# `aip nats-server` fetches the pinned build and checks its sum.
RUN set -eu; mkdir -p /out/bin /out/certs; \
    if [ "$BINARIES" = prebuilt ]; then \
      cp target/prebuilt/aip target/prebuilt/nats-server /out/bin/; \
      cp target/prebuilt/ca-certificates.crt /out/certs/; \
    else \
      cargo build --release --locked --package aip; \
      strip -o /out/bin/aip target/release/aip; \
      cp "$(target/release/aip nats-server)" /out/bin/nats-server; \
      cp /etc/ssl/certs/ca-certificates.crt /out/certs/; \
    fi

FROM ${RUN_BASE}
# Volumes that are mounted here for the first time belong to the user, too.
RUN install -d -m 0700 -o 10001 -g 10001 /etc/aip /var/lib/aip
COPY --from=binaries /out/bin/ /usr/local/bin/
# Whoever fetches a token issuer's keys wants to know whom to trust; a slim base does not say.
COPY --from=binaries /out/certs/ /etc/ssl/certs/
USER 10001:10001
WORKDIR /var/lib/aip
ENV AIP_PROFILE=/etc/aip/client.toml
EXPOSE 8080
HEALTHCHECK --interval=3s --timeout=5s --retries=20 CMD ["aip", "health", "--url", "http://127.0.0.1:8080/ready"]
CMD ["aip", "--help"]
