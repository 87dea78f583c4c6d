"""Measurements that `make speed` runs: ratios, measured side by side in one run, with the quality that was kept."""
