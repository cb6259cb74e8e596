# bin/chaos alone, for sweeps over many machines (docs/deploy/kubernetes-chaos.yaml). It is built outside, where git is, so
# that it knows its commit: shares of different commits are not merged.
#
#   CGO_ENABLED=0 make chaos-binary && docker build -f docs/deploy/chaos.Dockerfile -t handoff-chaos-sweep .
FROM debian:bookworm-slim
COPY bin/chaos /usr/local/bin/chaos
# Any user will do: it only writes into --out.
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["chaos"]
