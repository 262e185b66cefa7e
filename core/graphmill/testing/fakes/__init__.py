"""Devices, plugins and hosts that exist for tests.

strict_device       a device with memory of its own, which refuses arrays of others
fault_injection     make kernels, copies and allocations of any device fail
chaos_plugin        end kernels in other threads, in an unpredictable order
third_party_plugin  ops and kernels as another distribution would bring them
twin_ops            ops under other names, with the same traits and kernels
executor_probe      count calls of `done` and kernels in flight
host_variants       a host with another device or executor
"""
