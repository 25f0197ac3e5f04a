"""Simulators and Gymnasium environments of datacenters on renewable power and a changing grid.

Importing this package registers the environments with Gymnasium. It never imports torch, so that
environment workers start quickly.
"""
