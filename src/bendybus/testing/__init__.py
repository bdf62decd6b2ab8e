"""The test kit, shipped: what proves a store, disks that fail on demand, brokers for tests."""
