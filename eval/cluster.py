"""A Ray cluster: one that is there, or one on this machine."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gsvc.codec.errors import ConfigError
from gsvc.eval.bench.pool import THREAD_VARIABLES
from gsvc.eval.optional import optional

LOCAL = "local"


@contextmanager
def ray_cluster(address: str, jobs: int = 0, store_bytes: int | None = None) -> Iterator[Any]:
    """Connect to the cluster at `address` ("auto", "ray://host:port", "host:port"); gives `ray`.

    "local" starts one on this machine with `jobs` cores, 0 for all, and an object store of
    `store_bytes`, None for what Ray takes. Raises MissingDependencyError without Ray, ConfigError
    when nothing answers at the address.
    """
    with optional("--ray needs Ray: pip install 'gsvc[ray]'"):
        import ray
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    variables = dict.fromkeys(THREAD_VARIABLES, "1")
    if address == LOCAL:
        variables["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        options |= {"address": "local", "num_cpus": jobs or None, "include_dashboard": False}
        options["object_store_memory"] = store_bytes
    else:
        options["address"] = address
    try:
        ray.init(runtime_env={"env_vars": variables}, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConfigError(f"no Ray cluster at {address}: {error}") from error
    try:
        yield ray
    finally:
        ray.shutdown()
