"""The tests' cluster: what `benchmarks.standalone` starts, quick to start, and its object store."""

from collections.abc import Mapping
from pathlib import Path

import object_server
from conftest import JAVA

from benchmarks import standalone
from benchmarks.standalone import Cluster, wait_for

__all__ = ["S3_EXCLUDED", "S3_PACKAGES", "Cluster", "in_object_stores", "started", "wait_for"]

S3_PACKAGES = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    *(
        f"software.amazon.awssdk:{name}:2.35.4"
        for name in ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
    ),
)
"""What Spark reads object stores with: of Amazon's client the parts that it needs, not all."""
S3_EXCLUDED = "software.amazon.awssdk:bundle"


def started(place: Path):
    """A cluster of two workers that runs meanwhile."""
    return standalone.started(place, java=JAVA)


def in_object_stores(address: str) -> Mapping[str, str]:
    """The settings with which a session uses the tests' service."""
    own = {
        "endpoint": address,
        "endpoint.region": object_server.REGION,
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": object_server.KEY,
        "secret.key": object_server.SECRET,
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in own.items()}
