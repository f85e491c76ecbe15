# The image of the site, and that of the balancer in front of several.
#   docker build .                     the site
#   docker build --target balancer .   the balancer

FROM golang:1.26 AS build
WORKDIR /src
# Where modules come from, if not from where Go looks by itself.
ARG GOPROXY
ARG GOSUMDB
# The modules change seldom, so they are a layer of their own.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# Neither image has a libc, hence no cgo.
RUN --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w' -o /bin/ ./cmd/app ./compose/balancer

# Certificates are for databases that are reached over TLS.
FROM scratch AS base
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
USER 65532:65532

FROM base AS balancer
COPY --from=build /bin/balancer /balancer
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=6s --start-period=30s CMD ["/balancer", "healthcheck"]
ENTRYPOINT ["/balancer"]

FROM base AS app
COPY --from=build /bin/app /app
ENV ADDR=:8080
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=6s --start-period=30s CMD ["/app", "healthcheck"]
ENTRYPOINT ["/app"]
CMD ["serve"]
