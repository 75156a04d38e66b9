# gsvc on a CPU: encodes, decodes, inspects, sends and receives over UDP and TCP.
#   docker build -t gsvc .
#   docker build -t gsvc:refine --build-arg EXTRAS="[refine,stream]" .    # the refiners; ws://
#   docker run --rm -v "$PWD:/work" --user "$(id -u):$(id -g)" gsvc encode video.mp4 -o video.gsv
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY codec codec
COPY encoders encoders
COPY decoders decoders
COPY eval eval
COPY datasets datasets
COPY tools tools
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .

FROM python:3.12-slim
ARG EXTRAS=""
# The second index has PyTorch for CPUs alone, a tenth of the size.
RUN --mount=type=bind,from=build,source=/wheel,target=/wheel \
    pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
    "$(echo /wheel/*.whl)$EXTRAS" \
    && useradd --create-home --uid 1000 gsvc
USER 1000
WORKDIR /work
ENTRYPOINT ["gsvc"]
CMD ["--help"]
