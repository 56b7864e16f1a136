#!/usr/bin/env python3
"""Whether the manifests under examples/kubernetes are what Kubernetes takes: manifests.py VERSION FILE...

VERSION: 1.31, of the schemas. Those of a JobSet are not to be had, but its jobs are Jobs.
"""
import sys

import kubernetes_validate
import yaml


def resources(path):
    with open(path) as file:
        for resource in yaml.safe_load_all(file):
            if resource["kind"] == "JobSet":
                for job in resource["spec"]["replicatedJobs"]:
                    yield dict(job["template"], apiVersion="batch/v1", kind="Job", metadata={"name": job["name"]})
            else:
                yield resource


version, *paths = sys.argv[1:]
for path in paths:
    for resource in resources(path):
        kubernetes_validate.validate(resource, version, strict=True)
        print(f"{path}: {resource['kind']} {resource['metadata']['name']} is right")
