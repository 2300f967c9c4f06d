#!/usr/bin/env python3
"""Seconds until an Attention exists, in a process that has made none before.

    benchmarks/gpu/first_use.py BRIDGE CONFIG_JSON

Prints {"device_s", "attention_s"}: the driver and the context first, which every CUDA program pays
for, then the Attention. $TRENCADIS_CACHE_DIR decides whether its kernels are compiled.
"""

import json
import sys
import time

from bridge import Bridge, Engine


def main() -> int:
    bridge = Bridge(sys.argv[1])
    start = time.perf_counter()
    bridge.open_device()
    opened = time.perf_counter()
    with Engine(bridge, json.loads(sys.argv[2])):
        made = time.perf_counter()
    print(json.dumps({"device_s": opened - start, "attention_s": made - opened}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
